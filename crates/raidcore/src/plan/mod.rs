//! Plans: what to read, compute and write for a request in a stripe.
//!
//! Planning is pure: pieces of a request, geometry and health go in, a [`Plan`] comes out. A stripe
//! is cut by rows into *bands*, in which the request covers every role wholly or not at all. Each
//! band is planned on its own, and neighbouring I/Os of one role are joined.
//!
//! Invariants of a plan: a read or a write names a role once per row; the scratch buffer of a role
//! holds that role's rows and nothing else; steps use only what was read, given or computed before.

mod band;
mod locate;
mod partial;
mod read;
mod recover;
mod sync;
mod write;

use alloc::vec::Vec;

pub use locate::{Finding, Found, judge_copies, locate, mend};
pub use partial::{agree, keep, leave_out, partial_of};
pub use read::{read, read_aside};
pub use sync::{Goal, also, copy, sync};
pub use write::{Base, write};

use crate::geometry::{Geometry, Role};
use crate::units::{MEMBERS_MAX, Mem, Set};

/// A part of a request: rows of one data chunk, and where their bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which data chunk.
    pub role: Role,
    /// The first row.
    pub row: u32,
    /// How many rows.
    pub blocks: u32,
    /// The user's memory, or [`Mem::Zero`] for write-zeroes.
    pub mem: Mem,
}

impl Piece {
    /// One of its blocks, or of those that follow.
    pub(crate) fn block(&self, offset: u32) -> Self {
        Self { row: self.row + offset, blocks: 1, mem: self.mem.plus(offset), ..*self }
    }
}

/// Rows of a role that can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bad {
    /// Whose.
    pub role: Role,
    /// The first row.
    pub row: u32,
    /// How many rows.
    pub blocks: u32,
}

/// How far a stripe's parity can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parity {
    /// It agrees with the data.
    InStep,
    /// It agrees wherever something was written and acknowledged, and may disagree elsewhere. It is
    /// good enough for recovery. But a delta would keep its errors (and keep P and Q from agreeing
    /// with each other).
    Unproven,
    /// It may disagree anywhere.
    OutOfStep,
}

/// What can be used in a stripe, by role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health<'a> {
    /// Roles whose member holds current data here.
    pub readable: Set<Role>,
    /// Roles whose member must be kept current here.
    pub writable: Set<Role>,
    /// Whether parity agrees with the data.
    pub parity: Parity,
    /// Rows that can't be read although their role can.
    pub bad: &'a [Bad],
}

/// Rows of one role, and the memory they go from or to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubIo {
    /// Whose rows.
    pub role: Role,
    /// The first row.
    pub row: u32,
    /// How many rows.
    pub blocks: u32,
    /// The memory. A scratch buffer's number is the role that it is for.
    pub mem: Mem,
}

/// A run of operands in [`Plan::operands`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operands {
    start: u16,
    count: u16,
}

/// One arithmetic operation. In a plan, memory is as in [`SubIo`] and operands are a run of the
/// plan's. In [`BoundStep`] memory is the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<S = Operands> {
    /// `dst` becomes the sum of the operands.
    Xor {
        /// The sum.
        dst: Mem,
        /// What is summed.
        srcs: S,
    },
    /// `p` and `q` become the parities of the operands, data chunk by data chunk.
    Pq {
        /// The sum.
        p: Mem,
        /// The weighted sum.
        q: Mem,
        /// The data chunks.
        srcs: S,
    },
    /// `q` becomes the weighted sum of the operands.
    Q {
        /// The weighted sum.
        q: Mem,
        /// The data chunks.
        srcs: S,
    },
    /// `dst` is increased by `src`.
    Add {
        /// The sum.
        dst: Mem,
        /// The increase.
        src: Mem,
    },
    /// The parities follow a data chunk's change.
    Delta {
        /// P, if kept.
        p: Option<Mem>,
        /// Q, if kept.
        q: Option<Mem>,
        /// The data chunk's index.
        index: u8,
        /// Its old content.
        old: Mem,
        /// Its new content.
        new: Mem,
    },
    /// `dst` holds `g^index · D` and becomes D.
    Unscale {
        /// The weighted chunk.
        dst: Mem,
        /// The data chunk's index.
        index: u8,
    },
    /// `a` = D_x + D_y and `b` = g^x·D_x + g^y·D_y become D_x and D_y.
    Solve {
        /// First the sum, then D_x.
        a: Mem,
        /// First the weighted sum, then D_y.
        b: Mem,
        /// The lesser index.
        x: u8,
        /// The greater index.
        y: u8,
    },
    /// `dst` becomes zero.
    Clear {
        /// What becomes zero.
        dst: Mem,
    },
    /// `dst` becomes what `src` is.
    Copy {
        /// The copy.
        dst: Mem,
        /// What is copied.
        src: Mem,
    },
    /// The two are compared. May find a [`Found::Difference`].
    Compare {
        /// One.
        a: Mem,
        /// The other.
        b: Mem,
    },
    /// Locates the wrong block of a row, as [`Finding::of_parity`] says.
    Locate {
        /// The row.
        row: u32,
        /// P's syndrome, if it is known.
        p: Option<Mem>,
        /// Q's syndrome, if it is known.
        q: Option<Mem>,
        /// How many data chunks there are.
        data: u8,
    },
    /// Finds the wrong copies of a row, as [`Finding::of_copies`] says.
    Vote {
        /// The row.
        row: u32,
        /// The copies by role; [`Mem::Zero`] for those that are not there.
        copies: S,
    },
}

/// A step whose scratch buffers are numbered as the host has them.
pub type BoundStep<'a> = Step<&'a [Mem]>;

impl Step {
    /// The same step over the memory that `bind` gives; `room` takes its operands.
    pub fn bind<'a>(
        self,
        plan: &Plan,
        bind: impl Fn(Mem) -> Mem,
        room: &'a mut [Mem; MEMBERS_MAX + 2],
    ) -> BoundStep<'a> {
        self.map(&bind, |run| mapped(plan.operands(run), &bind, room))
    }
}

impl BoundStep<'_> {
    /// The same step over other memory, as [`Step::bind`].
    pub fn rebind<'a>(
        self,
        bind: impl Fn(Mem) -> Mem,
        room: &'a mut [Mem; MEMBERS_MAX + 2],
    ) -> BoundStep<'a> {
        self.map(&bind, |mems| mapped(mems, &bind, room))
    }
}

fn mapped<'a>(
    mems: &[Mem],
    bind: impl Fn(Mem) -> Mem,
    room: &'a mut [Mem; MEMBERS_MAX + 2],
) -> &'a [Mem] {
    for (to, &from) in room.iter_mut().zip(mems) {
        *to = bind(from);
    }
    &room[..mems.len()]
}

impl<S> Step<S> {
    /// The same step over other memory, and over operands that are kept in another way.
    pub fn map<T>(self, at: impl Fn(Mem) -> Mem, all: impl FnOnce(S) -> T) -> Step<T> {
        match self {
            Self::Xor { dst, srcs } => Step::Xor { dst: at(dst), srcs: all(srcs) },
            Self::Pq { p, q, srcs } => Step::Pq { p: at(p), q: at(q), srcs: all(srcs) },
            Self::Q { q, srcs } => Step::Q { q: at(q), srcs: all(srcs) },
            Self::Add { dst, src } => Step::Add { dst: at(dst), src: at(src) },
            Self::Delta { p, q, index, old, new } => {
                let (p, q) = (p.map(&at), q.map(&at));
                Step::Delta { p, q, index, old: at(old), new: at(new) }
            }
            Self::Unscale { dst, index } => Step::Unscale { dst: at(dst), index },
            Self::Solve { a, b, x, y } => Step::Solve { a: at(a), b: at(b), x, y },
            Self::Clear { dst } => Step::Clear { dst: at(dst) },
            Self::Copy { dst, src } => Step::Copy { dst: at(dst), src: at(src) },
            Self::Compare { a, b } => Step::Compare { a: at(a), b: at(b) },
            Self::Locate { row, p, q, data } => {
                Step::Locate { row, p: p.map(&at), q: q.map(&at), data }
            }
            Self::Vote { row, copies } => Step::Vote { row, copies: all(copies) },
        }
    }
}

/// How a stripe is written, in order of the amount that is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WriteKind {
    /// Nothing is read.
    Full,
    /// The rest of the stripe is read (reconstruct-write).
    Rest,
    /// Old data and old parity are read (read-modify-write).
    Delta,
    /// All surviving blocks are read, to recover those that can't be.
    Survivors,
}

/// There is not enough redundancy to recover what is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("more is lost than the redundancy makes up for")]
pub struct Lost;

/// What to read, compute and write. Filled in place; what it has allocated stays.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// First, in any order.
    pub reads: Vec<SubIo>,
    /// Then, in this order: the arithmetic and over how many blocks.
    pub steps: Vec<(Step, u32)>,
    /// The operands of the steps.
    pub operands: Vec<Mem>,
    /// Last, in any order.
    pub writes: Vec<SubIo>,
    /// The roles that need a scratch buffer.
    pub scratch: Set<Role>,
    cuts: Vec<u32>,
}

impl Plan {
    /// An empty plan with room for any that `geometry` needs in normal operation.
    #[must_use]
    pub fn with_room_for(geometry: &Geometry) -> Self {
        let roles = geometry.width() + 2;
        Self {
            reads: Vec::with_capacity(roles * 4),
            steps: Vec::with_capacity(roles * 4),
            operands: Vec::with_capacity(roles * 8),
            writes: Vec::with_capacity(roles * 4),
            scratch: Set::EMPTY,
            cuts: Vec::with_capacity(64),
        }
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.steps.clear();
        self.operands.clear();
        self.writes.clear();
        self.scratch = Set::EMPTY;
        self.cuts.clear();
    }

    /// The operands of a step.
    #[must_use]
    pub fn operands(&self, run: Operands) -> &[Mem] {
        &self.operands[usize::from(run.start)..usize::from(run.start + run.count)]
    }

    /// Takes out of the reads the blocks that `had` finds to be there already; tells how many.
    pub fn spare_reads(&mut self, had: impl Fn(Role, u32) -> bool) -> u32 {
        let (count, mut spared) = (self.reads.len(), 0);
        for index in 0..count {
            let io = self.reads[index];
            for offset in 0..io.blocks {
                let (row, mem) = (io.row + offset, io.mem.plus(offset));
                if had(io.role, row) {
                    spared += 1;
                } else {
                    push_joined_from(&mut self.reads, count, SubIo { row, blocks: 1, mem, ..io });
                }
            }
        }
        self.reads.drain(..count);
        spared
    }

    fn read(&mut self, io: SubIo) {
        push_joined(&mut self.reads, io);
    }

    fn write(&mut self, io: SubIo) {
        push_joined(&mut self.writes, io);
    }

    fn step(&mut self, step: Step, blocks: u32) {
        self.steps.push((step, blocks));
    }

    /// The scratch rows of a role.
    fn scratch(&mut self, role: Role, row: u32) -> Mem {
        self.scratch = self.scratch.with(role);
        scratch(role, row)
    }

    fn operands_since(&self, start: usize) -> Operands {
        Operands { start: start as u16, count: (self.operands.len() - start) as u16 }
    }
}

/// Where a plan keeps a row of a role, if it does.
pub(crate) fn scratch(role: Role, row: u32) -> Mem {
    Mem::Scratch { buffer: u16::from(role.0), at: row }
}

/// The role whose scratch buffer takes what is read from a log for `role`; it follows those of a
/// plan.
pub(crate) fn beside(geo: &Geometry, role: Role) -> Role {
    Role::at(geo.width() + 2 + role.index())
}

/// Adds an I/O, joined to an earlier one if it continues that one on the device and in memory.
fn push_joined(list: &mut Vec<SubIo>, io: SubIo) {
    push_joined_from(list, 0, io);
}

/// The same, where I/Os before `first` are none that it could be joined to.
fn push_joined_from(list: &mut Vec<SubIo>, first: usize, io: SubIo) {
    let earlier = list[first..].iter_mut().rev().find(|e| e.role == io.role);
    match earlier {
        Some(e) if e.row + e.blocks == io.row && e.mem.plus(e.blocks) == io.mem => {
            e.blocks += io.blocks;
        }
        Some(_) | None => list.push(io),
    }
}

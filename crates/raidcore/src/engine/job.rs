//! A job: what one stripe's walk through the stages carries with it.

use alloc::vec::Vec;

use det::Instant;

use super::fetching::Fetching;
use super::form::Form;
use super::hedge::Hedge;
use super::retries::Retries;
use super::scrub::Scrub;
use super::stage::{Stage, Turn};
use super::staging::{Kept, Logged};
use super::steering::Way;
use super::warm::Warming;
use super::work::Work;
use super::{PassKind, RequestError};
use crate::geometry::{Geometry, Role};
use crate::plan::{Bad, Base, Piece, Plan, SubIo, WriteKind};
use crate::units::{Mem, MemberId, Set, Stripe, Tag};

/// As many pieces as are carried out together.
pub(super) const PIECES_MAX: usize = 64;

/// The most scratch buffers of a job: as many as a [`Set`] can name.
const BUFFERS_MAX: usize = 64;

/// From this number on, a plan names buffers by the numbers that the host has for them, and not by roles.
const OTHERS: u16 = BUFFERS_MAX as u16;

/// The scratch buffers of a job, by what they are to its plan.
#[derive(Debug)]
pub(super) struct Buffers {
    numbers: [u16; BUFFERS_MAX],
    /// Whether it has those of its plan.
    pub(super) held: bool,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { numbers: [0; BUFFERS_MAX], held: false }
    }
}

impl Buffers {
    /// Takes one buffer after the other for the roles of a plan.
    pub(super) fn fill(&mut self, mut roles: Set<Role>) -> impl FnMut(u16) + '_ {
        move |buffer| {
            if let Some(role) = roles.next() {
                self.numbers[role.index()] = buffer;
            }
        }
    }

    /// The buffer of a role of the plan.
    pub(super) fn of(&self, role: Role) -> u16 {
        self.numbers[role.index()]
    }
}

/// What users have asked for, if it is a part of their requests.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) tags: Vec<Tag>,
    /// One of them is a write with FUA.
    pub(super) fua: bool,
    pub(super) blocks: u32,
    /// When it began.
    pub(super) begun: Instant,
    /// Which way it goes.
    pub(super) way: Way,
    /// When that was chosen, if it was late: a write that had read old data by then.
    pub(super) late: Option<Instant>,
}

impl Asked {
    fn new() -> Self {
        let tags = Vec::with_capacity(PIECES_MAX);
        let (begun, way) = (Instant::ORIGIN, Way::Calm);
        Self { tags, fua: false, blocks: 0, begun, way, late: None }
    }

    fn renew(&mut self, now: Instant) {
        self.tags.clear();
        (self.fua, self.blocks, self.begun) = (false, 0, now);
        (self.way, self.late) = (Way::Calm, None);
    }
}

/// The journal entry of a write.
#[derive(Debug)]
pub(super) struct Journaled {
    /// What it is to hold, besides also what is `kept` as it is.
    pub(super) form: Form,
    pub(super) kept: Vec<SubIo>,
    /// Its number, and the members that hold it, once it is written.
    pub(super) entry: Option<(u64, Set<MemberId>)>,
}

impl Journaled {
    fn new(geo: &Geometry) -> Self {
        Self { form: Form::Whole, kept: Vec::with_capacity(geo.width()), entry: None }
    }

    fn clear(&mut self) {
        (self.form, self.entry) = (Form::Whole, None);
        self.kept.clear();
    }
}

/// One stripe's walk through the stages: from its lock and a plan to reads, arithmetic and writes.
pub struct Job {
    pub(super) work: Work,
    pub(super) stage: Stage,
    pub(super) stripe: Stripe,
    pub(super) pieces: Vec<Piece>,
    pub(super) asked: Asked,
    pub(super) plan: Plan,
    pub(super) bad: Vec<Bad>,
    pub(super) retries: Retries,
    pub(super) base: Base,
    pub(super) kind: WriteKind,
    pub(super) outstanding: u32,
    pub(super) queued: bool,
    pub(super) replan: bool,
    pub(super) scrub: Scrub,
    pub(super) marked: bool,
    pub(super) error: Option<RequestError>,
    pub(super) journaled: Journaled,
    pub(super) log: Logged,
    /// Slots of what is staged: those that its entry gets, or those that it reads.
    pub(super) kept: Vec<Kept>,
    pub(super) fetching: Fetching,
    pub(super) turn: Turn,
    pub(super) hedge: Hedge,
    /// A copy is made of what it reads.
    pub(super) is_copied: bool,
    pub(super) warming: Warming,
    pub(super) buffers: Buffers,
}

impl Job {
    pub(super) fn new(geo: &Geometry) -> Self {
        Self {
            work: Work::Read,
            stage: Stage::Plan,
            stripe: Stripe(0),
            pieces: Vec::with_capacity(PIECES_MAX),
            asked: Asked::new(),
            plan: Plan::with_room_for(geo),
            bad: Vec::new(),
            retries: Retries::default(),
            base: Base::Stored,
            kind: WriteKind::Full,
            outstanding: 0,
            queued: false,
            replan: false,
            scrub: Scrub::default(),
            marked: false,
            error: None,
            journaled: Journaled::new(geo),
            log: Logged::default(),
            kept: Vec::new(),
            fetching: Fetching::default(),
            turn: Turn::Any,
            hedge: Hedge::default(),
            is_copied: false,
            warming: Warming::default(),
            buffers: Buffers::default(),
        }
    }

    /// Makes a slot's last occupant into a new job.
    pub(super) fn renew(&mut self, work: Work, stripe: Stripe, now: Instant) {
        self.work = work;
        self.asked.renew(now);
        self.stage = Stage::Plan;
        self.stripe = stripe;
        self.pieces.clear();
        self.plan.clear();
        self.bad.clear();
        self.retries.clear();
        self.base = Base::Stored;
        self.kind = WriteKind::Full;
        self.queued = false;
        self.replan = false;
        self.scrub.clear();
        self.error = None;
        self.journaled.clear();
        self.log.covers = false;
        self.log.gathered = None;
        self.turn = Turn::Any;
        self.hedge = Hedge::default();
        self.is_copied = false;
        assert!(self.outstanding == 0 && !self.marked && !self.buffers.held);
        assert!(self.log.staged.is_none() && !self.log.promised && self.fetching.is_empty());
        assert!(self.warming.blocks.is_empty() && !self.warming.written && self.kept.is_empty());
    }

    /// What a plan calls memory of the host's, besides that of its roles.
    pub(super) fn in_plan(mem: Mem) -> Mem {
        match mem {
            Mem::Scratch { buffer, at } => Mem::Scratch { buffer: OTHERS + buffer, at },
            Mem::Payload { .. } | Mem::Zero => mem,
        }
    }

    /// The host's memory for the plan's.
    pub(super) fn bind(&self, mem: Mem) -> Mem {
        match mem {
            // It is the host's number, and not a role's.
            Mem::Scratch { buffer: other @ OTHERS.., at } => {
                Mem::Scratch { buffer: other - OTHERS, at }
            }
            Mem::Scratch { buffer, at } => {
                Mem::Scratch { buffer: self.buffers.of(Role::at(usize::from(buffer))), at }
            }
            Mem::Payload { .. } | Mem::Zero => mem,
        }
    }

    /// Whether another job has answered in this one's place.
    pub(super) fn is_given_up(&self) -> bool {
        let is_alone = !self.hedge.is_paired();
        matches!(self.work, Work::Read | Work::Write) && self.asked.tags.is_empty() && is_alone
    }

    /// Whether it is a write that only reads on, and changes nothing at home: another stages the same in its place.
    pub(super) fn leaves_home(&self) -> bool {
        self.is_given_up() && self.asked.way == Way::Around
    }

    /// Whether it changes what users see at home, or brings it there.
    pub(super) fn writes_home(&self) -> bool {
        self.work.is_users() || self.work == Work::Reclaim
    }

    /// How many blocks its pieces have; those of merged writes may overlap.
    pub(super) fn piece_blocks(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.blocks).sum()
    }

    /// Whether it writes to a stripe that was discarded.
    pub(super) fn makes_real(&self) -> bool {
        let writes = match self.work {
            Work::Write | Work::Reclaim => true,
            Work::Sync(PassKind::Reshape) => !self.plan.writes.is_empty(),
            Work::Read
            | Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. } => false,
        };
        writes && self.base == Base::Zeros
    }

    /// Whether it holds its stripe's lock alone. A write that is put into the staging log changes nothing at
    /// home.
    pub(super) fn is_exclusive(&self) -> bool {
        self.work != Work::Read && self.turn != Turn::Beside
    }
}

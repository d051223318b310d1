//! Copies of what is read often: each is made while it is read, and lies on another member, where it
//! is read when home is busy (GC-Steering, Wu et al., sections III-B and III-C: popular read data,
//! stored RAID0-style).
//!
//! Unlike what is staged, a copy is nothing but a help: home has the same. So it is on one member
//! and on record nowhere, and after a start there is none. They lie in a part of each
//! member's staging space, where the oldest make room for new ones.
//!
//! Invariants:
//! - Home has what a copy has: a job that writes to blocks forgets their copies first, with the stripe's
//!   lock held alone; they are made with it held.
//! - Room is not used anew while it is being read or written.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::super::flight::{Flight, Owner};
use super::super::stage::Stage;
use super::super::work::Work;
use super::super::{Action, Engine, IoError, IoOp, JobId};
use super::{Placed, Ring};
use crate::geometry::Role;
use crate::meta::ArrayRecord;
use crate::plan::{self, Base, Parity};
use crate::redirects::{Redirects, Staged};
use crate::units::{Lba, MemberId, Pba, Set};

/// Consecutive blocks that are on a member, too.
#[derive(Debug)]
struct Extent {
    first: Lba,
    blocks: u32,
    /// The member that has them; none once it was taken out of service.
    member: Option<MemberId>,
    at: Pba,
    pins: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Copies {
    /// Where each ring begins.
    starts: Vec<Pba>,
    /// Those of the members, and then those of the staging devices.
    rings: Vec<Ring<Placed>>,
    /// How many of them are members'.
    members: usize,
    /// In the order of their numbers, without a gap.
    extents: VecDeque<Extent>,
    next: u64,
    table: Redirects,
    /// The member that gets the next one.
    turn: usize,
}

impl Copies {
    /// Of an array that has none yet.
    pub(in super::super) fn new(record: &ArrayRecord) -> Self {
        let areas = record.places().map(|place| record.copies_of(place));
        let rings: Vec<_> = areas.clone().map(|(_, len)| Ring::new(len)).collect();
        let all: u64 = rings.iter().map(|ring| ring.len()).sum();
        Self {
            starts: areas.map(|(start, _)| start).collect(),
            rings,
            members: record.geometry.members(),
            extents: VecDeque::new(),
            next: 0,
            table: Redirects::new(all as usize),
            turn: 0,
        }
    }

    /// How many blocks have one.
    pub(in super::super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory of the table, in bytes.
    pub(in super::super) fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// A job reads from a copy: it stays until unpinned.
    pub(super) fn pin(&mut self, number: u64) {
        self.extent(number).pins += 1;
    }

    pub(super) fn unpin(&mut self, number: u64) {
        self.extent(number).pins -= 1;
    }

    /// Where a copy is, if it still is.
    pub(super) fn place(&self, number: u64) -> Option<(MemberId, Pba)> {
        let extent = &self.extents[self.index(number as u32)];
        extent.member.map(|member| (member, extent.at))
    }

    /// The number of the oldest copy.
    fn front(&self) -> u64 {
        self.next - self.extents.len() as u64
    }

    fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.front() as u32) as usize
    }

    fn extent(&mut self, number: u64) -> &mut Extent {
        let index = self.index(number as u32);
        &mut self.extents[index]
    }

    /// Room for a copy on one of these, a staging device if there is one, else members in turn; the
    /// oldest are forgotten for it. It is being written from now on.
    fn begin(&mut self, first: Lba, blocks: u32, able: Set<MemberId>) -> Option<u64> {
        let n = self.members;
        let in_turn = (0..n).map(|i| (self.turn + i) % n);
        let member =
            (n..self.rings.len()).chain(in_turn).find(|&place| able.has(MemberId::at(place)))?;
        let at = loop {
            if let Some(at) = self.rings[member].room(u64::from(blocks)) {
                break at;
            }
            let oldest = self.extents.front().filter(|oldest| oldest.pins == 0)?;
            let (first, blocks) = (oldest.first, oldest.blocks);
            let number = self.front();
            self.forget_those_of(number, first, blocks);
            self.extents.pop_front();
            for ring in &mut self.rings {
                ring.pop_if(|&(entry, _)| entry == number);
            }
        };
        let number = self.next;
        self.next += 1;
        self.rings[member].push((number, at), u64::from(blocks));
        self.turn = (member + 1) % n;
        let at = Pba(self.starts[member].0 + at);
        let member = Some(MemberId::at(member));
        self.extents.push_back(Extent { first, blocks, member, at, pins: 1 });
        Some(number)
    }

    /// A copy has been written, well or not.
    fn written(&mut self, number: u64, well: bool) {
        let extent = self.extent(number);
        extent.pins -= 1;
        let (first, blocks) = (extent.first, extent.blocks);
        if well && extent.member.is_some() {
            for at in 0..blocks {
                let to = Staged { entry: number as u32, at, clean: true };
                self.table.set(Lba(first.0 + u64::from(at)), to);
            }
        }
    }

    /// Forgets a copy that there may be of a block.
    pub(super) fn forget(&mut self, lba: Lba) {
        self.table.remove(lba);
    }

    fn forget_those_of(&mut self, number: u64, first: Lba, blocks: u32) {
        for lba in (first.0..first.0 + u64::from(blocks)).map(Lba) {
            if self.table.get(lba).is_some_and(|copy| copy.entry == number as u32) {
                self.table.remove(lba);
            }
        }
    }

    /// A member is out of service, and what it had with it.
    pub(super) fn drop_member(&mut self, member: MemberId) {
        self.rings[member.index()].clear();
        let front = self.front();
        for index in 0..self.extents.len() {
            let extent = &mut self.extents[index];
            if extent.member == Some(member) {
                extent.member = None;
                let (first, blocks) = (extent.first, extent.blocks);
                self.forget_those_of(front + index as u64, first, blocks);
            }
        }
    }

    /// Verifies the invariants; `is_dirty` tells what is not at home, `is_up` which members are in service.
    pub(in super::super) fn check(
        &self,
        is_dirty: impl Fn(Lba) -> bool,
        is_up: impl Fn(MemberId) -> bool,
    ) {
        let mut count = 0;
        for (extent, number) in self.extents.iter().rev().zip((0..self.next).rev()) {
            for at in 0..extent.blocks {
                let lba = Lba(extent.first.0 + u64::from(at));
                let copy = Staged { entry: number as u32, at, clean: true };
                if self.table.get(lba) == Some(copy) {
                    assert!(
                        extent.member.is_some_and(&is_up),
                        "who is out of service has no copies"
                    );
                    assert!(!is_dirty(lba), "what is not at home has no copy");
                    count += 1;
                }
            }
        }
        assert_eq!(count, self.table.len(), "each copy is somewhere");
    }
}

impl Engine {
    /// Whether there are copies, and a member is busy or missing.
    pub(super) fn copies_may_serve(&self) -> bool {
        let calm = || self.array.serving().minus(self.steering.busy).len() == self.geo.members();
        !self.copies.table.is_empty() && (self.background.rebuilds() || !calm())
    }

    /// Where a block is whose home is busy, gone, or needed for a rebuild: the number of a copy on a
    /// calm member, and which block of it.
    pub(super) fn copy_of(&self, lba: Lba, home: MemberId) -> Option<(u64, u32)> {
        let copy = self.copies.table.get(lba)?;
        let index = self.copies.index(copy.entry);
        let member = self.copies.extents[index].member?;
        let calm = self.array.able().minus(self.steering.busy);
        let wanted = !calm.has(home) || self.background.rebuilds();
        let serves = wanted && calm.has(member);
        serves.then_some((self.copies.front() + index as u64, copy.at))
    }

    /// Forgets the copies of what a job is about to write, so that nothing reads the old content.
    pub(in super::super) fn forget_copies(&mut self, id: JobId) {
        if self.copies.table.is_empty() {
            return;
        }
        let job = &self.jobs[id];
        match job.work {
            // What is to come home has none: its write has seen to it.
            Work::Read | Work::Reclaim => {}
            Work::Write => {
                for index in 0..job.pieces.len() {
                    let piece = self.jobs[id].pieces[index];
                    self.lbas_of(id, &piece).for_each(|lba| self.copies.forget(lba));
                }
            }
            Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. } => {
                let geo = self.geo.of(job.stripe);
                let whole = geo.lbas(job.stripe, Role(0), 0, geo.stripe_blocks());
                whole.for_each(|lba| self.copies.forget(lba));
            }
        }
    }

    /// Plans a read of what is to be copied, if the policy wants that. Tells whether it has.
    pub(in super::super) fn plan_copied(
        &mut self,
        id: JobId,
        readable: Set<Role>,
        parity: Parity,
    ) -> bool {
        let prefer = self.preferred_copy(self.jobs[id].stripe);
        let planned = self.is_to_be_copied(id) && self.plan_aside(id, readable, parity, prefer);
        self.jobs[id].is_copied = planned;
        planned
    }

    /// Whether the policy wants a copy of what a job is about to read at home.
    fn is_to_be_copied(&mut self, id: JobId) -> bool {
        let job = &self.jobs[id];
        let [piece] = job.pieces[..] else { return false };
        let stored = job.base == Base::Stored;
        let room = self.copies.rings[0].len();
        if room == 0 || !stored || !job.fetching.fetches.is_empty() || !job.bad.is_empty() {
            return false;
        }
        let first = self.geo.of(job.stripe).lba(job.stripe, piece.role, piece.row);
        let home = self.geo.member(job.stripe, piece.role);
        let copied = self.copies.table.get(first).is_some();
        let (now, blocks) = (self.now, piece.blocks);
        let Some(policy) = &mut self.steering.policy else { return false };
        let wanted = policy.keeps(now, home, first, blocks);
        wanted && !copied && 2 * u64::from(blocks) <= room
    }

    /// A job has read what a copy is wanted of: it answers, and then makes one.
    pub(in super::super) fn keep(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.jobs[id];
        let ([piece], true) = (&job.pieces[..], job.error.is_none() && job.hedge.partner.is_none())
        else {
            return Stage::Finish;
        };
        let piece = *piece;
        let first = self.geo.of(job.stripe).lba(job.stripe, piece.role, piece.row);
        let home = self.geo.member(job.stripe, piece.role);
        let from = job.bind(plan::scratch(piece.role, piece.row));
        let able = self.array.able().minus(self.steering.busy).without(home);
        self.answer(id, out);
        let Some(number) = self.copies.begin(first, piece.blocks, able) else {
            return Stage::Finish;
        };
        let place = self.copies.place(number);
        let place =
            place.and_then(|(member, at)| Some((member, at, self.array.live_device(member)?)));
        let Some((member, at, device)) = place else {
            self.copies.written(number, false);
            return Stage::Finish;
        };
        self.counters.copied_blocks += u64::from(piece.blocks);
        self.jobs[id].outstanding += 1;
        let owner = Owner::Copy { job: id, number };
        let op = Flight::new(owner, Some(member), device);
        self.issue(op, IoOp::Write { from, fua: false }, at, piece.blocks, out);
        Stage::Finish
    }

    pub(in super::super) fn copy_done(
        &mut self,
        id: JobId,
        number: u64,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        self.copies.written(number, result.is_ok());
        if let (Err(why), Some(member), true) = (result, op.member, self.array.is_current(&op)) {
            if why.is_final() || self.can_spare(member) {
                self.write_failed(member, why, out);
            } else {
                // Nothing is lost with a copy.
                self.array.members[member.index()].write_errors += 1;
            }
        }
        self.jobs.one_done(id);
    }
}

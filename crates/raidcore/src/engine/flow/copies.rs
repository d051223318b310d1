//! Copies are made of what users read often, and read instead of busy members.

use alloc::vec::Vec;

use super::source::Source;
use crate::engine::flight::{Flight, Owner};
use crate::engine::stage::Stage;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoOp, JobId};
use crate::geometry::Role;
use crate::plan::{self, Base, Parity};
use crate::units::{Lba, MemberId, Set};

/// Copies: what they have of members that are busy or missing.
pub(super) const COPIES: Source = Source {
    concerns: |engine, _| engine.copies_may_serve(),
    find: |engine, id, lba, block| {
        let home = engine.layout.member(engine.range.jobs[id].stripe, block.role);
        engine.copy_of(lba, home)
    },
    pin: |engine, number| engine.range.copies.pin(number),
    unpin: |engine, number| engine.range.copies.unpin(number),
    place: |engine, number, tried| {
        engine.range.copies.place(number).filter(|&(member, _)| !tried.has(member))
    },
    not_fetched: Engine::read_at_home_after_all,
    goes_around: true,
};

impl Engine {
    /// What a job was to fetch from a copy is read at home, as the copy can't be read.
    fn read_at_home_after_all(&mut self, id: JobId, index: usize) {
        let piece = self.range.jobs[id].fetching.get(index).piece;
        self.lbas_of(id, &piece).for_each(|lba| self.range.copies.forget(lba));
        let job = &mut self.range.jobs[id];
        job.pieces.push(piece);
        job.replan = true;
    }

    /// Whether there are copies, and a member is busy or missing.
    fn copies_may_serve(&self) -> bool {
        let calm = || {
            self.array.membership.serving().minus(self.array.steering.busy()).len()
                == self.layout.members()
        };
        !self.range.copies.is_empty() && (self.array.background.rebuilds() || !calm())
    }

    /// Where a block is whose home is busy, gone, or needed for a rebuild: the number of a copy on a
    /// calm member, and which block of it.
    fn copy_of(&self, lba: Lba, home: MemberId) -> Option<(u64, u32)> {
        let (number, at, member) = self.range.copies.find(lba)?;
        let calm = self.array.membership.able().minus(self.array.steering.busy());
        let wanted = !calm.has(home) || self.array.background.rebuilds();
        let serves = wanted && calm.has(member);
        serves.then_some((number, at))
    }

    /// Forgets the copies of what a job is about to write, so that nothing reads the old content.
    pub(super) fn forget_copies(&mut self, id: JobId) {
        if self.range.copies.is_empty() {
            return;
        }
        let job = &self.range.jobs[id];
        match job.work {
            // What is to come home has none: its write has seen to it.
            Work::Read | Work::Reclaim => {}
            Work::Write => {
                for index in 0..job.pieces.len() {
                    let piece = self.range.jobs[id].pieces[index];
                    self.lbas_of(id, &piece).for_each(|lba| self.range.copies.forget(lba));
                }
            }
            Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. } => {
                let geo = self.layout.of(job.stripe);
                let whole = geo.lbas(job.stripe, Role(0), 0, geo.stripe_blocks());
                whole.for_each(|lba| self.range.copies.forget(lba));
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
        let prefer = self.preferred_copy(self.range.jobs[id].stripe);
        let planned = self.is_to_be_copied(id) && self.plan_aside(id, readable, parity, prefer);
        self.range.jobs[id].is_copied = planned;
        planned
    }

    /// Whether the policy wants a copy of what a job is about to read at home.
    fn is_to_be_copied(&mut self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        let [piece] = job.pieces[..] else { return false };
        let stored = job.base == Base::Stored;
        let at_home = job.fetching.is_empty() && job.kept.is_empty();
        let able = self.range.copies.exist() && stored && at_home;
        if !able || !job.bad.is_empty() {
            return false;
        }
        let first = self.layout.of(job.stripe).lba(job.stripe, piece.role, piece.row);
        let home = self.layout.member(job.stripe, piece.role);
        let fits = self.range.copies.fits(piece.blocks) && !self.range.copies.has(first);
        let wanted = self.array.steering.keeps(self.now, home, first, piece.blocks);
        wanted && fits
    }

    /// A job has read what a copy is wanted of: it answers, and then makes one.
    pub(in super::super) fn keep(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.range.jobs[id];
        let ([piece], true) = (&job.pieces[..], job.error.is_none() && !job.hedge.is_paired())
        else {
            return Stage::Finish;
        };
        let piece = *piece;
        let first = self.layout.of(job.stripe).lba(job.stripe, piece.role, piece.row);
        let home = self.layout.member(job.stripe, piece.role);
        let from = job.bind(plan::scratch(piece.role, piece.row));
        let able = self.array.membership.able().minus(self.array.steering.busy()).without(home);
        self.answer(id, out);
        let begun = self.range.copies.begin(first, piece.blocks, able);
        let Some((number, member, at)) = begun else { return Stage::Finish };
        let Some(device) = self.array.membership.live_device(member) else {
            self.range.copies.written(number, false, |_| false);
            return Stage::Finish;
        };
        self.array.counters.copied_blocks += u64::from(piece.blocks);
        self.range.jobs[id].outstanding += 1;
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
        let staging = &self.range.staging;
        self.range.copies.written(number, result.is_ok(), |lba| staging.is_dirty(lba));
        if let (Err(why), Some(member), true) =
            (result, op.member, self.array.membership.is_current(&op))
        {
            if why.is_final() || self.can_spare(member) {
                self.write_failed(member, why, out);
            } else {
                // Nothing is lost with a copy.
                self.array.membership.count_write_error(member);
            }
        }
        self.range.jobs.one_done(id);
    }
}

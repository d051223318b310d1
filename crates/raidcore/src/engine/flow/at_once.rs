//! Reads that nothing but their home concerns: one I/O of an array that is as it should be, begun without
//! the walk through the stages.
//!
//! It is a job like any other, which has its stripe's lock and waits for its plan's only read. If that ends
//! well, all that is left of the walk is the answer. If not, the job walks on from there, as one that had
//! come all the way.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::stage::Stage;
use crate::engine::{Action, Engine, IoError, IoOp, JobId};
use crate::geometry::Role;
use crate::plan::SubIo;

impl Engine {
    /// Begins a user's read that has no lock yet, if it is of one chunk that is to be read at home, and its
    /// stripe's lock is free for readers; tells whether it has.
    pub(super) fn read_at_once(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let Some(io) = self.only_read(id) else { return false };
        let (member, at) = self.place(self.range.jobs[id].stripe, io.role, io.row);
        let Some(device) = self.array.membership.device(member) else { return false };
        if !self.range.jobs.share(id) {
            return false;
        }
        self.array.steering.count_read(io.blocks);
        let job = &mut self.range.jobs[id];
        job.plan.reads.push(io);
        (job.stage, job.outstanding) = (Stage::AfterRead, 1);
        let flight = Flight::new(Owner::ReadAtOnce { job: id }, Some(member), device);
        self.issue(flight, IoOp::Read(io.mem), at, io.blocks, out);
        true
    }

    /// The only read of a member that a user's read comes to, if it can come to nothing else.
    fn only_read(&mut self, id: JobId) -> Option<SubIo> {
        let job = &self.range.jobs[id];
        let ([piece], stripe) = (&job.pieces[..], job.stripe) else { return None };
        let steering = &mut self.array.steering;
        // A policy may want a copy of it, or an end of patience, for which it is not read to a user's memory.
        let plain = steering.policy().is_none()
            || !self.range.copies.exist()
                && !steering.leads_around()
                && steering.patience(self.now, piece.blocks).is_none();
        if !plain
            || self.array.membership.impaired
            || self.is_in_sources(stripe)
            || self.range.maps.zero.map.get(stripe.0)
        {
            return None;
        }
        let copy = Role::at(piece.role.index() + self.preferred_copy(stripe));
        Some(SubIo { role: copy, row: piece.row, blocks: piece.blocks, mem: piece.mem })
    }

    /// The only read of one that was begun at once has ended.
    pub(super) fn read_at_once_done(
        &mut self,
        id: JobId,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        if result.is_err() {
            return self.read_done(id, 0, op, result, out);
        }
        self.range.jobs[id].outstanding = 0;
        self.answer(id, out);
        self.range.jobs.unlock(id);
        self.range.jobs.remove(id);
    }
}

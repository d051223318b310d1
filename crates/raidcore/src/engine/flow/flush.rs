//! Flush rounds on members: what asked for one goes on when it ends.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::flush::Marks;
use crate::engine::wait::Wait;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::units::Pba;

impl Engine {
    /// Asks for a flush of all members; returns the round that will have done it.
    pub(super) fn flush(&mut self, out: &mut Vec<Action>) -> u64 {
        let (ticket, begins) = self.array.flusher.ask();
        if begins {
            self.start_flush(out);
        }
        ticket
    }

    /// A job waits for a flush round.
    pub(super) fn wait_for_flush(&mut self, job: JobId, ticket: u64) {
        if !self.array.flusher.is_over(ticket) {
            self.range.jobs.wait(job, Wait::Flush(ticket));
        }
    }

    fn start_flush(&mut self, out: &mut Vec<Action>) {
        let marks =
            Marks { journal: self.range.journal.mark(), staging: self.range.staging.mark() };
        let unkept = self.array.membership.has_unkept();
        self.array.flusher.begin(unkept, marks, self.array.background.filled());
        // What is written to staging devices is durable at once.
        let mut begun = 0;
        for member in self.layout.member_set() {
            for device in self.array.membership.stored_on(member) {
                begun += 1;
                let op = Flight::new(Owner::Flush, Some(member), device);
                self.issue(op, IoOp::Flush, Pba(0), 0, out);
            }
        }
        if self.array.flusher.begun(begun) {
            self.flush_ended(out);
        }
    }

    pub(super) fn flush_done(
        &mut self,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        if let (Err(why), Some(member), true) =
            (result, op.member, self.array.membership.is_current(&op))
        {
            // What the device had taken and not kept may be lost: it is no longer current.
            let kept = self.write_failed(member, why, out);
            if !kept {
                self.array.flusher.fail();
                self.array.membership.set_unkept(member);
                self.array.healing.leave_to_a_start();
            }
        }
        if self.array.flusher.one_done() {
            self.flush_ended(out);
        }
    }

    fn flush_ended(&mut self, out: &mut Vec<Action>) {
        let completed = self.array.flusher.end();
        let (failed, marks) = (self.array.flusher.has_failed(), self.array.flusher.marks());
        if !failed {
            self.forget_unmarked(completed);
        }
        let good = self.flushed_for_good();
        self.range.staging.flushed(marks.staging, good);
        if good {
            self.retire_entries(marks.journal, out);
        }
        self.range.jobs.wake(|wait| matches!(wait, Wait::Flush(ticket) if *ticket <= completed));
        while let Some(tag) = self.array.flusher.take_served() {
            match self.array.membership.recorder.unrecorded_failure() {
                Some(_) if self.array.membership.recorder.is_broken() => {
                    self.complete(tag, Some(RequestError::Io), out);
                }
                _ if failed => self.complete(tag, Some(RequestError::Io), out),
                Some(record) => self.array.flusher.answer_with(record, tag),
                None => self.complete(tag, None, out),
            }
        }
        if self.array.flusher.begins_again() {
            self.start_flush(out);
        }
    }

    /// Whether the last round made everything durable on every member that assembly would take for
    /// current: a member whose failure is not on record yet could come back without it.
    pub(super) fn flushed_for_good(&self) -> bool {
        !self.array.flusher.has_failed()
            && self.array.membership.recorder.unrecorded_failure().is_none()
    }
}

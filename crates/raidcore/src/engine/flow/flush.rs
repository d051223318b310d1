//! Flush rounds on members: what asked for one goes on when it ends.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::wait::Wait;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::units::{MemberId, Pba, Tag};

impl Engine {
    /// Asks for a flush of all members; returns the round that will have done it.
    pub(super) fn flush(&mut self, out: &mut Vec<Action>) -> u64 {
        let ticket = self.array.flusher.started + 1;
        if self.array.flusher.outstanding > 0 {
            self.array.flusher.again = true;
        } else {
            self.start_flush(out);
        }
        ticket
    }

    pub(super) fn flush_for_user(&mut self, tag: Tag, out: &mut Vec<Action>) {
        self.array.flusher.users.push((self.array.flusher.started + 1, tag));
        self.flush(out);
    }

    /// A job waits for a flush round.
    pub(super) fn wait_for_flush(&mut self, job: JobId, ticket: u64) {
        if !self.array.flusher.is_over(ticket) {
            self.range.jobs.wait(job, Wait::Flush(ticket));
        }
    }

    fn start_flush(&mut self, out: &mut Vec<Action>) {
        self.array.flusher.started += 1;
        // What a member has lost by a flush that failed is not made up for by one that does not.
        self.array.flusher.round.failed = self.array.membership.members.iter().any(|m| m.unkept);
        self.array.flusher.round.journal_mark = self.range.journal.mark();
        self.array.flusher.round.staging_mark = self.range.staging.mark();
        self.array.flusher.round.rebuilt.clear();
        self.array.flusher.round.rebuilt.extend(self.array.background.rebuilt_to());
        self.array.flusher.round.spared = self.spared_to();
        self.array.flusher.round.copied =
            self.array.membership.succession.map_or(0, |s| s.progress.base);
        // What is written to staging devices is durable at once.
        for index in 0..self.geo.members() {
            let member = MemberId::at(index);
            for device in self.array.membership.stored_on(member) {
                self.array.flusher.outstanding += 1;
                let op = Flight::new(Owner::Flush, Some(member), device);
                self.issue(op, IoOp::Flush, Pba(0), 0, out);
            }
        }
        if self.array.flusher.outstanding == 0 {
            // No member is left.
            self.array.flusher.round.failed = true;
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
            self.array.flusher.round.failed |= !kept;
            if !kept {
                self.array.membership.members[member.index()].unkept = true;
                self.array.healing.leave_to_a_start();
            }
        }
        self.array.flusher.outstanding -= 1;
        if self.array.flusher.outstanding == 0 {
            self.flush_ended(out);
        }
    }

    fn flush_ended(&mut self, out: &mut Vec<Action>) {
        let completed = self.array.flusher.started;
        self.array.flusher.completed = completed;
        core::mem::swap(&mut self.array.flusher.round, &mut self.array.flusher.last);
        if !self.array.flusher.last.failed {
            self.forget_unmarked(completed);
        }
        let good = self.flushed_for_good();
        self.range.staging.flushed(self.array.flusher.last.staging_mark, good);
        if good {
            let mark = self.array.flusher.last.journal_mark;
            self.retire_entries(mark, out);
        }
        self.range.jobs.wake(|wait| matches!(wait, Wait::Flush(ticket) if *ticket <= completed));
        let failed = self.array.flusher.last.failed;
        let mut index = 0;
        while let Some(&(ticket, tag)) = self.array.flusher.users.get(index) {
            if ticket > completed {
                index += 1;
                continue;
            }
            self.array.flusher.users.remove(index);
            match self.array.membership.recorder.unrecorded_failure() {
                Some(_) if self.array.membership.recorder.is_broken() => {
                    self.complete(tag, Some(RequestError::Io), out);
                }
                _ if failed => self.complete(tag, Some(RequestError::Io), out),
                Some(record) => self.array.flusher.recording.push((record, tag)),
                None => self.complete(tag, None, out),
            }
        }
        if core::mem::take(&mut self.array.flusher.again) {
            self.start_flush(out);
        }
    }

    /// Whether the last round made everything durable on every member that assembly would take for
    /// current: a member whose failure is not on record yet could come back without it.
    pub(super) fn flushed_for_good(&self) -> bool {
        !self.array.flusher.last.failed
            && self.array.membership.recorder.unrecorded_failure().is_none()
    }

    /// Completes the flushes that waited for the record of a failure.
    pub(super) fn failures_recorded(
        &mut self,
        durable: u64,
        error: Option<RequestError>,
        out: &mut Vec<Action>,
    ) {
        while let Some(index) = self.array.flusher.recording.iter().position(|(t, _)| *t <= durable)
        {
            let (_, tag) = self.array.flusher.recording.remove(index);
            self.complete(tag, error, out);
        }
    }
}

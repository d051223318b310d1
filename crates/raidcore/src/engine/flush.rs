//! Flush rounds: all members are flushed together, for all that asked before the round began.
//!
//! Invariants: one round at a time; a request during a round is served by the next one, which
//! begins when this one ends. When a flush has failed on a member that can't be spared, it may have lost
//! what it had taken before, so every round fails for as long as it serves.

use alloc::vec::Vec;

use super::flight::{Flight, Owner};
use super::wait::Wait;
use super::{Action, Engine, IoError, IoOp, RequestError};
use crate::units::{MemberId, Pba, Tag};

/// The rounds.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    started: u64,
    pub(super) completed: u64,
    outstanding: u32,
    again: bool,
    /// What the round under way has come to so far.
    round: Round,
    /// What the last round that ended came to: the next one may have begun already.
    last: Round,
    users: Vec<(u64, Tag)>,
    /// Users whose round has ended but for the record of a failure.
    recording: Vec<(u64, Tag)>,
}

/// What a round makes durable.
#[derive(Debug, Default)]
struct Round {
    /// A member could not be flushed that can't be spared.
    failed: bool,
    /// How many journal entries' blocks were at home when it began.
    journal_mark: u64,
    /// How much had come home from the staging log.
    staging_mark: u64,
    /// Where rebuilds stood when it began.
    rebuilt: Vec<u64>,
    /// Where the distributed spare stood.
    spared: u64,
    /// Where a successor stood.
    copied: u64,
}

impl Flusher {
    pub(super) fn has_failed(&self) -> bool {
        self.last.failed
    }

    pub(super) fn is_over(&self, ticket: u64) -> bool {
        self.completed >= ticket
    }

    /// The round that serves a request of now.
    pub(super) fn next_round(&self) -> u64 {
        self.started + 1
    }

    /// Up to which stripe a member being rebuilt is durably filled since the last round.
    pub(super) fn rebuilt(&self, member: MemberId) -> u64 {
        self.last.rebuilt.get(member.index()).copied().unwrap_or(0)
    }

    /// Another device takes a member's place: what was filled on the old one is nothing to it.
    pub(super) fn restart(&mut self, member: MemberId) {
        for round in [&mut self.round, &mut self.last] {
            if let Some(rebuilt) = round.rebuilt.get_mut(member.index()) {
                *rebuilt = 0;
            }
        }
    }

    /// Up to which stripe the distributed spare is durably filled since the last round.
    pub(super) fn spared(&self) -> u64 {
        self.last.spared
    }

    /// Up to which stripe a successor is durably filled since the last round.
    pub(super) fn copied(&self) -> u64 {
        self.last.copied
    }

    /// There is a successor, with nothing on it.
    pub(super) fn restart_copy(&mut self) {
        (self.round.copied, self.last.copied) = (0, 0);
    }

    /// The distributed spare is filled anew.
    pub(super) fn restart_spare(&mut self) {
        (self.round.spared, self.last.spared) = (0, 0);
    }
}

impl Engine {
    /// Asks for a flush of all members; returns the round that will have done it.
    pub(super) fn flush(&mut self, out: &mut Vec<Action>) -> u64 {
        let ticket = self.flusher.started + 1;
        if self.flusher.outstanding > 0 {
            self.flusher.again = true;
        } else {
            self.start_flush(out);
        }
        ticket
    }

    pub(super) fn flush_for_user(&mut self, tag: Tag, out: &mut Vec<Action>) {
        self.flusher.users.push((self.flusher.started + 1, tag));
        self.flush(out);
    }

    /// A job waits for a flush round.
    pub(super) fn wait_for_flush(&mut self, job: super::JobId, ticket: u64) {
        if !self.flusher.is_over(ticket) {
            self.jobs.wait(job, Wait::Flush(ticket));
        }
    }

    fn start_flush(&mut self, out: &mut Vec<Action>) {
        self.flusher.started += 1;
        // What a member has lost by a flush that failed is not made up for by one that does not.
        self.flusher.round.failed = self.array.members.iter().any(|m| m.unkept);
        self.flusher.round.journal_mark = self.journal.homes_done();
        self.flusher.round.staging_mark = self.staging.mark();
        self.flusher.round.rebuilt.clear();
        self.flusher.round.rebuilt.extend(self.background.rebuilt_to());
        self.flusher.round.spared = self.spared_to();
        self.flusher.round.copied = self.array.succession.map_or(0, |s| s.progress.base);
        // What is written to staging devices is durable at once.
        for index in 0..self.geo.members() {
            let member = MemberId::at(index);
            for device in self.array.stored_on(member) {
                self.flusher.outstanding += 1;
                let op = Flight::new(Owner::Flush, Some(member), device);
                self.issue(op, IoOp::Flush, Pba(0), 0, out);
            }
        }
        if self.flusher.outstanding == 0 {
            // No member is left.
            self.flusher.round.failed = true;
            self.flush_ended(out);
        }
    }

    pub(super) fn flush_done(
        &mut self,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        if let (Err(why), Some(member), true) = (result, op.member, self.array.is_current(&op)) {
            // What the device had taken and not kept may be lost: it is no longer current.
            let kept = self.write_failed(member, why, out);
            self.flusher.round.failed |= !kept;
            if !kept {
                self.array.members[member.index()].unkept = true;
                self.healing.leave_to_a_start();
            }
        }
        self.flusher.outstanding -= 1;
        if self.flusher.outstanding == 0 {
            self.flush_ended(out);
        }
    }

    fn flush_ended(&mut self, out: &mut Vec<Action>) {
        let completed = self.flusher.started;
        self.flusher.completed = completed;
        core::mem::swap(&mut self.flusher.round, &mut self.flusher.last);
        if !self.flusher.last.failed {
            self.forget_unmarked(completed);
        }
        let good = self.flushed_for_good();
        self.staging.flushed(self.flusher.last.staging_mark, good);
        if good {
            let mark = self.flusher.last.journal_mark;
            self.retire_entries(mark, out);
        }
        self.jobs.wake(|wait| matches!(wait, Wait::Flush(ticket) if *ticket <= completed));
        let failed = self.flusher.last.failed;
        let mut index = 0;
        while let Some(&(ticket, tag)) = self.flusher.users.get(index) {
            if ticket > completed {
                index += 1;
                continue;
            }
            self.flusher.users.remove(index);
            match self.array.recorder.unrecorded_failure() {
                Some(_) if self.array.recorder.is_broken() => {
                    self.complete(tag, Some(RequestError::Io), out);
                }
                _ if failed => self.complete(tag, Some(RequestError::Io), out),
                Some(record) => self.flusher.recording.push((record, tag)),
                None => self.complete(tag, None, out),
            }
        }
        if core::mem::take(&mut self.flusher.again) {
            self.start_flush(out);
        }
    }

    /// Whether the last round made everything durable on every member that assembly would take for
    /// current: a member whose failure is not on record yet could come back without it.
    pub(super) fn flushed_for_good(&self) -> bool {
        !self.flusher.last.failed && self.array.recorder.unrecorded_failure().is_none()
    }

    /// Completes the flushes that waited for the record of a failure.
    pub(super) fn failures_recorded(
        &mut self,
        durable: u64,
        error: Option<RequestError>,
        out: &mut Vec<Action>,
    ) {
        while let Some(index) = self.flusher.recording.iter().position(|(t, _)| *t <= durable) {
            let (_, tag) = self.flusher.recording.remove(index);
            self.complete(tag, error, out);
        }
    }
}

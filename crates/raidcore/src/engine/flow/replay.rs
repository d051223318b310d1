//! The journal is carried out after an unclean stop, and the start is recorded.

use alloc::vec::Vec;

use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, Note, Phase};
use crate::meta::{Replay, ReplayRun, SlotState};
use crate::units::{MemberId, Pba};

impl Engine {
    /// Where an entry can be read from.
    pub(super) fn replay_copy(&self, index: usize) -> Option<(MemberId, Pba)> {
        let &Replay { entry, ref copies, .. } = self.range.replays.get(index);
        // When users are served, another device may have taken a member's place.
        let holds =
            |member| !self.array.healing.is_under_way() || self.range.journal.holds(member, entry);
        let is_there =
            |&(member, _): &_| self.array.membership.live_device(member).is_some() && holds(member);
        copies.iter().copied().find(is_there)
    }

    /// The entry that a job replays, and which run of it one of the job's reads is of, if it is of one.
    pub(super) fn replayed_run(&self, id: JobId, read: usize) -> Option<(usize, ReplayRun)> {
        let Work::Replay { index } = self.range.jobs[id].work else { return None };
        Some((index, *self.range.replays.get(index).runs.get(read)?))
    }

    /// The entry that was being replayed is at home, or can't be brought there. That does no harm if a
    /// member has refused its blocks, as the next start finds it again; or if no
    /// member has the stripe's parity, as it is out of service or yet to be rebuilt there: then there is
    /// nothing that has to agree.
    pub(super) fn replayed(&mut self, done: bool) {
        let (stripe, is_kept) = self.range.replays.one_done();
        if self.array.healing.is_under_way() {
            return self.array.healing.wrote(done);
        }
        let (readable, writable) = self.health(stripe);
        let current = readable.or(writable);
        let hole = !current.and(self.layout.of(stripe).spare_roles()).is_empty();
        if !done && hole && !is_kept {
            self.phase = Phase::Broken;
        }
    }

    /// Carries out what an unclean stop has left in the journal, one entry after the other; then
    /// records the start.
    pub(super) fn replay(&mut self, out: &mut Vec<Action>) {
        if self.range.replays.is_under_way() {
            return;
        }
        let is_prepared = self.range.replays.is_empty()
            || self.miss_the_missing(out) && self.range.maps.are_spread();
        if !is_prepared || self.replay_next() {
            return;
        }
        let Some(ticket) = self.range.replays.flush() else {
            let ticket = self.flush(out);
            self.range.replays.flush_with(ticket);
            return;
        };
        if !self.array.flusher.is_over(ticket) {
            return;
        }
        if self.array.flusher.has_failed() {
            self.phase = Phase::Broken;
        } else if self.range.replays.has_refused() {
            self.serve_reads(out);
        } else {
            self.record_start(out);
        }
    }

    /// Carries out the next entry, when there is a job for it; returns whether there is an entry left.
    pub(super) fn replay_next(&mut self) -> bool {
        let Some((index, stripe)) = self.range.replays.next() else { return false };
        if let Some(job) = self.new_job(Work::Replay { index }, stripe) {
            self.range.replays.one_begun();
            self.start_job(job);
        }
        true
    }

    /// Serves users without taking writes, as members have refused what the journal has for them: a
    /// thin pool may be full. The start is not recorded, so that the next one finds all entries.
    fn serve_reads(&mut self, out: &mut Vec<Action>) {
        for (member, why) in self.range.replays.give_up() {
            self.write_failed(member, why, out);
        }
        self.array.healing.leave_to_a_start();
        self.phase =
            if self.range.staging.dirty() > 0 { Phase::Reclaiming } else { Phase::Serving };
    }

    /// Records which members are missing, before they could miss what is carried out; returns whether
    /// that is on record.
    fn miss_the_missing(&mut self, out: &mut Vec<Action>) -> bool {
        if self.fail_missing(out) {
            self.array.membership.look_at_members();
            self.record_change(out);
        }
        if self.array.membership.recorder.is_broken() {
            self.phase = Phase::Broken;
        }
        self.array.membership.recorder.is_durable()
    }

    /// Members that have no device are failed; returns whether some had not been.
    fn fail_missing(&mut self, out: &mut Vec<Action>) -> bool {
        let seconds = self.seconds();
        let mut some = false;
        for member in self.array.membership.record().places() {
            let membership = &mut self.array.membership;
            if membership.device(member).is_some() || membership.state(member) == SlotState::Failed
            {
                continue;
            }
            let (known, was_up) = membership.becomes_failed(member, seconds);
            some = true;
            // What was on it is on fewer others, until it is at home.
            if member.index() >= self.layout.members() && was_up {
                membership.thin_staging(member);
            }
            if known {
                self.is_away(member, out);
            }
        }
        some |= self.look_for_successor(out);
        some
    }

    /// Records that the array is in use, by which members; entries of earlier epochs are void.
    fn record_start(&mut self, out: &mut Vec<Action>) {
        if self.range.replays.is_empty() {
            // After a crash some members may lack the latest pages; those that have them may fail.
            self.range.maps.spread();
        } else {
            let (entries, blocks) = self.range.replays.finish();
            out.push(Action::Note(Note::JournalReplayed { entries, blocks }));
        }
        self.fail_missing(out);
        self.array.membership.starts();
        if self.range.staging.exists() && self.range.staging.dirty() == 0 {
            // What may be left of it is not to be found again.
            self.array.membership.begin_staging_anew();
        }
        self.array.membership.look_at_members();
        self.phase = Phase::Starting;
        self.record_change(out);
    }
}

//! What an unclean stop has left in the journal is carried out, one entry after the other, and the start is
//! recorded. The same is done while users are served, with what members have refused for want of room.
//!
//! Invariants: nothing is carried out before it is on record which members are missing, and before all that
//! are there know from the write-intent bitmap where. The start is recorded only when all is durable at
//! home, as entries of earlier epochs are void then.

use alloc::vec::Vec;

use super::work::Work;
use super::{Action, Engine, IoError, Note, Phase};
use crate::meta::{Replay, SlotState};
use crate::units::{MemberId, Pba, Stripe};

/// Entries that are to be carried out, and how far that has come.
#[derive(Debug)]
pub(super) struct Replays {
    list: Vec<Replay>,
    next: usize,
    under_way: bool,
    /// The flush round after the last one.
    flush: Option<u64>,
    /// Which members, that can't be spared, have not taken the blocks of which entries.
    refused: Vec<(usize, MemberId, IoError)>,
}

impl Replays {
    pub(super) fn new(list: Vec<Replay>) -> Self {
        Self { list, next: 0, under_way: false, flush: None, refused: Vec::new() }
    }

    pub(super) fn get(&self, index: usize) -> &Replay {
        &self.list[index]
    }

    /// A member's copy of the entry that is being carried out can't be read.
    pub(super) fn pass_copy_by(&mut self, member: MemberId) {
        self.list[self.next].copies.retain(|&(m, _)| m != member);
    }

    /// What members have refused is to be carried out now.
    pub(super) fn begin_anew(&mut self, refused: Vec<Replay>) {
        (self.list, self.next) = (refused, 0);
    }

    /// What is to be carried out next, and of which stripe.
    pub(super) fn next(&self) -> Option<(usize, Stripe)> {
        Some((self.next, self.list.get(self.next)?.stripe))
    }

    /// Whether one is being carried out.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// The next one is being carried out.
    pub(super) fn one_begun(&mut self) {
        self.under_way = true;
    }

    /// It has ended.
    pub(super) fn one_done(&mut self) {
        self.under_way = false;
        self.next += 1;
    }

    /// A member that can't be spared has not taken a block of the entry that is being carried out.
    pub(super) fn refused_by(&mut self, member: MemberId, why: IoError) {
        self.refused.push((self.next, member, why));
    }
}

impl Engine {
    /// Where an entry can be read from.
    pub(super) fn replay_copy(&self, index: usize) -> Option<(MemberId, Pba)> {
        let &Replay { entry, ref copies, .. } = self.replays.get(index);
        // When users are served, another device may have taken a member's place.
        let holds = |member| !self.healing.is_under_way() || self.journal.holds(member, entry);
        let is_there = |&(member, _): &_| self.array.live_device(member).is_some() && holds(member);
        copies.iter().copied().find(is_there)
    }

    /// The entry that was being replayed is at home, or can't be brought there. That does no harm if a
    /// member has refused its blocks, as the next start finds it again; or if no
    /// member has the stripe's parity, as it is out of service or yet to be rebuilt there: then there is
    /// nothing that has to agree.
    pub(super) fn replayed(&mut self, done: bool) {
        if self.healing.is_under_way() {
            return self.wrote_refused(done);
        }
        let stripe = self.replays.get(self.replays.next).stripe;
        let (readable, writable) = self.health(stripe);
        let current = readable.or(writable);
        let hole = !current.and(self.geo.of(stripe).spare_roles()).is_empty();
        let refused = self.replays.refused.last();
        let is_kept = refused.is_some_and(|&(entry, ..)| entry == self.replays.next);
        self.replays.one_done();
        if !done && hole && !is_kept {
            self.phase = Phase::Broken;
        }
    }

    /// Carries out what an unclean stop has left in the journal, one entry after the other; then
    /// records the start.
    pub(super) fn replay(&mut self, out: &mut Vec<Action>) {
        if self.replays.under_way {
            return;
        }
        let is_prepared =
            self.replays.list.is_empty() || self.miss_the_missing(out) && self.maps.are_spread();
        if !is_prepared {
            return;
        }
        if let Some(entry) = self.replays.list.get(self.replays.next) {
            let work = Work::Replay { index: self.replays.next };
            if let Some(job) = self.new_job(work, entry.stripe) {
                self.replays.under_way = true;
                self.start_job(job);
            }
            return;
        }
        match self.replays.flush {
            None => self.replays.flush = Some(self.flush(out)),
            Some(ticket) if self.flusher.is_over(ticket) && self.flusher.has_failed() => {
                self.phase = Phase::Broken;
            }
            Some(ticket) if self.flusher.is_over(ticket) && !self.replays.refused.is_empty() => {
                self.serve_reads(out);
            }
            Some(ticket) if self.flusher.is_over(ticket) => self.record_start(out),
            Some(_) => {}
        }
    }

    /// Serves users without taking writes, as members have refused what the journal has for them: a
    /// thin pool may be full. The start is not recorded, so that the next one finds all entries.
    fn serve_reads(&mut self, out: &mut Vec<Action>) {
        for (_, member, why) in core::mem::take(&mut self.replays.refused) {
            self.write_failed(member, why, out);
        }
        self.healing.leave_to_a_start();
        self.replays.list = Vec::new();
        self.phase = if self.staging.dirty() > 0 { Phase::Reclaiming } else { Phase::Serving };
    }

    /// Records which members are missing, before they could miss what is carried out; returns whether
    /// that is on record.
    fn miss_the_missing(&mut self, out: &mut Vec<Action>) -> bool {
        if self.fail_missing(out) {
            self.array.look_at_members();
            self.record_change(out);
        }
        if self.array.recorder.is_broken() {
            self.phase = Phase::Broken;
        }
        self.array.recorder.is_durable()
    }

    /// Members that have no device are failed; returns whether some had not been.
    fn fail_missing(&mut self, out: &mut Vec<Action>) -> bool {
        let seconds = self.seconds();
        let mut some = false;
        for index in 0..self.array.members.len() {
            let member = MemberId::at(index);
            let slot = &mut self.array.recorder.record.slots[index];
            if self.array.members[index].device.is_none() && slot.state != SlotState::Failed {
                let (known, was_up) = (slot.is_known(), slot.state == SlotState::Up);
                slot.becomes(SlotState::Failed, seconds);
                some = true;
                if known {
                    self.is_away(member, out);
                }
                // What was on it is on fewer others, until it is at home.
                if index >= self.geo.members() && was_up {
                    let thin = &mut self.array.recorder.record.staging_thin;
                    *thin = thin.with(member);
                }
            }
        }
        some |= self.look_for_successor(out);
        some
    }

    /// Records that the array is in use, by which members; entries of earlier epochs are void.
    fn record_start(&mut self, out: &mut Vec<Action>) {
        if self.replays.list.is_empty() {
            // After a crash some members may lack the latest pages; those that have them may fail.
            self.maps.spread();
        } else {
            let entries = self.replays.list.len() as u32;
            let runs = self.replays.list.iter().flat_map(|entry| &entry.runs);
            let blocks = runs.map(|run| u64::from(run.to.blocks)).sum();
            out.push(Action::Note(Note::JournalReplayed { entries, blocks }));
        }
        self.replays.list = Vec::new();
        self.fail_missing(out);
        self.array.recorder.record.epoch += 1;
        if self.staging.exists() && self.staging.dirty() == 0 {
            // What may be left of it is not to be found again.
            self.array.recorder.record.staging_epoch += 1;
        }
        self.array.recorder.record.clean = false;
        self.array.look_at_members();
        self.phase = Phase::Starting;
        self.record_change(out);
    }
}

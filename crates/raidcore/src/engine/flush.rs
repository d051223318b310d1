//! Flush rounds: all members are flushed together, for all that asked before the round began.
//!
//! Invariants: one round at a time; a request during a round is served by the next one, which
//! begins when this one ends. When a flush has failed on a member that can't be spared, it may have lost
//! what it had taken before, so every round fails for as long as it serves.

use alloc::vec::Vec;

use crate::units::{MemberId, Tag};

/// The rounds.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    pub(super) started: u64,
    pub(super) completed: u64,
    pub(super) outstanding: u32,
    pub(super) again: bool,
    /// What the round under way has come to so far.
    pub(super) round: Round,
    /// What the last round that ended came to: the next one may have begun already.
    pub(super) last: Round,
    pub(super) users: Vec<(u64, Tag)>,
    /// Users whose round has ended but for the record of a failure.
    pub(super) recording: Vec<(u64, Tag)>,
}

/// What a round makes durable.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// A member could not be flushed that can't be spared.
    pub(super) failed: bool,
    /// How many journal entries' blocks were at home when it began.
    pub(super) journal_mark: u64,
    /// How much had come home from the staging log.
    pub(super) staging_mark: u64,
    /// Where rebuilds stood when it began.
    pub(super) rebuilt: Vec<u64>,
    /// Where the distributed spare stood.
    pub(super) spared: u64,
    /// Where a successor stood.
    pub(super) copied: u64,
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

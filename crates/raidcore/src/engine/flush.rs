//! Flush rounds: all members are flushed together, for all that asked before the round began.
//!
//! The flusher numbers the rounds, and keeps what each makes durable and the users that wait for one.
//!
//! Invariants: one round at a time; a request during a round is served by the next one, which
//! begins when this one ends. When a flush has failed on a member that can't be spared, it may have lost
//! what it had taken before, so every round fails for as long as it serves.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::PassKind;
use super::pass::Filled;
use crate::units::Tag;

/// The rounds.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    started: u64,
    completed: u64,
    outstanding: u32,
    again: bool,
    /// What the round under way has come to so far.
    round: Round,
    /// What the last round that ended came to: the next one may have begun already.
    last: Round,
    /// Users, each with the round that serves it, in the order of these.
    users: VecDeque<(u64, Tag)>,
    /// Users whose round has ended but for the record of a failure, each with the version of that.
    recording: Vec<(u64, Tag)>,
}

/// What a round makes durable.
#[derive(Debug, Default)]
struct Round {
    /// A member could not be flushed that can't be spared.
    failed: bool,
    marks: Marks,
    /// What a pass had filled when it began.
    filled: Option<Filled>,
}

/// How far that was when a round began which it makes durable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// How much had come home that is in the journal, or went past it.
    pub(super) journal: u64,
    /// How much had come home from the staging log.
    pub(super) staging: u64,
}

impl Flusher {
    // Those that ask.

    /// A round is asked for: its number, and whether it is to begin now.
    pub(super) fn ask(&mut self) -> (u64, bool) {
        let is_under_way = self.outstanding > 0;
        self.again |= is_under_way;
        (self.next_round(), !is_under_way)
    }

    /// A user is to be answered by the round that is asked for next.
    pub(super) fn serve(&mut self, user: Tag) {
        self.users.push_back((self.next_round(), user));
    }

    /// A user that the rounds that ended have served, if there is one left.
    pub(super) fn take_served(&mut self) -> Option<Tag> {
        self.users.front().filter(|(round, _)| *round <= self.completed)?;
        self.users.pop_front().map(|(_, user)| user)
    }

    /// A user that was served is answered when a version of the record is durable.
    pub(super) fn answer_with(&mut self, version: u64, user: Tag) {
        self.recording.push((version, user));
    }

    /// A user that waited for a version of the record that is durable, if there is one left.
    pub(super) fn take_recorded(&mut self, durable: u64) -> Option<Tag> {
        let index = self.recording.iter().position(|(version, _)| *version <= durable)?;
        Some(self.recording.remove(index).1)
    }

    /// The round that serves a request of now.
    pub(super) fn next_round(&self) -> u64 {
        self.started + 1
    }

    /// Whether a round has ended.
    pub(super) fn is_over(&self, round: u64) -> bool {
        self.completed >= round
    }

    // A round.

    /// A round begins. It can't succeed if some member is `unkept`: what that has lost by a flush that
    /// failed is not made up for by one that does not.
    pub(super) fn begin(&mut self, unkept: bool, marks: Marks, filled: Option<Filled>) {
        self.started += 1;
        self.round = Round { failed: unkept, marks, filled };
    }

    /// So many members are being flushed. If none is left, the round has failed, and is over; that is
    /// returned.
    pub(super) fn begun(&mut self, members: u32) -> bool {
        self.outstanding = members;
        let is_over = members == 0;
        if is_over {
            self.fail();
        }
        is_over
    }

    /// A member can't be flushed that can't be spared.
    pub(super) fn fail(&mut self) {
        self.round.failed = true;
    }

    /// A member's flush has ended; returns whether that was the last one of the round.
    pub(super) fn one_done(&mut self) -> bool {
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// The round is over; returns its number.
    pub(super) fn end(&mut self) -> u64 {
        self.completed = self.started;
        core::mem::swap(&mut self.round, &mut self.last);
        self.completed
    }

    /// Whether another round was asked for during the last one; it is to begin now.
    pub(super) fn begins_again(&mut self) -> bool {
        core::mem::take(&mut self.again)
    }

    // What the last round has come to.

    /// Whether it has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.last.failed
    }

    /// How far that was which it has made durable, if it has not failed.
    pub(super) fn marks(&self) -> Marks {
        self.last.marks
    }

    /// What a pass has durably filled.
    pub(super) fn filled(&self, kind: PassKind) -> Option<Filled> {
        self.last.filled.filter(|filled| filled.kind == kind)
    }

    /// These passes begin anew on another device: what was filled on the old one is nothing to it.
    pub(super) fn forget_filled(&mut self, which: impl Fn(PassKind) -> bool) {
        for round in [&mut self.round, &mut self.last] {
            round.filled.take_if(|filled| which(filled.kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Ranges;
    use crate::units::MemberId;

    const FILLS: PassKind = PassKind::Rebuild(MemberId(1));

    fn begin(flusher: &mut Flusher, unkept: bool, at: u64) {
        let marks = Marks { journal: at, staging: at };
        flusher.begin(unkept, marks, Some(Filled { kind: FILLS, to: at, ranges: Ranges::none(9) }));
    }

    /// A round of two members, of which one fails or not.
    fn round(flusher: &mut Flusher, unkept: bool, fails: bool, at: u64) {
        begin(flusher, unkept, at);
        assert!(!flusher.begun(2) && !flusher.one_done());
        if fails {
            flusher.fail();
        }
        assert!(flusher.one_done());
        flusher.end();
    }

    #[test]
    fn who_asks_during_a_round_is_served_by_the_next_one() {
        let mut flusher = Flusher::default();
        flusher.serve(Tag(1));
        assert_eq!(flusher.ask(), (1, true));
        begin(&mut flusher, false, 1);
        flusher.begun(1);
        flusher.serve(Tag(2));
        flusher.serve(Tag(3));
        assert_eq!(flusher.ask(), (2, false));
        assert!(flusher.one_done());
        assert_eq!(flusher.end(), 1);
        assert!(flusher.is_over(1) && !flusher.is_over(2));
        assert_eq!((flusher.take_served(), flusher.take_served()), (Some(Tag(1)), None));
        assert!(flusher.begins_again() && !flusher.begins_again());
        round(&mut flusher, false, false, 2);
        assert_eq!((flusher.take_served(), flusher.take_served()), (Some(Tag(2)), Some(Tag(3))));
    }

    #[test]
    fn a_round_fails_with_a_member_that_can_not_be_spared_or_has_lost_something_or_without_any() {
        let mut flusher = Flusher::default();
        for (unkept, fails) in [(true, false), (false, true), (true, true), (false, false)] {
            round(&mut flusher, unkept, fails, 1);
            assert_eq!(flusher.has_failed(), unkept || fails);
        }
        begin(&mut flusher, false, 1);
        assert!(flusher.begun(0));
        flusher.end();
        assert!(flusher.has_failed());
    }

    #[test]
    fn what_counts_is_what_was_there_when_the_last_round_that_ended_began() {
        let mut flusher = Flusher::default();
        round(&mut flusher, false, false, 5);
        begin(&mut flusher, true, 9);
        flusher.begun(1);
        assert!(!flusher.has_failed());
        let filled = |flusher: &Flusher, kind| flusher.filled(kind).map(|filled| filled.to);
        assert_eq!((flusher.marks().journal, filled(&flusher, FILLS)), (5, Some(5)));
        assert_eq!(filled(&flusher, PassKind::Rebuild(MemberId(0))), None);
        flusher.forget_filled(|kind| kind != FILLS);
        assert_eq!(filled(&flusher, FILLS), Some(5));
        flusher.one_done();
        flusher.end();
        assert_eq!(filled(&flusher, FILLS), Some(9));
        begin(&mut flusher, false, 12);
        // What a round under way has seen of the device that was there before does not count either.
        flusher.forget_filled(|kind| kind == FILLS);
        assert_eq!(filled(&flusher, FILLS), None);
        flusher.begun(1);
        flusher.one_done();
        flusher.end();
        assert_eq!(filled(&flusher, FILLS), None);
    }

    #[test]
    fn users_that_wait_for_a_record_are_answered_with_theirs() {
        let mut flusher = Flusher::default();
        flusher.answer_with(4, Tag(1));
        flusher.answer_with(3, Tag(2));
        assert_eq!((flusher.take_recorded(3), flusher.take_recorded(3)), (Some(Tag(2)), None));
        assert_eq!(flusher.take_recorded(u64::MAX), Some(Tag(1)));
    }
}

//! Members that had no room for what was written to them, and could not be spared: the array takes no
//! writes until they have it. Now and then, what they have refused is written once more. When they take
//! it, the array takes writes again.
//!
//! Invariants: writes are taken again only when all that was refused is in its place and durable, the
//! journal would carry out nothing of it any more, and all members have all pages of the maps. What was
//! refused by a flush, or in any other way than for want of room, is left to the next start, as is what
//! a start has found: a device may have lost more than what it has told.

use det::Instant;

use super::IoError;

/// How far the array is with taking writes again.
#[derive(Debug, Default)]
pub(super) struct Healing {
    step: Step,
    /// When the next attempt is to begin.
    at: Option<Instant>,
    /// A member that can't be spared has refused something since the attempt began.
    refused: bool,
    /// Only a start can bring the array in order.
    hopeless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Step {
    #[default]
    Resting,
    /// What was refused is written.
    Writing,
    /// It is made durable.
    Flushing(u64),
    /// Maps are stored on all members, and the journal's tails.
    Storing,
}

/// What is to be done for it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    Nothing,
    /// An attempt begins.
    Begin,
    /// The next of what was refused is written, or all of it is made durable.
    Write,
    /// It is looked whether a flush round has made it durable.
    Flushed,
    /// What is to be stored is stored, and writes are taken again when it is.
    Store,
}

impl Healing {
    /// A member that can't be spared has refused something.
    pub(super) fn refused(&mut self, why: IoError) {
        self.refused = true;
        self.hopeless |= why != IoError::NoSpace;
    }

    /// Nothing but a start helps.
    pub(super) fn leave_to_a_start(&mut self) {
        self.hopeless = true;
    }

    /// Whether nothing but a start helps.
    pub(super) fn is_hopeless(&self) -> bool {
        self.hopeless
    }

    /// Whether no attempt is under way, nor to come.
    pub(super) fn is_idle(&self) -> bool {
        self.at.is_none() && !self.is_under_way()
    }

    /// Whether an attempt is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.step != Step::Resting
    }

    /// How far the attempt is.
    pub(super) fn step(&self) -> Step {
        self.step
    }

    /// When the next attempt is to begin.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at.filter(|_| !self.is_under_way())
    }

    /// What is to be done `now`. A new attempt begins at `later` if there is to be none yet, or this one has
    /// met a refusal. `writing` is whether something that was refused is being written, and `is_over` says
    /// whether a flush round has ended.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        later: Instant,
        writing: bool,
        is_over: impl FnOnce(u64) -> bool,
    ) -> Turn {
        match self.step {
            Step::Resting => match self.at {
                Some(at) if at <= now => return Turn::Begin,
                Some(_) => {}
                None => self.try_later(later),
            },
            Step::Writing if writing => {}
            _ if self.refused => self.try_later(later),
            Step::Writing => return Turn::Write,
            Step::Flushing(round) if !is_over(round) => {}
            Step::Flushing(_) => return Turn::Flushed,
            Step::Storing => return Turn::Store,
        }
        Turn::Nothing
    }

    /// There is to be no attempt.
    pub(super) fn stop(&mut self) {
        (self.step, self.at) = (Step::Resting, None);
    }

    /// An attempt begins then, and none before.
    pub(super) fn try_later(&mut self, at: Instant) {
        (self.step, self.at) = (Step::Resting, Some(at));
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self) {
        (self.step, self.refused) = (Step::Writing, false);
    }

    /// One of what was refused was written, or was not taken once more.
    pub(super) fn wrote(&mut self, done: bool) {
        self.refused |= !done;
    }

    /// All of it was taken: a flush round is to make it durable.
    pub(super) fn flush_with(&mut self, round: u64) {
        self.step = Step::Flushing(round);
    }

    /// It is durable.
    pub(super) fn flushed(&mut self) {
        self.step = Step::Storing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Instant = Instant(100);

    fn turn(healing: &mut Healing, now: u64, writing: bool) -> Turn {
        healing.turn(Instant(now), LATER, writing, |round| round <= 5)
    }

    #[test]
    fn an_attempt_writes_then_flushes_then_stores() {
        let mut healing = Healing::default();
        assert_eq!(turn(&mut healing, 1, false), Turn::Nothing);
        assert_eq!(healing.deadline(), Some(LATER));
        assert_eq!(turn(&mut healing, 99, false), Turn::Nothing);
        assert_eq!(turn(&mut healing, 100, false), Turn::Begin);
        healing.begin();
        assert_eq!((healing.deadline(), turn(&mut healing, 101, true)), (None, Turn::Nothing));
        healing.wrote(true);
        assert_eq!(turn(&mut healing, 102, false), Turn::Write);
        healing.flush_with(6);
        assert_eq!(turn(&mut healing, 103, false), Turn::Nothing);
        healing.flush_with(5);
        assert_eq!(turn(&mut healing, 104, false), Turn::Flushed);
        healing.flushed();
        assert_eq!(turn(&mut healing, 105, false), Turn::Store);
    }

    #[test]
    fn an_attempt_that_meets_a_refusal_ends_when_nothing_of_it_is_being_written() {
        let refusals: [fn(&mut Healing); 2] =
            [|healing| healing.wrote(false), |healing| healing.refused(IoError::NoSpace)];
        for refuse in refusals {
            let mut healing = Healing::default();
            healing.refused(IoError::NoSpace);
            healing.begin();
            assert_eq!(turn(&mut healing, 1, false), Turn::Write, "that was before it");
            refuse(&mut healing);
            assert_eq!(turn(&mut healing, 2, true), Turn::Nothing);
            assert!(healing.is_under_way());
            assert_eq!(turn(&mut healing, 3, false), Turn::Nothing);
            assert!(!healing.is_under_way() && healing.deadline() == Some(LATER));
            assert!(!healing.is_hopeless());
        }
    }

    #[test]
    fn only_want_of_room_is_made_up_for() {
        let mut healing = Healing::default();
        healing.refused(IoError::Medium);
        assert!(healing.is_hopeless());
    }
}

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
    pub(super) step: Step,
    /// When the next attempt is to begin.
    pub(super) at: Option<Instant>,
    /// A member that can't be spared has refused something since the attempt began.
    pub(super) refused: bool,
    /// Only a start can bring the array in order.
    pub(super) hopeless: bool,
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

    /// Whether no attempt is under way, nor to come.
    pub(super) fn is_idle(&self) -> bool {
        self.at.is_none() && !self.is_under_way()
    }

    /// Whether an attempt is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.step != Step::Resting
    }
}

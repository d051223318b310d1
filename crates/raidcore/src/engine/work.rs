//! What jobs are for.

use super::PassKind;

/// What a job is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Pieces of a user's read.
    Read,
    /// Pieces of users' writes.
    Write,
    /// The stripe becomes zeros; with `trim`, members are told that they need not keep it.
    Zero { trim: bool },
    /// A background pass's step.
    Sync(PassKind),
    /// A stripe's redundancy is made to agree with what a read of it is about to show.
    Align,
    /// Blocks that could not be read are written anew.
    Repair,
    /// An entry of the journal is carried out after an unclean stop.
    Replay { index: usize },
    /// What is staged comes home.
    Reclaim,
}

impl Work {
    /// Whether it is part of a user's request.
    pub(super) fn is_users(self) -> bool {
        match self {
            Self::Read | Self::Write | Self::Zero { .. } => true,
            Self::Sync(_) | Self::Align | Self::Repair | Self::Replay { .. } | Self::Reclaim => {
                false
            }
        }
    }

    /// Whether it brings a stripe in step that a crash may have left out of step.
    pub(super) fn resyncs(self) -> bool {
        match self {
            Self::Sync(PassKind::Resync) | Self::Align => true,
            Self::Sync(
                PassKind::Rebuild(_)
                | PassKind::Distribute(_)
                | PassKind::Copy(_)
                | PassKind::Scrub { .. }
                | PassKind::Reshape,
            )
            | Self::Read
            | Self::Write
            | Self::Zero { .. }
            | Self::Repair
            | Self::Replay { .. }
            | Self::Reclaim => false,
        }
    }
}

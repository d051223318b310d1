//! What goes into the staging log: staged writes, markers, tails.

/// Blocks of a ring that staged writes leave free, so that markers and tails find room.
pub(in crate::engine) const RESERVE: u64 = 8;

/// An entry takes at most this part of a ring.
pub(in crate::engine) const SHARE: u64 = 4;

/// What a job has to do with the staging log.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Logged {
    /// The entry that it writes.
    pub(in super::super) staged: Option<u64>,
    /// It writes over what is staged.
    pub(in super::super) covers: bool,
    /// There is room for its marker.
    pub(in super::super) promised: bool,
}

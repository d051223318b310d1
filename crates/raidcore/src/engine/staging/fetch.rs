//! Reading what is staged, or copied.

use alloc::vec::Vec;

use crate::plan::Piece;
use crate::units::{MemberId, Set};

/// As many as a job has under way at once.
pub(in crate::engine) const WINDOW: u32 = 8;

/// What a job reads from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum From {
    /// An entry of the log, by its number.
    Entry(u64),
    /// A copy, by its number.
    Copy(u64),
}

/// Consecutive blocks of an entry or a copy that a job reads.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Fetch {
    pub(in crate::engine) from: From,
    pub(in crate::engine) at: u32,
    /// What of its stripe that is.
    pub(in crate::engine) piece: Piece,
    /// The holders that could not read it.
    pub(in crate::engine) tried: Set<MemberId>,
}

/// What a job reads from the staging log, or from copies.
#[derive(Debug, Default)]
pub(in super::super) struct Fetching {
    pub(in super::super) fetches: Vec<Fetch>,
    /// How many of them were begun.
    pub(in crate::engine) fetched: usize,
}

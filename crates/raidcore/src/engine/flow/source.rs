//! What a source of single blocks has to be able to do; [sources](super::sources) lists them.

use crate::engine::{Engine, JobId};
use crate::plan::Piece;
use crate::units::{Lba, MemberId, Pba, Set, Stripe};

/// What a source knows something by, and a block of that.
type Found = (u64, u32);

/// Where the first block of what a source knows is.
type At = (MemberId, Pba);

/// A source of single blocks: it keeps them, under numbers of its own, where members have room that is
/// not a stripe's.
pub(super) struct Source {
    /// Whether a read of the stripe is to be looked at block by block at all.
    pub(super) concerns: fn(&Engine, Stripe) -> bool,
    /// The number of what has a block, and which of its blocks that is; or it passes. What was found is
    /// fetched.
    pub(super) find: fn(&mut Engine, JobId, Lba, Piece) -> Option<Found>,
    /// What has this number stays until it is unpinned as often as it was pinned.
    pub(super) pin: fn(&mut Engine, u64),
    /// See `pin`.
    pub(super) unpin: fn(&mut Engine, u64),
    /// Where that begins, on a member that is none of these.
    pub(super) place: fn(&Engine, u64, Set<MemberId>) -> Option<At>,
    /// No member is left from which one of the job's fetches could be read as a whole.
    pub(super) not_fetched: fn(&mut Engine, JobId, usize),
    /// Whether a read from it counts as one that goes around a busy member.
    pub(super) goes_around: bool,
}

//! The distributed spare's room goes back to the SSDs when nothing is on it any more: until they are
//! told so, they keep what was copied back, and collect garbage in that much less room.
//!
//! Invariants:
//! - Nothing is discarded before it is on record that the spare is free: until then a crash leaves
//!   an array that reads what is there.
//! - Discards and what the spare is used for never meet: each waits for what is under way of the
//!   other, and a new use ends what is left to be discarded: when that is over, all of it is.
//!
//! A stop or a crash ends it, too. What is left then costs room, and nothing else.

use det::Instant;

/// How many chunks of each member are discarded at a time.
pub(super) const PART: u64 = 8;

/// What is left to be discarded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpareTrim {
    /// How many blocks of each member were discarded, or are being.
    pub(super) done: u64,
    /// When the last part was begun, and how large it was.
    pub(super) last: Option<(Instant, u64)>,
}

//! Reads that take long are tried another way, too (hedged requests: Dean and Barroso, "The Tail at
//! Scale").
//!
//! Where the policy's patience has an end, a read goes to scratch memory. If it is not there by
//! then, a second job reads what the first still waits for from the other members. The one that
//! has all of it first takes the tag and answers; the other is given up: it ends when the devices have
//! answered, and its memory is its own until then.
//!
//! Invariants: of two that read the same, one has the tag; no I/O of theirs goes to a user's memory,
//! so that nothing is written there after the answer; the second holds the lock as long as the first
//! did, so both read the same.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use det::Instant;

use super::JobId;
use crate::geometry::Role;
use crate::units::Set;

/// How many reads a plan may have for it to be known which of them have landed.
pub(super) const READS_MAX: usize = 64;

/// The deadlines of reads, the earliest first. The entry of a read that has ended stays until it is popped
/// from the front.
#[derive(Debug, Default)]
pub(super) struct Patience {
    pub(super) until: BinaryHeap<Reverse<(Instant, u64)>>,
}

/// What a read has to do with another one of the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hedge {
    /// The other, if there are two, of which one is to answer.
    pub(super) partner: Option<JobId>,
    /// It is the second of them, and goes around these roles.
    pub(super) avoids: Set<Role>,
    /// Which of the plan's reads have ended well.
    pub(super) landed: Set<usize>,
}

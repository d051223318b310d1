//! What an unclean stop has left in the journal is carried out, one entry after the other, and the start is
//! recorded. The same is done while users are served, with what members have refused for want of room.
//!
//! Invariants: nothing is carried out before it is on record which members are missing, and before all that
//! are there know from the write-intent bitmap where. The start is recorded only when all is durable at
//! home, as entries of earlier epochs are void then.

use alloc::vec::Vec;

use super::IoError;
use crate::meta::Replay;
use crate::units::{MemberId, Stripe};

/// Entries that are to be carried out, and how far that has come.
#[derive(Debug)]
pub(super) struct Replays {
    pub(super) list: Vec<Replay>,
    pub(super) next: usize,
    pub(super) under_way: bool,
    /// The flush round after the last one.
    pub(super) flush: Option<u64>,
    /// Which members, that can't be spared, have not taken the blocks of which entries.
    pub(super) refused: Vec<(usize, MemberId, IoError)>,
}

impl Replays {
    pub(super) fn new(list: Vec<Replay>) -> Self {
        Self { list, next: 0, under_way: false, flush: None, refused: Vec::new() }
    }

    pub(super) fn get(&self, index: usize) -> &Replay {
        &self.list[index]
    }

    /// A member's copy of the entry that is being carried out can't be read.
    pub(super) fn pass_copy_by(&mut self, member: MemberId) {
        self.list[self.next].copies.retain(|&(m, _)| m != member);
    }

    /// What members have refused is to be carried out now.
    pub(super) fn begin_anew(&mut self, refused: Vec<Replay>) {
        (self.list, self.next) = (refused, 0);
    }

    /// What is to be carried out next, and of which stripe.
    pub(super) fn next(&self) -> Option<(usize, Stripe)> {
        Some((self.next, self.list.get(self.next)?.stripe))
    }

    /// Whether one is being carried out.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// The next one is being carried out.
    pub(super) fn one_begun(&mut self) {
        self.under_way = true;
    }

    /// It has ended.
    pub(super) fn one_done(&mut self) {
        self.under_way = false;
        self.next += 1;
    }

    /// A member that can't be spared has not taken a block of the entry that is being carried out.
    pub(super) fn refused_by(&mut self, member: MemberId, why: IoError) {
        self.refused.push((self.next, member, why));
    }
}

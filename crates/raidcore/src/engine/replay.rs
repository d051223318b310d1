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
    list: Vec<Replay>,
    next: usize,
    under_way: bool,
    /// The flush round after the last one.
    flush: Option<u64>,
    /// Which members, that can't be spared, have not taken the blocks of which entries.
    refused: Vec<(usize, MemberId, IoError)>,
}

impl Replays {
    pub(super) fn new(list: Vec<Replay>) -> Self {
        Self { list, next: 0, under_way: false, flush: None, refused: Vec::new() }
    }

    /// What members have refused is to be carried out now.
    pub(super) fn begin_anew(&mut self, refused: Vec<Replay>) {
        (self.list, self.next) = (refused, 0);
    }

    pub(super) fn get(&self, index: usize) -> &Replay {
        &self.list[index]
    }

    /// Whether there is nothing to be carried out.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
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

    /// A member's copy of the entry that is being carried out can't be read.
    pub(super) fn pass_copy_by(&mut self, member: MemberId) {
        self.list[self.next].copies.retain(|&(m, _)| m != member);
    }

    /// A member that can't be spared has not taken a block of the entry that is being carried out.
    pub(super) fn refused_by(&mut self, member: MemberId, why: IoError) {
        self.refused.push((self.next, member, why));
    }

    /// One has ended; returns its stripe, and whether a member has refused a block of it.
    pub(super) fn one_done(&mut self) -> (Stripe, bool) {
        let refused = self.refused.last().is_some_and(|&(entry, ..)| entry == self.next);
        let stripe = self.list[self.next].stripe;
        self.under_way = false;
        self.next += 1;
        (stripe, refused)
    }

    /// All are carried out: a flush round is to make that durable.
    pub(super) fn flush_with(&mut self, round: u64) {
        self.flush = Some(round);
    }

    /// That round.
    pub(super) fn flush(&self) -> Option<u64> {
        self.flush
    }

    /// Whether a member has refused a block of any.
    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Nothing of this is needed any more, but for which members have refused something.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = (MemberId, IoError)> + use<> {
        self.list = Vec::new();
        core::mem::take(&mut self.refused).into_iter().map(|(_, member, why)| (member, why))
    }

    /// All that was to be carried out is durable at home: how many entries, and blocks of them.
    pub(super) fn finish(&mut self) -> (u32, u64) {
        let list = core::mem::take(&mut self.list);
        let blocks = list.iter().flat_map(|entry| &entry.runs).map(|run| u64::from(run.to.blocks));
        (list.len() as u32, blocks.sum())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::units::Pba;

    fn replays() -> Replays {
        let entry = |number: u64| Replay {
            entry: number,
            stripe: Stripe(10 + number),
            copies: vec![(MemberId(1), Pba(0)), (MemberId(2), Pba(0))],
            runs: Vec::new(),
            left_out: None,
        };
        Replays::new(vec![entry(0), entry(1), entry(2)])
    }

    #[test]
    fn entries_are_carried_out_in_order_and_each_is_refused_for_itself() {
        let mut replays = replays();
        replays.pass_copy_by(MemberId(1));
        assert_eq!(replays.next(), Some((0, Stripe(10))));
        replays.refused_by(MemberId(2), IoError::NoSpace);
        assert_eq!(replays.one_done(), (Stripe(10), true));
        assert_eq!(replays.one_done(), (Stripe(11), false), "the one before was refused");
        replays.pass_copy_by(MemberId(2));
        assert_eq!(replays.get(0).copies, [(MemberId(2), Pba(0))]);
        assert_eq!(replays.get(2).copies, [(MemberId(1), Pba(0))]);
        replays.one_done();
        assert_eq!(replays.next(), None);
        assert!(replays.has_refused());
        assert!(replays.give_up().eq([(MemberId(2), IoError::NoSpace)]));
        assert!(replays.is_empty() && !replays.has_refused());
    }
}

//! The stripe journal: a redo log on the members that hold the stripe's parity, which closes the
//! write hole.
//!
//! An entry holds all blocks that a write is about to change, parity included. Its copies lie on
//! the parity members, one each: a stripe whose parity members are gone has no hole.
//!
//! Invariants:
//! - A member's blocks change only when the entry is durable on all holders.
//! - An entry may be overwritten only when its blocks are durable at home *and* a later entry on
//!   disk says so through its tail: until then a replay after a crash would carry it out.
//! - A stripe with an entry that a replay would carry out is written only through the journal, or
//!   the replay would bring the past back.
//! - The latest entry of a ring is never overwritten: it carries the tail.

use alloc::vec;
use alloc::vec::Vec;

use super::journal_ring::{Entry, JournalRing};
use crate::meta::{ArrayRecord, Consistency};
use crate::units::{MemberId, Pba, Stripe};

/// Blocks that entries leave free, so that a tail record finds room.
pub(super) const RESERVE: u64 = 2;

const BUCKETS: usize = 4096;

/// The number of what is no entry, but is to be written where it is.
pub(super) const IN_PLACE: u64 = u64::MAX;

/// The rings.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) start: Pba,
    pub(super) len: u64,
    pub(super) rings: Vec<JournalRing>,
    pub(super) next_entry: u64,
    pub(super) homes_done: u64,
    /// How many entries that a replay would carry out a stripe has, by a hash of the stripe.
    pub(super) live: Vec<u32>,
    pub(super) entries: u32,
    /// Since when, in `homes_done`, a stripe has been written past the journal, by a hash of the stripe.
    passed: Vec<u64>,
    /// What of that is durable.
    pub(super) flushed: u64,
    /// A job waits for room.
    pub(super) starved: bool,
}

impl Journal {
    pub(super) fn new(record: &ArrayRecord, next_entry: u64) -> Self {
        let (start, len) = record.areas.journal();
        let used = record.consistency == Consistency::Journal && record.geometry.parities() > 0;
        let len = if used { len } else { 0 };
        Self {
            start,
            len,
            rings: (0..record.geometry.members()).map(|_| JournalRing::with_room(len)).collect(),
            next_entry,
            homes_done: 0,
            live: vec![0; BUCKETS],
            entries: 0,
            passed: vec![0; BUCKETS],
            flushed: 0,
            starved: false,
        }
    }

    pub(super) fn homes_done(&self) -> u64 {
        self.homes_done
    }

    /// An entry, or a record of the tail, of a member's ring.
    pub(super) fn entry(&self, member: MemberId, id: u64) -> Option<&Entry> {
        self.rings[member.index()].entries().iter().rev().find(|entry| entry.id == id)
    }

    /// Whether a member's ring has an entry; what is none, but is written where it is, anybody has.
    pub(super) fn holds(&self, member: MemberId, entry: u64) -> bool {
        let ring = self.rings.get(member.index());
        entry == IN_PLACE || ring.is_some_and(|ring| ring.entries().iter().any(|e| e.id == entry))
    }

    /// What entries hold is at home, or was not begun to be brought there: once that is durable, none
    /// has to be carried out.
    pub(super) fn all_at_home(&mut self) {
        self.homes_done += 1;
        for entry in self.rings.iter_mut().flat_map(|ring| ring.ring.entries_mut()) {
            entry.home = entry.home.or(Some(self.homes_done));
        }
    }

    pub(super) fn bucket(stripe: Stripe) -> u16 {
        (stripe.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as u16
    }

    pub(super) fn is_live(&self, stripe: Stripe) -> bool {
        self.live[usize::from(Self::bucket(stripe))] > 0
    }

    /// Whether a replay would carry out an entry of this very stripe.
    pub(super) fn would_replay(&self, stripe: Stripe) -> bool {
        let mut entries = self.rings.iter().flat_map(JournalRing::entries);
        self.is_live(stripe) && entries.any(|entry| entry.stripe == Some(stripe))
    }

    /// Whether a replay would change a stripe: carry out an entry whose write was refused, so that its
    /// blocks were not brought home.
    pub(super) fn would_change(&self, stripe: Stripe) -> bool {
        let mut entries = self.rings.iter().flat_map(JournalRing::entries);
        self.is_live(stripe) && entries.any(|e| e.stripe == Some(stripe) && e.home.is_none())
    }

    /// A write of a stripe has come home without an entry and without FUA.
    pub(super) fn pass_by(&mut self, stripe: Stripe) {
        if self.len > 0 {
            self.homes_done += 1;
            self.passed[usize::from(Self::bucket(stripe))] = self.homes_done;
        }
    }

    /// Whether a stripe may hold what was written past the journal and is not durable.
    pub(super) fn is_passed(&self, stripe: Stripe) -> bool {
        self.passed[usize::from(Self::bucket(stripe))] > self.flushed
    }

    /// Whether a replay would carry out any entry, or a tail lags behind.
    pub(super) fn is_unsettled(&self) -> bool {
        self.entries > 0
    }

    /// The stripes of which a member may not have, or not durably, what entries hold.
    pub(super) fn unflushed(&self) -> impl Iterator<Item = Stripe> + '_ {
        let entries = self.rings.iter().flat_map(JournalRing::entries);
        entries.filter(|entry| !entry.retired).filter_map(|entry| entry.stripe)
    }

    /// The number of the next entry.
    pub(super) fn next_entry(&self) -> u64 {
        self.next_entry
    }

    /// Whether a replay would carry out nothing of a member's ring from before this entry.
    pub(super) fn is_settled_before(&self, member: MemberId, entry: u64) -> bool {
        let ring = self.rings.get(member.index());
        let mut before =
            ring.into_iter().flat_map(JournalRing::entries).take_while(|e| e.id < entry);
        before.all(|entry| entry.retired)
    }

    /// A member has another device, whose ring has the same as before from this entry on.
    pub(super) fn inherit_ring(&mut self, member: MemberId, first: u64) {
        while let Some(ring) = self.rings.get_mut(member.index())
            && let Some(entry) = ring.ring.pop_if(|entry| entry.id < first)
        {
            self.forget(entry);
        }
    }

    /// A member is gone, and its ring with it.
    pub(super) fn drop_ring(&mut self, member: MemberId) {
        while let Some(entry) = self.rings[member.index()].ring.pop_if(|_| true) {
            self.forget(entry);
        }
        self.rings[member.index()].clear();
    }

    fn forget(&mut self, entry: Entry) {
        if let Some(stripe) = entry.stripe {
            self.live[usize::from(Self::bucket(stripe))] -= 1;
            self.entries -= 1;
        }
    }

    /// An entry or tail record is durable in a ring: what it says is no longer live is free.
    pub(super) fn on_disk(&mut self, member: MemberId, id: u64) {
        let ring = &mut self.rings[member.index()];
        let Some(entry) = ring.find(id) else {
            return;
        };
        entry.on_disk = true;
        let tail = entry.tail;
        ring.tail = ring.tail.max(tail);
        let latest = ring.entries().iter().rev().find(|e| e.on_disk).map_or(0, |e| e.id);
        // A tail record needs no replay, but its write may still be under way.
        let tail = ring.tail;
        let is_void = |oldest: &Entry| {
            let live = oldest.id >= tail;
            !live && oldest.id < latest && oldest.on_disk
        };
        while let Some(entry) = self.rings[member.index()].ring.pop_if(is_void) {
            self.forget(entry);
        }
    }
}

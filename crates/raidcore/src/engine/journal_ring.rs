//! A member's ring of the journal, as far as the engine has to know it.

use alloc::collections::VecDeque;

use super::ring::Ring;
use crate::units::Stripe;

#[derive(Debug)]
pub(super) struct JournalRing {
    pub(super) ring: Ring<Entry>,
    pub(super) tail: u64,
    pub(super) tail_in_flight: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) at: u64,
    /// The stripe that is written; none for a tail record.
    pub(super) stripe: Option<Stripe>,
    /// The tail that it records.
    pub(super) tail: u64,
    /// Stores of it under way.
    pub(super) stores: u8,
    pub(super) on_disk: bool,
    /// Its member has not taken it: nothing of it counts.
    pub(super) refused: bool,
    /// Its number in the order in which entries came home.
    pub(super) home: Option<u64>,
    pub(super) retired: bool,
}

impl super::ring::Entry for Entry {
    fn at(&self) -> u64 {
        self.at
    }
}

impl JournalRing {
    /// An empty ring of so many blocks, with memory for as many entries as they can hold.
    pub(super) fn with_room(blocks: u64) -> Self {
        Self { ring: Ring::with_room(blocks), tail: 0, tail_in_flight: false }
    }

    /// Its entries, oldest first.
    pub(super) fn entries(&self) -> &VecDeque<Entry> {
        self.ring.entries()
    }

    /// Nothing of it counts any more.
    pub(super) fn clear(&mut self) {
        self.ring.clear();
        (self.tail, self.tail_in_flight) = (0, false);
    }

    /// The oldest entry that a replay has to carry out, as far as is known now.
    pub(super) fn tail_now(&self, next: u64) -> u64 {
        self.entries().iter().find(|e| !e.retired).map_or(next, |e| e.id)
    }

    /// An entry by its number.
    pub(super) fn find(&mut self, id: u64) -> Option<&mut Entry> {
        self.ring.find_by(id, |entry| entry.id)
    }

    /// Whether a record of the tail as it is now would free an entry, and not just a record like it.
    pub(super) fn has_retired(&self) -> bool {
        self.entries().iter().take_while(|e| e.retired).any(|e| e.stripe.is_some())
    }

    pub(super) fn push(&mut self, id: u64, at: u64, blocks: u64, stripe: Option<Stripe>) {
        let tail = self.tail_now(id);
        let retired = stripe.is_none();
        let (stores, on_disk, refused, home) = (0, false, false, None);
        let entry = Entry { id, at, stripe, tail, stores, on_disk, refused, home, retired };
        self.ring.push(entry, blocks);
    }

    /// The member has not taken an entry or a record of the tail. The latter's place is free if nothing
    /// lies behind it: others are tried, and each would take a block.
    pub(super) fn refuse(&mut self, id: u64) {
        let Some(entry) = self.find(id) else { return };
        entry.refused = true;
        entry.stores -= 1;
        entry.on_disk |= entry.stores == 0;
        let (is_tail, is_over) = (entry.stripe.is_none(), entry.stores == 0);
        if is_tail && is_over && self.entries().back().is_some_and(|last| last.id == id) {
            self.ring.take_back();
        }
    }
}

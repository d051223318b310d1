//! A member's ring of the journal, as far as the engine has to know it.

use alloc::collections::VecDeque;

use crate::units::Stripe;

/// The blocks of the smallest entry: a header and one block.
const ENTRY_MIN: u64 = 2;

#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) head: u64,
    pub(super) entries: VecDeque<Entry>,
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

impl Ring {
    /// An empty ring of so many blocks, with room for as many entries as they can hold.
    pub(super) fn with_room(blocks: u64) -> Self {
        Self { entries: VecDeque::with_capacity((blocks / ENTRY_MIN) as usize), ..Self::default() }
    }

    /// Where `blocks` contiguous blocks are free.
    pub(super) fn room(&self, len: u64, blocks: u64) -> Option<u64> {
        let Some(oldest) = self.entries.front().map(|e| e.at) else {
            return (blocks <= len).then_some(if self.head + blocks <= len {
                self.head
            } else {
                0
            });
        };
        if self.head > oldest {
            if self.head + blocks <= len { Some(self.head) } else { (blocks < oldest).then_some(0) }
        } else {
            (self.head + blocks < oldest).then_some(self.head)
        }
    }

    /// The oldest entry that a replay has to carry out, as far as is known now.
    pub(super) fn tail_now(&self, next: u64) -> u64 {
        self.entries.iter().find(|e| !e.retired).map_or(next, |e| e.id)
    }

    /// The entries lie in the order of their numbers.
    pub(super) fn find(&mut self, id: u64) -> Option<&mut Entry> {
        let index = self.entries.binary_search_by_key(&id, |e| e.id).ok()?;
        self.entries.get_mut(index)
    }

    /// Whether a record of the tail as it is now would free an entry, and not just a record like it.
    pub(super) fn has_retired(&self) -> bool {
        self.entries.iter().take_while(|e| e.retired).any(|e| e.stripe.is_some())
    }

    pub(super) fn push(&mut self, id: u64, at: u64, blocks: u64, stripe: Option<Stripe>) {
        let tail = self.tail_now(id);
        let retired = stripe.is_none();
        self.head = at + blocks;
        let (stores, on_disk, refused, home) = (0, false, false, None);
        let entry = Entry { id, at, stripe, tail, stores, on_disk, refused, home, retired };
        self.entries.push_back(entry);
    }

    /// The member has not taken an entry or a record of the tail. The latter's place is free if nothing
    /// lies behind it: others are tried, and each would take a block.
    pub(super) fn refuse(&mut self, id: u64) {
        let Some(entry) = self.find(id) else { return };
        entry.refused = true;
        entry.stores -= 1;
        entry.on_disk |= entry.stores == 0;
        let (at, is_tail, is_over) = (entry.at, entry.stripe.is_none(), entry.stores == 0);
        if is_tail && is_over && self.entries.back().is_some_and(|last| last.id == id) {
            self.entries.pop_back();
            self.head = at;
        }
    }
}

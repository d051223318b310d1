//! A member's part of a log that is written in a ring: where the next entry has room.

use alloc::collections::VecDeque;

/// The blocks of the smallest entry that holds data: a header and one block.
const ENTRY_MIN: u64 = 2;

/// What a ring knows of each of its entries.
pub(super) trait Entry {
    /// At which block it begins.
    fn at(&self) -> u64;
}

/// An entry of which only its number is known, and where it begins.
impl Entry for (u64, u64) {
    fn at(&self) -> u64 {
        self.1
    }
}

/// Blocks that entries take one after the other, oldest first. An entry is contiguous: one that does
/// not fit before the end begins at the start.
#[derive(Debug)]
pub(super) struct Ring<E> {
    /// Its blocks.
    len: u64,
    /// Behind the latest entry.
    head: u64,
    /// Oldest first.
    entries: VecDeque<E>,
}

impl<E: Entry> Ring<E> {
    /// An empty one of so many blocks.
    pub(super) fn new(len: u64) -> Self {
        Self { len, head: 0, entries: VecDeque::new() }
    }

    /// The same, with memory for as many entries as they can hold.
    pub(super) fn with_room(len: u64) -> Self {
        Self { entries: VecDeque::with_capacity((len / ENTRY_MIN) as usize), ..Self::new(len) }
    }

    /// It has no entries any more, and begins anew.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.head = 0;
    }

    /// Its blocks.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Its entries, oldest first.
    pub(super) fn entries(&self) -> &VecDeque<E> {
        &self.entries
    }

    /// The same. None is moved: each stays where it lies.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.entries.iter_mut()
    }

    /// An entry by its number: they lie in the order of their numbers, of which no two have the same. So it
    /// is at most as far from the latest as their numbers are, and mostly it is one of the latest.
    pub(super) fn find_by(&mut self, number: u64, of: impl Fn(&E) -> u64) -> Option<&mut E> {
        let last = self.entries.len().checked_sub(1)?;
        let behind = of(&self.entries[last]).checked_sub(number)?;
        let (mut low, mut high) = (last.saturating_sub(behind as usize), last);
        while low < high {
            let middle = low.midpoint(high);
            match of(&self.entries[middle]) < number {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        self.entries.get_mut(low).filter(|entry| of(entry) == number)
    }

    /// Where so many contiguous blocks are free, at least one.
    pub(super) fn room(&self, blocks: u64) -> Option<u64> {
        // Where what is free behind the latest entry ends, and how much is free at the start.
        let (end, at_start) = match self.entries.front().map(E::at) {
            None => (self.len, self.len),
            Some(oldest) if self.head <= oldest => (oldest, 0),
            Some(oldest) => (self.len, oldest),
        };
        if self.head + blocks <= end { Some(self.head) } else { (blocks <= at_start).then_some(0) }
    }

    /// Blocks from the oldest entry to behind the latest one.
    pub(super) fn used(&self) -> u64 {
        match self.entries.front().map(E::at) {
            None => 0,
            Some(oldest) if oldest < self.head => self.head - oldest,
            Some(oldest) => self.len + self.head - oldest,
        }
    }

    /// An entry takes so many blocks, of those that [`room`](Self::room) has told.
    pub(super) fn push(&mut self, entry: E, blocks: u64) {
        self.head = entry.at() + blocks;
        self.entries.push_back(entry);
    }

    /// The oldest entry's room is free, if it may be.
    pub(super) fn pop_if(&mut self, may: impl FnOnce(&E) -> bool) -> Option<E> {
        self.entries.front().is_some_and(may).then(|| self.entries.pop_front()).flatten()
    }

    /// The latest entry's room is free, as if it had never been there.
    pub(super) fn take_back(&mut self) {
        if let Some(latest) = self.entries.pop_back() {
            self.head = latest.at();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Ring;

    /// The same as `room`, by looking at every block. `used` is where entries begin, and their blocks.
    fn free_run(len: u64, used: &[(u64, u64)], head: u64, blocks: u64) -> Option<u64> {
        let is_free = |at: u64| used.iter().all(|&(from, n)| at < from || at >= from + n);
        let fits = |from: u64| from + blocks <= len && (from..from + blocks).all(is_free);
        let behind = used.first().is_some_and(|&(oldest, _)| head <= oldest);
        [head, 0].into_iter().find(|&from| fits(from) && !(from == 0 && head != 0 && behind))
    }

    #[test]
    fn room_is_told_where_a_model_finds_it() {
        for seed in 0..200 {
            let mut draw = det::Prng::new(seed);
            let len = 1 + draw.below(24);
            let (mut ring, mut head) = (Ring::new(len), 0);
            let mut used: Vec<(u64, u64)> = Vec::new();
            for number in 0..200 {
                let blocks = 1 + draw.below(6);
                let at = ring.room(blocks);
                assert_eq!(at, free_run(len, &used, head, blocks), "{len}: {used:?} {blocks}");
                match at {
                    Some(at) if draw.below(3) > 0 => {
                        ring.push((number, at), blocks);
                        used.push((at, blocks));
                        head = at + blocks;
                    }
                    _ if draw.below(4) == 0 => {
                        ring.take_back();
                        head = used.pop().map_or(head, |(at, _)| at);
                    }
                    _ => {
                        let popped = ring.pop_if(|_| true).map(|(_, at)| at);
                        assert_eq!(popped, (!used.is_empty()).then(|| used.remove(0).0));
                    }
                }
                let taken: u64 = used.iter().map(|&(_, blocks)| blocks).sum();
                assert!((taken..=len).contains(&ring.used()), "{len}: {used:?}");
            }
        }
    }
}

//! A member's part of a log that is written in a ring: where the next entry has room, and whose room is
//! free.
//!
//! An entry tells the log's *tail*: all entries before that number are void. The *replay window* of a ring
//! is what lies from its tail on: that is carried out after a crash.
//!
//! Invariants:
//! - Entries lie in the order of their numbers, of which no two have the same; but an entry that was put
//!   elsewhere late may lie behind later ones, and is not found by its number. Its room is free with theirs.
//! - Room in the replay window is not used anew. The tail moves only when an entry is durable that tells it.
//! - Room is not used anew while something is being written there, or discarded.
//! - The latest entry that has told the tail stays, as no entry tells a tail that is beyond itself.

use alloc::collections::VecDeque;
use core::ops::Range;

/// The blocks of the smallest entry that holds data: a header and one block.
const ENTRY_MIN: u64 = 2;

/// What a ring knows of each of its entries.
pub(super) trait Entry {
    /// Its number in the log.
    fn number(&self) -> u64;

    /// At which block it begins.
    fn at(&self) -> u64;

    /// Whether nothing is being written where it lies.
    fn is_settled(&self) -> bool {
        true
    }
}

/// An entry of which only its number is known, and where it begins.
impl Entry for (u64, u64) {
    fn number(&self) -> u64 {
        self.0
    }

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
    /// All entries before this number are void.
    tail: u64,
    /// Oldest first.
    entries: VecDeque<E>,
    /// How many came before them.
    gone: u64,
    /// Blocks that are being discarded: free, and not to be used before that has ended.
    discarded: Option<Range<u64>>,
}

impl<E: Entry> Ring<E> {
    /// An empty one of so many blocks.
    pub(super) fn new(len: u64) -> Self {
        Self { len, head: 0, tail: 0, entries: VecDeque::new(), gone: 0, discarded: None }
    }

    /// The same, with memory for as many entries as they can hold.
    pub(super) fn with_room(len: u64) -> Self {
        Self { entries: VecDeque::with_capacity((len / ENTRY_MIN) as usize), ..Self::new(len) }
    }

    /// It has no entries any more, and begins anew.
    pub(super) fn clear(&mut self) {
        self.gone += self.entries.len() as u64;
        self.entries.clear();
        (self.head, self.tail) = (0, 0);
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

    /// How many entries there have been: by that the next one is found at once.
    pub(super) fn count(&self) -> u64 {
        self.gone + self.entries.len() as u64
    }

    /// The entry before which there have been so many.
    pub(super) fn after(&self, count: u64) -> Option<&E> {
        self.entries.get(usize::try_from(count.checked_sub(self.gone)?).ok()?)
    }

    /// An entry by its number.
    pub(super) fn find(&self, number: u64) -> Option<&E> {
        self.entries.get(self.index(number)?)
    }

    /// The same.
    pub(super) fn find_mut(&mut self, number: u64) -> Option<&mut E> {
        let index = self.index(number)?;
        self.entries.get_mut(index)
    }

    /// An entry is at most as far from the latest as their numbers are, and mostly it is one of the latest.
    fn index(&self, number: u64) -> Option<usize> {
        let last = self.entries.len().checked_sub(1)?;
        let behind = self.entries[last].number().checked_sub(number)?;
        let (mut low, mut high) = (last.saturating_sub(behind as usize), last);
        while low < high {
            let middle = low.midpoint(high);
            match self.entries[middle].number() < number {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        (self.entries[low].number() == number).then_some(low)
    }

    /// Where so many contiguous blocks are free, at least one.
    pub(super) fn room(&self, blocks: u64) -> Option<u64> {
        // Where what is free behind the latest entry ends, and how much is free at the start.
        let (mut end, mut at_start) = match self.entries.front().map(E::at) {
            None => (self.len, self.len),
            Some(oldest) if self.head <= oldest => (oldest, 0),
            Some(oldest) => (self.len, oldest),
        };
        if let Some(&Range { start, .. }) = self.discarded.as_ref() {
            end = if self.head <= start { end.min(start) } else { end };
            at_start = at_start.min(start);
        }
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

    /// Where the oldest entry begins, or the next one if there is none.
    pub(super) fn oldest(&self) -> u64 {
        self.entries.front().map_or(self.head, E::at)
    }

    /// These blocks, which are free, are being discarded. They are no room until that has ended.
    pub(super) fn begin_discard(&mut self, blocks: Range<u64>) {
        self.discarded = Some(blocks);
    }

    /// The discard has ended.
    pub(super) fn end_discard(&mut self) {
        self.discarded = None;
    }

    /// An entry takes so many blocks, of those that [`room`](Self::room) has told.
    fn push(&mut self, entry: E, blocks: u64) {
        self.head = entry.at() + blocks;
        self.entries.push_back(entry);
    }

    /// An entry takes so many blocks where `free` more are free behind them, if there are such. `entry`
    /// makes it of where it begins, which is returned.
    pub(super) fn append(
        &mut self,
        blocks: u64,
        free: u64,
        entry: impl FnOnce(u64) -> E,
    ) -> Option<u64> {
        let at = self.room(blocks + free)?;
        self.push(entry(at), blocks);
        Some(at)
    }

    /// An entry is durable that tells the tail: the room of the entries before it is free, which `freed`
    /// is told of, up to one that is being written. The room of that and of what lies behind it becomes free
    /// with one of the next tails.
    pub(super) fn free_before(&mut self, tail: u64, mut freed: impl FnMut(E)) {
        self.tail = self.tail.max(tail);
        let tail = self.tail;
        let is_void = |oldest: &E| oldest.number() < tail && oldest.is_settled();
        while let Some(entry) = self.pop_if(is_void) {
            freed(entry);
        }
    }

    /// The oldest entry's room is free, if it may be.
    pub(super) fn pop_if(&mut self, may: impl FnOnce(&E) -> bool) -> Option<E> {
        if !self.entries.front().is_some_and(may) {
            return None;
        }
        self.gone += 1;
        self.entries.pop_front()
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

    use super::{Entry, Ring};

    /// An entry with its number, where it begins, and whether it is settled.
    impl Entry for (u64, u64, bool) {
        fn number(&self) -> u64 {
            self.0
        }

        fn at(&self) -> u64 {
            self.1
        }

        fn is_settled(&self) -> bool {
            self.2
        }
    }

    fn numbers(ring: &Ring<(u64, u64, bool)>) -> Vec<u64> {
        ring.entries().iter().map(Entry::number).collect()
    }

    #[test]
    fn room_is_free_before_the_tail_but_for_what_is_being_written() {
        let mut ring = Ring::new(16);
        for number in 1..=5 {
            ring.append(2, 0, |at| (number, at, number != 3)).expect("there is room");
        }
        let mut freed = Vec::new();
        ring.free_before(5, |(number, ..)| freed.push(number));
        assert_eq!((freed, numbers(&ring)), (alloc::vec![1, 2], alloc::vec![3, 4, 5]));
        ring.find_mut(3).expect("it is there").2 = true;
        // An entry that was begun earlier tells less than what is known.
        ring.free_before(2, drop);
        assert_eq!(numbers(&ring), [5], "the tail does not move back");
    }

    #[test]
    fn an_entry_begins_where_there_is_room_for_what_is_to_stay_free_behind_it() {
        let mut ring = Ring::new(10);
        let entry = |number| move |at| (number, at);
        assert_eq!(ring.append(4, 2, entry(1)), Some(0));
        assert_eq!(ring.append(4, 2, entry(2)), Some(4));
        assert_eq!(ring.append(2, 1, entry(3)), None, "the end is too near, the start not free");
        ring.free_before(2, drop);
        assert_eq!(ring.append(2, 1, entry(3)), Some(0));
    }

    #[test]
    fn what_is_being_discarded_is_no_room() {
        let mut ring = Ring::new(16);
        let entry = |number| move |at| (number, at);
        assert_eq!(ring.append(2, 0, entry(1)), Some(0));
        ring.begin_discard(6..10);
        assert_eq!((ring.room(4), ring.room(5)), (Some(2), None));
        ring.end_discard();
        assert_eq!(ring.append(12, 0, entry(2)), Some(2));
        ring.free_before(2, drop);
        ring.begin_discard(1..2);
        assert_eq!((ring.room(2), ring.room(3)), (Some(14), None), "the start is being discarded");
        assert_eq!(ring.append(2, 0, entry(3)), Some(14));
        assert_eq!((ring.room(1), ring.room(2)), (Some(0), None));
    }

    #[test]
    fn an_entry_is_found_by_its_number_or_not_at_all() {
        let mut ring = Ring::new(64);
        for number in [2, 3, 7, 8, 20] {
            ring.append(2, 0, |at| (number, at)).expect("there is room");
        }
        let found = |number| ring.find(number).map(Entry::number);
        (0..22).for_each(|number| {
            let is_there = [2, 3, 7, 8, 20].contains(&number);
            assert_eq!(found(number), is_there.then_some(number));
        });
    }

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

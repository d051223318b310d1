//! The map from users' blocks to blocks of the log (L2P), five bytes for each.
//!
//! Invariants: the entry of a block that was never written, or was discarded, is all ones. A page
//! is dirty in an area from its first change after the area's last checkpoint until it is taken for
//! the next one.

use alloc::vec;
use alloc::vec::Vec;

use raidcore::units::Lba;

use crate::sizes::{ENTRIES_PER_PAGE, WIDTH};
use crate::units::Pba;

/// Five bytes of ones.
const NONE: u64 = (1 << 40) - 1;

/// The map from users' blocks to blocks of the log (L2P), five bytes for each.
#[derive(Clone, Debug)]
pub struct Map {
    /// Entries, and three bytes more, so that eight can be read from anywhere.
    bytes: Vec<u8>,
    blocks: u64,
    dirty: Dirty,
}

impl Map {
    /// A map of `blocks` blocks without places. `pages` is the number of pages whose dirtiness is
    /// tracked: those of the map come first.
    #[must_use]
    pub fn new(blocks: u64, pages: u32) -> Self {
        let bytes = vec![0xff; blocks as usize * WIDTH + 3];
        Self { bytes, blocks, dirty: Dirty::new(pages) }
    }

    /// Where a block is.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn get(&self, lba: Lba) -> Option<Pba> {
        assert!(lba.0 < self.blocks, "a block beyond the map");
        let at = lba.0 as usize * WIDTH;
        let word = self.bytes[at..].first_chunk().map_or(NONE, |word| u64::from_le_bytes(*word));
        let pba = word & NONE;
        (pba != NONE).then_some(Pba(pba))
    }

    /// Sets where a block is; returns where it was.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn set(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        let old = self.get(lba);
        let at = lba.0 as usize * WIDTH;
        let word = pba.map_or(NONE, |pba| pba.0).to_le_bytes();
        self.bytes[at..at + WIDTH].copy_from_slice(&word[..WIDTH]);
        self.touch((lba.0 / ENTRIES_PER_PAGE) as u32);
        old
    }

    /// How many blocks the map has.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The bytes of a page's entries.
    pub(crate) fn page(&self, page: u32) -> &[u8] {
        let first = u64::from(page) * ENTRIES_PER_PAGE;
        let end = (first + ENTRIES_PER_PAGE).min(self.blocks);
        &self.bytes[first as usize * WIDTH..end as usize * WIDTH]
    }

    /// Loads a page's entries from a checkpoint.
    pub(crate) fn load(&mut self, page: u32, entries: &[u8]) {
        let first = (u64::from(page) * ENTRIES_PER_PAGE) as usize * WIDTH;
        let length = self.page(page).len();
        self.bytes[first..first + length].copy_from_slice(&entries[..length]);
    }

    /// Marks a page of any kind as different from both checkpoints.
    pub(crate) fn touch(&mut self, page: u32) {
        self.dirty.set(page);
    }

    /// Takes up to `most` consecutive pages that are dirty in an area, from `from` on, within one
    /// run of pages.
    pub(crate) fn take_dirty(
        &mut self,
        area: u64,
        from: u32,
        (most, run): (u32, u32),
    ) -> Option<(u32, u32)> {
        self.dirty.take(area as usize, from, (most, run))
    }

    /// How many pages are dirty in an area.
    pub(crate) fn dirty(&self, area: u64) -> u32 {
        self.dirty.counts[area as usize]
    }
}

/// Which pages differ from the checkpoint of each area.
#[derive(Clone, Debug)]
struct Dirty {
    areas: [Vec<u64>; 2],
    counts: [u32; 2],
    pages: u32,
}

impl Dirty {
    /// All of them.
    fn new(pages: u32) -> Self {
        let words = vec![u64::MAX; pages.div_ceil(64) as usize];
        Self { areas: [words.clone(), words], counts: [pages; 2], pages }
    }

    fn set(&mut self, page: u32) {
        for (words, count) in self.areas.iter_mut().zip(&mut self.counts) {
            let word = &mut words[(page / 64) as usize];
            *count += u32::from(*word >> (page % 64) & 1 == 0);
            *word |= 1 << (page % 64);
        }
    }

    fn take(&mut self, area: usize, from: u32, (most, run): (u32, u32)) -> Option<(u32, u32)> {
        let words = &mut self.areas[area];
        let mut page = from;
        while page < self.pages && words[(page / 64) as usize] >> (page % 64) & 1 == 0 {
            // Clean words are skipped.
            let rest = words[(page / 64) as usize] >> (page % 64);
            page += if rest == 0 { 64 - page % 64 } else { rest.trailing_zeros() };
        }
        let first = page;
        let most = most.min(run - first % run);
        while page < self.pages
            && page - first < most
            && words[(page / 64) as usize] >> (page % 64) & 1 == 1
        {
            words[(page / 64) as usize] &= !(1 << (page % 64));
            page += 1;
        }
        self.counts[area] -= page - first;
        (page > first).then_some((first, page - first))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_as_a_plain_map_is(
            changes in proptest::collection::vec((0u64..2000, proptest::option::of(0u64..NONE)), 1..300)
        ) {
            let mut map = Map::new(2000, 3);
            let mut plain = alloc::collections::BTreeMap::new();
            for (lba, pba) in changes {
                let old = map.set(Lba(lba), pba.map(Pba));
                let expected = match pba {
                    Some(pba) => plain.insert(lba, pba),
                    None => plain.remove(&lba),
                };
                prop_assert_eq!(old, expected.map(Pba));
            }
            for lba in 0..2000 {
                prop_assert_eq!(map.get(Lba(lba)), plain.get(&lba).copied().map(Pba));
            }
        }
    }

    #[test]
    fn five_bytes_a_block_and_two_bits_a_page_are_all_that_it_takes() {
        let blocks = 1u64 << 20;
        let pages = blocks.div_ceil(ENTRIES_PER_PAGE);
        let map = Map::new(blocks, pages as u32);
        let words: usize = map.dirty.areas.iter().map(Vec::capacity).sum();
        assert_eq!(map.bytes.capacity() as u64, 5 * blocks + 3);
        assert_eq!(words as u64, 2 * pages.div_ceil(64));
    }

    #[test]
    fn pages_are_taken_run_by_run() {
        let mut map = Map::new(20 * ENTRIES_PER_PAGE, 20);
        let mut from = 0;
        for taken in [(0, 5), (5, 3), (8, 5), (13, 3), (16, 4)] {
            assert_eq!(map.take_dirty(0, from, (5, 8)), Some(taken));
            from = taken.0 + taken.1;
        }
        assert_eq!(map.take_dirty(0, 0, (5, 8)), None);
    }

    #[test]
    fn pages_are_dirty_in_each_area_until_they_are_taken() {
        let mut map = Map::new(200 * ENTRIES_PER_PAGE, 201);
        for area in 0..2 {
            assert_eq!(map.take_dirty(area, 0, (150, u32::MAX)), Some((0, 150)));
            assert_eq!(map.take_dirty(area, 150, (150, u32::MAX)), Some((150, 51)));
            assert_eq!((map.take_dirty(area, 0, (150, u32::MAX)), map.dirty(area)), (None, 0));
        }
        map.set(Lba(130 * ENTRIES_PER_PAGE), None);
        map.touch(131);
        map.touch(131);
        map.touch(200);
        assert_eq!((map.dirty(0), map.dirty(1)), (3, 3));
        assert_eq!(map.take_dirty(1, 0, (150, u32::MAX)), Some((130, 2)));
        assert_eq!(map.take_dirty(1, 132, (150, u32::MAX)), Some((200, 1)));
        assert_eq!(
            map.take_dirty(0, 131, (150, u32::MAX)),
            Some((131, 1)),
            "the other area's are its own"
        );
    }
}

//! Which regions are read most, and copies of them on a neighbour.

use std::collections::{HashMap, VecDeque};

/// Regions by how often they were read: the paper's RPT (read popularity table). A region counts from its first
/// read on; if the table is full, the one with the fewest reads goes.
#[derive(Debug)]
pub(super) struct Popularity {
    size: usize,
    entries: Vec<((usize, u64), u32)>,
    /// Where an entry is.
    index: HashMap<(usize, u64), usize>,
}

impl Popularity {
    pub(super) fn new(size: usize) -> Self {
        Self { size, entries: Vec::new(), index: HashMap::new() }
    }

    /// A region of a drive has been read; returns how often.
    pub(super) fn read(&mut self, region: (usize, u64)) -> u32 {
        if let Some(&at) = self.index.get(&region) {
            self.entries[at].1 += 1;
            return self.entries[at].1;
        }
        let fewest = (0..self.entries.len()).min_by_key(|&at| self.entries[at].1);
        let at = match fewest.filter(|_| self.entries.len() == self.size) {
            Some(at) => {
                self.index.remove(&self.entries[at].0);
                self.entries[at] = (region, 1);
                at
            }
            None => {
                self.entries.push((region, 1));
                self.entries.len() - 1
            }
        };
        self.index.insert(region, at);
        1
    }

    /// The regions of a drive, the one that was read most first.
    pub(super) fn of(&self, drive: usize) -> Vec<u64> {
        let mut known: Vec<_> = self.entries.iter().filter(|((of, _), _)| *of == drive).collect();
        known.sort_by_key(|((_, region), reads)| (core::cmp::Reverse(*reads), *region));
        known.into_iter().map(|((_, region), _)| *region).collect()
    }
}

/// A drive's regions in the mirroring zone of its neighbour: the paper's RL (restore list). The oldest goes if the
/// zone is full.
#[derive(Debug)]
pub(super) struct Zone {
    /// The zone's first block on the neighbour.
    start: u64,
    /// Blocks of a region.
    region: u64,
    /// By block of the zone: whether it is a copy.
    there: Vec<bool>,
    /// How many regions have a place.
    slots: usize,
    /// The slot of a region.
    index: HashMap<u64, usize>,
    /// Regions, the oldest first.
    order: VecDeque<u64>,
}

impl Zone {
    pub(super) fn new(start: u64, region: u64, slots: usize) -> Self {
        let there = vec![false; slots * region as usize];
        Self { start, region, there, slots, index: HashMap::new(), order: VecDeque::new() }
    }

    /// Makes a place for a region, if it has none and there are any at all.
    pub(super) fn add(&mut self, region: u64) {
        if self.index.contains_key(&region) || self.slots == 0 {
            return;
        }
        let mut slot = self.order.len();
        if slot == self.slots
            && let Some(oldest) = self.order.pop_front()
        {
            slot = self.index.remove(&oldest).unwrap_or(0);
            let region = self.region as usize;
            self.there[slot * region..][..region].fill(false);
        }
        self.index.insert(region, slot);
        self.order.push_back(region);
    }

    /// The place of a block on the neighbour, if its region has one, and whether its copy is there.
    pub(super) fn place(&self, block: u64) -> Option<(u64, bool)> {
        let (region, offset) = (block / self.region, block % self.region);
        let slot = *self.index.get(&region)?;
        let at = slot as u64 * self.region + offset;
        Some((self.start + at, self.there[at as usize]))
    }

    /// The copy of a block is there from now on, if its region has a place; returns whether it has.
    pub(super) fn note(&mut self, block: u64) -> bool {
        let place = self.place(block).map(|(at, _)| at - self.start);
        if let Some(at) = place {
            self.there[at as usize] = true;
        }
        place.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_with_the_fewest_reads_leaves_a_full_table() {
        let mut popularity = Popularity::new(2);
        assert_eq!([7, 7, 8, 9, 7].map(|region| popularity.read((0, region))), [1, 2, 1, 1, 3]);
        assert_eq!(popularity.of(0), [7, 9]);
        assert_eq!(popularity.read((0, 8)), 1, "it was forgotten");
        assert!(popularity.of(1).is_empty());
    }

    #[test]
    fn the_oldest_region_leaves_a_full_zone_with_its_copies() {
        let mut zone = Zone::new(100, 4, 2);
        zone.add(0);
        zone.note(1);
        zone.add(5);
        zone.note(22);
        zone.add(0);
        assert_eq!([zone.place(1), zone.place(2)], [Some((101, true)), Some((102, false))]);
        assert_eq!(zone.place(22), Some((106, true)));
        zone.add(9);
        assert_eq!(zone.place(1), None);
        assert_eq!(zone.place(37), Some((101, false)), "what was there is another region's");
        assert_eq!(zone.place(22), Some((106, true)));
    }

    #[test]
    fn no_zone_takes_nothing() {
        let mut zone = Zone::new(100, 4, 0);
        zone.add(0);
        assert!(!zone.note(0));
        assert_eq!(zone.place(0), None);
    }
}

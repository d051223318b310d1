//! Which entry a block is in, and what is told of that to what decides what comes home.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{BUCKETS, Entry, Slot, Staging};
use crate::engine::hold::Hold;
use crate::geometry::{Layout, Role};
use crate::redirects::Staged;
use crate::units::{Lba, Set, Stripe};

impl Staging {
    /// The number of the first entry that there is, or of the next to be made.
    pub(super) fn front(&self) -> u64 {
        self.entries.front().map_or(self.next, |entry| entry.number)
    }

    /// Where in the list an entry is of whose number these are the low bits.
    pub(super) fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.front() as u32) as usize
    }

    pub(super) fn entry(&self, number: u64) -> &Entry {
        &self.entries[self.index(number as u32)]
    }

    pub(super) fn entry_mut(&mut self, number: u64) -> &mut Entry {
        let index = self.index(number as u32);
        &mut self.entries[index]
    }

    /// Whether a block is staged in this entry or a later one.
    pub(in crate::engine) fn is_staged_since(&self, number: u64, lba: Lba) -> bool {
        let staged = self.table.get(lba);
        staged.is_some_and(|staged| self.front() + self.index(staged.entry) as u64 >= number)
    }

    /// A block is staged in an entry, as such a block of its payload, and no longer where it was before; it is
    /// kept in memory if it has a slot. Tells whether it was not at home before either.
    pub(super) fn stage(
        &mut self,
        (stripe, role): (Stripe, Role),
        lba: Lba,
        (number, at): (u64, u32),
        slot: Option<Slot>,
    ) -> bool {
        let to = Staged { entry: number as u32, at, clean: false };
        let before = self.table.set(lba, to);
        self.memory.put(lba, slot);
        let again = before.is_some_and(|before| self.left(before));
        self.stripes[stripe.bucket(BUCKETS)] += u32::from(before.is_none());
        self.dirty += 1;
        self.entry_mut(number).dirty += 1;
        if let Some(hold) = &mut self.hold {
            hold.wrote(stripe, role, again);
        }
        again
    }

    /// A block is no longer staged.
    pub(super) fn unstage(&mut self, stripe: Stripe, lba: Lba) {
        if let Some(before) = self.table.remove(lba) {
            self.memory.put(lba, None);
            self.stripes[stripe.bucket(BUCKETS)] -= 1;
            if self.left(before)
                && let Some(hold) = &mut self.hold
            {
                hold.left(stripe);
            }
        }
    }

    /// A block of a stripe is at home as it is staged.
    pub(super) fn clean(&mut self, stripe: Stripe, lba: Lba) {
        if let Some(staged) = self.table.get(lba) {
            if self.left(staged)
                && let Some(hold) = &mut self.hold
            {
                hold.left(stripe);
            }
            self.table.set(lba, Staged { clean: true, ..staged });
            self.memory.put(lba, None);
            let (index, home) = (self.index(staged.entry), self.homes);
            self.entries[index].home = home;
        }
    }

    /// A write at home has ended that had these blocks staged as well, in an entry; tells how many they are that
    /// need not come home. What was staged since is not at home.
    pub(in crate::engine) fn came_home(
        &mut self,
        (stripe, number): (Stripe, u64),
        lbas: impl Iterator<Item = Lba>,
    ) -> u64 {
        self.homes += 1;
        let mut blocks = 0;
        for lba in lbas {
            if self.is_dirty(lba) && !self.is_staged_since(number + 1, lba) {
                self.clean(stripe, lba);
                blocks += 1;
            }
        }
        blocks
    }

    /// A block of an entry is dirty no more. Tells whether it was.
    fn left(&mut self, staged: Staged) -> bool {
        if !staged.clean {
            let index = self.index(staged.entry);
            self.entries[index].dirty -= 1;
            self.dirty -= 1;
        }
        !staged.clean
    }

    /// Sets in which order it comes home; the oldest entry first if there is none.
    pub(in crate::engine) fn set_hold(&mut self, hold: Option<Box<dyn Hold>>, geo: &Layout) {
        self.hold = hold;
        let Some(hold) = &mut self.hold else { return };
        let mut dirty: Vec<_> = self.table.iter().filter(|(_, staged)| !staged.clean).collect();
        let front = self.entries.front().map_or(0, |entry| entry.number as u32);
        dirty.sort_unstable_by_key(|&(lba, staged)| (staged.entry.wrapping_sub(front), lba));
        for (lba, _) in dirty {
            let (stripe, at) = geo.locate(lba);
            let (role, _) = geo.of(stripe).chunk_at(at);
            hold.wrote(stripe, role, false);
        }
    }

    /// Verifies the invariants, where jobs hold so many slots of memory.
    pub(in crate::engine) fn check(&self, held: usize) {
        let dirty: u64 = self.entries.iter().map(|entry| u64::from(entry.dirty)).sum();
        assert_eq!(dirty, self.dirty, "dirty blocks are counted");
        let staged: u64 = self.stripes.iter().map(|&count| u64::from(count)).sum();
        assert_eq!(staged, self.table.len() as u64, "staged blocks are counted");
        let numbers = self.entries.iter().map(|entry| entry.number);
        assert!(numbers.eq(self.front()..self.next), "no number is missing");
        let all = Set::first(self.rings.len());
        assert_eq!(self.fullest, self.fullest_of(all), "the fullest ring is known");
        let found = all.filter(|&place| self.piece(place).is_some());
        assert!(found.eq(self.trim.found()), "it is known which rings have a piece to discard");
        self.memory.check(held, |lba| self.is_dirty(lba));
    }
}

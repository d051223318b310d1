//! Which blocks are staged, and where: the D_Table of GC-Steering (Wu et al., section III-B).
//!
//! The paper's table is a log of redirected extents with four fields. This one holds the same for
//! each block: D_Offset is the key, R_Offset an entry of the staging log and a block of its
//! payload, Length is not needed, and Flag (whether home has the same content) is
//! [`Staged::clean`]. It has blocks and not extents, because a write may overlap part of an extent,
//! or several: an extent that is cut in three needs room that a table of fixed size may not have.
//! The paper keeps the table in NVRAM; here it is rebuilt from the log.
//!
//! Invariants: a block has at most one slot. No slot is empty between the one that the block's hash
//! names and the block's own. Nothing is allocated after [`Redirects::new`].

use alloc::vec;
use alloc::vec::Vec;

use crate::units::Lba;

/// Where a block is staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staged {
    /// In which entry of the log: the low bits of its number.
    pub entry: u32,
    /// Which block of the entry's payload.
    pub at: u32,
    /// Whether home has the same.
    pub clean: bool,
}

/// No block.
const NONE: u64 = u64::MAX;

/// The bit of a slot's `at` that marks it clean.
const CLEAN: u32 = 1 << 31;

/// Blocks that follow each other share a hash, so that a range of them costs few cache misses.
const NEIGHBOURS: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct Slot {
    lba: u64,
    entry: u32,
    at: u32,
}

const EMPTY: Slot = Slot { lba: NONE, entry: 0, at: 0 };

impl Slot {
    fn staged(self) -> Staged {
        Staged { entry: self.entry, at: self.at & !CLEAN, clean: self.at & CLEAN != 0 }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Redirects {
    slots: Vec<Slot>,
    len: usize,
    capacity: usize,
}

impl Redirects {
    /// An empty table with room for `capacity` blocks. It takes 32 bytes for each, or a little
    /// more.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let slots = if capacity == 0 { 0 } else { (2 * capacity).next_multiple_of(64) };
        Self { slots: vec![EMPTY; slots], len: 0, capacity }
    }

    /// How many blocks are staged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many can be.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory that it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Where a block is staged, if it is.
    #[must_use]
    pub fn get(&self, lba: Lba) -> Option<Staged> {
        if self.len == 0 {
            return None;
        }
        let slot = self.slots[self.find(lba)];
        (slot.lba == lba.0).then_some(slot.staged())
    }

    /// Sets where a block is staged; returns where it was.
    ///
    /// # Panics
    /// If there is no room.
    pub fn set(&mut self, lba: Lba, to: Staged) -> Option<Staged> {
        let before = self.get(lba);
        if before.is_none() {
            assert!(self.len < self.capacity, "there is room for another block");
            self.len += 1;
        }
        let index = self.find(lba);
        let at = to.at | if to.clean { CLEAN } else { 0 };
        self.slots[index] = Slot { lba: lba.0, entry: to.entry, at };
        before
    }

    /// A block is no longer staged; returns where it was.
    pub fn remove(&mut self, lba: Lba) -> Option<Staged> {
        let before = self.get(lba)?;
        let count = self.slots.len();
        let mut hole = self.find(lba);
        self.len -= 1;
        self.slots[hole] = EMPTY;
        let mut next = hole;
        loop {
            next = if next + 1 == count { 0 } else { next + 1 };
            let slot = self.slots[next];
            if slot.lba == NONE {
                return Some(before);
            }
            // An entry that collided with the removed one moves up.
            let wanted = self.first(slot.lba);
            let distance = |from: usize, to: usize| (count + to - from) % count;
            if distance(wanted, next) >= distance(hole, next) {
                self.slots[hole] = slot;
                self.slots[next] = EMPTY;
                hole = next;
            }
        }
    }

    /// All that are staged, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Lba, Staged)> {
        let staged = self.slots.iter().filter(|slot| slot.lba != NONE);
        staged.map(|slot| (Lba(slot.lba), slot.staged()))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.len = 0;
    }

    /// The slot that holds a block, or would hold it.
    fn find(&self, lba: Lba) -> usize {
        let mut index = self.first(lba.0);
        while self.slots[index].lba != lba.0 && self.slots[index].lba != NONE {
            index = if index + 1 == self.slots.len() { 0 } else { index + 1 };
        }
        index
    }

    fn first(&self, lba: u64) -> usize {
        let mut hash = (lba / NEIGHBOURS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let group = (u128::from(hash) * (self.slots.len() as u128 / 8)) >> 64;
        group as usize * 8 + (lba % NEIGHBOURS) as usize
    }
}

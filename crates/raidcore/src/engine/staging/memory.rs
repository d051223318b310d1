//! What is staged, in memory: what comes home from there, and what users read of it, need not be read from
//! the log. The log is what survives a crash; after a start nothing is in memory.
//!
//! Invariants:
//! - What is *kept* of a block is what its latest entry has of it, as long as that is not at home. It is
//!   dropped in the step in which the table says otherwise.
//! - A slot is free only when nothing holds it: neither the block that it is kept for, nor a job that fills
//!   or reads it. So a job reads what it has found, whatever is staged meanwhile.
//! - Nothing makes room for what is staged later: what was staged first mostly comes home first, so to drop
//!   it would be to drop what is wanted next. So a block that is staged again while there is no room is kept no
//!   more.

use alloc::vec;
use alloc::vec::Vec;

use super::Staging;
use crate::redirects::{Redirects, Staged};
use crate::units::{Lba, Mem, MemberId, Pba};

/// Memory of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct Slot(u32);

/// A slot that a job holds, and where the same block is in its plan: a write copies it from there, what reads
/// it to there.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Kept {
    pub(in crate::engine) slot: Slot,
    pub(in crate::engine) at: Mem,
}

/// See the [module](self).
pub(super) struct Memory {
    /// The slots of what is kept.
    index: Redirects,
    /// How many hold each slot.
    holds: Vec<u32>,
    free: Vec<Slot>,
    /// Blocks of a buffer.
    chunk: u32,
    /// The number of the first of its buffers.
    first: u16,
}

impl Memory {
    /// Room for `blocks` blocks, in buffers of `chunk` blocks from `first` on, or for as many as there are
    /// numbers for.
    pub(super) fn new(blocks: u32, chunk: u32, first: u16) -> Self {
        // The buffers' numbers are as many as fit beside those of jobs and of reshapes.
        let most = u32::from((u16::MAX / 2).saturating_sub(first)) * chunk;
        let count = blocks.min(most);
        Self {
            index: Redirects::new(count as usize),
            holds: vec![0; count as usize],
            free: (0..count).rev().map(Slot).collect(),
            chunk,
            first,
        }
    }

    fn buffers(&self) -> u16 {
        self.holds.len().div_ceil(self.chunk as usize) as u16
    }

    /// A slot that nothing held, if there is one; it is held once.
    fn claim(&mut self) -> Option<Slot> {
        let slot = self.free.pop()?;
        self.hold(slot);
        Some(slot)
    }

    fn hold(&mut self, Slot(slot): Slot) {
        self.holds[slot as usize] += 1;
    }

    fn release(&mut self, slot: Slot) {
        let holds = &mut self.holds[slot.0 as usize];
        *holds -= 1;
        if *holds == 0 {
            self.free.push(slot);
        }
    }

    /// The slot in which a block is kept.
    pub(super) fn find(&self, lba: Lba) -> Option<Slot> {
        self.index.get(lba).map(|found| Slot(found.entry))
    }

    /// A block is kept in this slot from now on, which was held for that, or not any more.
    pub(super) fn put(&mut self, lba: Lba, slot: Option<Slot>) {
        let before = self.index.remove(lba);
        if let Some(Slot(entry)) = slot {
            self.index.set(lba, Staged { entry, at: 0, clean: true });
        }
        if let Some(before) = before {
            self.release(Slot(before.entry));
        }
    }

    /// Verifies that each slot is free, or held by as many as there are, and that what is kept may be.
    pub(super) fn check(&self, by_jobs: usize, may_be: impl Fn(Lba) -> bool) {
        assert!(self.blocks().all(|(lba, _)| may_be(lba)), "what is at home is kept");
        let holds: u64 = self.holds.iter().map(|&holds| u64::from(holds)).sum();
        assert_eq!(
            holds,
            (self.index.len() + by_jobs) as u64,
            "slots are held as often as counted"
        );
        let free = self.holds.iter().filter(|&&holds| holds == 0).count();
        assert_eq!(free, self.free.len(), "a slot is lost");
    }

    /// Blocks that are kept.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Lba, Slot)> {
        self.index.iter().map(|(lba, found)| (lba, Slot(found.entry)))
    }
}

impl Staging {
    /// How many buffers of memory it has.
    pub(in crate::engine) fn buffers(&self) -> u16 {
        self.memory.buffers()
    }

    /// The numbers of its buffers, if none of them is in use.
    pub(in crate::engine) fn free_buffers(&self) -> impl Iterator<Item = u16> + use<> {
        let Memory { free, holds, first, .. } = &self.memory;
        let count = if free.len() == holds.len() { self.memory.buffers() } else { 0 };
        *first..*first + count
    }

    /// The memory of a slot, as a host knows it.
    pub(in crate::engine) fn memory_of(&self, Slot(slot): Slot) -> Mem {
        let Memory { chunk, first, .. } = self.memory;
        Mem::Scratch { buffer: first + (slot / chunk) as u16, at: slot % chunk }
    }

    /// Slots for the first blocks of an entry's payload, as many as there are, each with where the block comes
    /// from.
    pub(in crate::engine) fn claim(&mut self, number: u64, claimed: &mut Vec<Kept>) {
        let index = self.index(number as u32);
        let blocks = self.entries[index].payload_blocks();
        for at in blocks {
            let Some(slot) = self.memory.claim() else { return };
            claimed.push(Kept { slot, at });
        }
    }

    /// The slot in which a block is kept that is staged and not at home, held once more.
    pub(in crate::engine) fn recall(&mut self, lba: Lba) -> Option<Slot> {
        let slot = self.memory.find(lba)?;
        self.memory.hold(slot);
        Some(slot)
    }

    /// A job does not hold a slot any more.
    pub(in crate::engine) fn let_go(&mut self, slot: Slot) {
        self.memory.release(slot);
    }

    /// How many blocks are kept in memory.
    pub(in crate::engine) fn kept(&self) -> u64 {
        self.memory.index.len() as u64
    }

    /// Each of them, and where the log has it.
    pub(in crate::engine) fn kept_blocks(
        &self,
    ) -> impl Iterator<Item = (Mem, Vec<(MemberId, Pba)>)> {
        self.memory.blocks().filter_map(|(lba, slot)| {
            let staged = self.table.get(lba)?;
            let entry = &self.entries[self.index(staged.entry)];
            let places = entry.places().iter().filter(|(member, _)| entry.holders.has(*member));
            let places = places.map(|&(member, Pba(at))| (member, Pba(at + u64::from(staged.at))));
            Some((self.memory_of(slot), places.collect()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_when_neither_a_block_nor_a_job_holds_it() {
        let mut memory = Memory::new(2, 8, 5);
        let first = memory.claim().expect("there is one");
        memory.put(Lba(7), Some(first));
        assert_eq!(memory.find(Lba(7)), Some(first));
        memory.hold(first);
        let second = memory.claim().expect("there is another");
        memory.put(Lba(7), Some(second));
        assert_eq!((memory.find(Lba(7)), memory.claim()), (Some(second), None), "it is being read");
        memory.check(1, |lba| lba == Lba(7));
        memory.release(first);
        assert_eq!(memory.claim(), Some(first));
        memory.release(first);
        memory.put(Lba(7), None);
        assert_eq!((memory.find(Lba(7)), memory.free.len()), (None, 2));
        memory.check(0, |_| false);
    }

    #[test]
    fn its_buffers_are_as_many_as_its_blocks_take_and_there_are_numbers_for() {
        assert_eq!(Memory::new(17, 8, 5).buffers(), 3);
        assert_eq!(Memory::new(0, 8, 5).buffers(), 0);
        assert_eq!(Memory::new(u32::MAX, 1, 5).buffers(), u16::MAX / 2 - 5);
        assert_eq!(Memory::new(8, 8, u16::MAX).buffers(), 0);
    }
}

//! The memory of what is held: a slot for each block, in scratch buffers.

use alloc::vec::Vec;

use raidcore::units::Mem;

use crate::machine::Pool;

/// How many slots a scratch buffer has.
const BUFFER_BLOCKS: u32 = 64;

/// The place of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u32);

/// See the [module](self).
pub(super) struct Memory {
    /// The number of the first buffer.
    first: u16,
    /// Slots of a buffer.
    each: u32,
    slots: u32,
    free: Vec<Slot>,
    /// How many slots of a buffer are in use.
    used: Vec<u32>,
}

impl Memory {
    /// So many slots, in at most so many buffers, which are numbered from `first` on.
    pub(super) fn new(first: u16, slots: u32, most: u32) -> Self {
        let each = BUFFER_BLOCKS.min(slots);
        let buffers = slots.div_ceil(each).min(most);
        let slots = slots.min(buffers * each);
        Self {
            first,
            each,
            slots,
            free: (0..slots).rev().map(Slot).collect(),
            used: alloc::vec![0; buffers as usize],
        }
    }

    /// The number after that of the last buffer.
    pub(super) fn end(&self) -> u16 {
        self.first + self.used.len() as u16
    }

    pub(super) fn pool(&self) -> Pool {
        Pool { count: self.used.len() as u16, blocks: self.each }
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// How many are free.
    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// The buffers of which no slot is in use.
    pub(super) fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        let buffers = (self.first..).zip(&self.used);
        buffers.filter(|&(_, &used)| used == 0).map(|(buffer, _)| buffer)
    }

    /// A free slot.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn take(&mut self) -> Slot {
        let slot = self.free.pop().expect("who takes a slot has seen that there is room");
        self.used[(slot.0 / self.each) as usize] += 1;
        slot
    }

    pub(super) fn give(&mut self, slot: Slot) {
        self.used[(slot.0 / self.each) as usize] -= 1;
        self.free.push(slot);
    }

    /// Where a slot is.
    pub(super) fn place(&self, slot: Slot) -> Mem {
        let buffer = self.first + (slot.0 / self.each) as u16;
        Mem::Scratch { buffer, at: slot.0 % self.each }
    }
}

/// Joins places that follow one another: calls `visit` with how many blocks were before a run, where it is and
/// how long it is.
pub(super) fn runs(places: impl Iterator<Item = Mem>, mut visit: impl FnMut(u32, Mem, u32)) {
    let mut run: Option<(u32, Mem, u32)> = None;
    for (at, place) in (0..).zip(places) {
        match &mut run {
            Some((_, first, blocks)) if first.plus(*blocks) == place => *blocks += 1,
            _ => {
                if let Some((at, first, blocks)) = run.replace((at, place, 1)) {
                    visit(at, first, blocks);
                }
            }
        }
    }
    if let Some((at, first, blocks)) = run {
        visit(at, first, blocks);
    }
}

//! The write buffer: pages that have been acknowledged and wait to be programmed.
//!
//! Invariants: a slot is free, gathered until a program is complete, or part of a destage job. The
//! pages of an epoch are those that were buffered between two flushes.

use std::collections::VecDeque;

use super::work::NONE;

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    next: u32,
    epoch: u64,
}

/// Slots that will be programmed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) slot: u32,
    pub(crate) pages: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    slots: Vec<Slot>,
    free: Vec<u32>,
    gathered: Batch,
    last: u32,
    pub(crate) power_safe: bool,
    /// Write commands that wait for slots.
    pub(crate) writers: VecDeque<u32>,
    /// Flush commands and the epoch that they wait for.
    flushes: VecDeque<(u32, u64)>,
    /// Pages in the buffer by epoch.
    epochs: VecDeque<u32>,
    first_epoch: u64,
}

impl Buffer {
    pub(crate) fn new(pages: u32, power_safe: bool) -> Self {
        Self {
            slots: vec![Slot { lpn: NONE, next: NONE, epoch: 0 }; pages as usize],
            free: (0..pages).rev().collect(),
            gathered: Batch { slot: NONE, pages: 0 },
            last: NONE,
            power_safe,
            writers: VecDeque::new(),
            flushes: VecDeque::new(),
            epochs: VecDeque::from([0]),
            first_epoch: 0,
        }
    }

    pub(crate) fn used(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Slots that hold nothing.
    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// The first slot that is gathered, if one is.
    pub(crate) fn gathered(&self) -> Option<u32> {
        (self.gathered.pages > 0).then_some(self.gathered.slot)
    }

    /// `slot`, and the slots that are programmed with it.
    pub(crate) fn chain(&self, slot: u32) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(slot), |&slot| Some(self.next(slot)).filter(|&at| at != NONE))
    }

    /// A slot for `lpn`, which is gathered for the next program.
    pub(crate) fn add(&mut self, lpn: u32) -> Option<u32> {
        let id = self.free.pop()?;
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.slots[id as usize] = Slot { lpn, next: NONE, epoch };
        match self.last {
            NONE => self.gathered.slot = id,
            last => self.slots[last as usize].next = id,
        }
        self.last = id;
        self.gathered.pages += 1;
        *self.epochs.back_mut().expect("the current epoch") += 1;
        Some(id)
    }

    /// The gathered slots, if there are at least `pages` of them.
    pub(crate) fn batch(&mut self, pages: u32) -> Option<Batch> {
        if self.gathered.pages < pages.max(1) {
            return None;
        }
        self.last = NONE;
        Some(core::mem::replace(&mut self.gathered, Batch { slot: NONE, pages: 0 }))
    }

    pub(crate) fn lpn(&self, slot: u32) -> u32 {
        self.slots[slot as usize].lpn
    }

    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.slots[slot as usize].next
    }

    /// The pages of these slots are in flash.
    pub(crate) fn release(&mut self, mut slot: u32) {
        while slot != NONE {
            let Slot { next, epoch, .. } = self.slots[slot as usize];
            self.epochs[(epoch - self.first_epoch) as usize] -= 1;
            self.free.push(slot);
            slot = next;
        }
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.first_epoch += 1;
        }
    }

    /// `flush` waits for the epoch of everything that is in the buffer.
    pub(crate) fn flush(&mut self, flush: u32) {
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.epochs.push_back(0);
        self.flushes.push_back((flush, epoch));
        self.release(NONE);
    }

    /// A flush that no longer waits for anything.
    pub(crate) fn flushed(&mut self) -> Option<u32> {
        let &(flush, epoch) = self.flushes.front()?;
        if epoch >= self.first_epoch {
            return None;
        }
        self.flushes.pop_front();
        Some(flush)
    }
}

//! The write buffer: pages that have been acknowledged and wait to be programmed.
//!
//! Invariants: a slot is free, gathered until a program of its stream is complete, or part of a destage
//! job. The pages of an epoch are those that were buffered between two flushes.

use std::collections::VecDeque;

use super::work::NONE;
use crate::ftl::Write;

#[derive(Clone, Copy, Debug)]
struct Slot {
    write: Write,
    next: u32,
    epoch: u64,
}

/// Slots that will be programmed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) slot: u32,
    pub(crate) pages: u32,
}

/// Slots that are gathered for the next program of a stream.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    batch: Batch,
    last: u32,
}

const NOTHING: Gathered = Gathered { batch: Batch { slot: NONE, pages: 0 }, last: NONE };

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By stream.
    gathered: Box<[Gathered]>,
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
    pub(crate) fn new(pages: u32, power_safe: bool, streams: u16) -> Self {
        let empty = Slot { write: Write { lpn: NONE, stream: 0 }, next: NONE, epoch: 0 };
        Self {
            slots: vec![empty; pages as usize],
            free: (0..pages).rev().collect(),
            gathered: vec![NOTHING; streams.into()].into(),
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

    /// The first slot that is gathered, of each stream that has one.
    pub(crate) fn gathered(&self) -> impl Iterator<Item = u32> {
        self.gathered.iter().filter(|of| of.batch.pages > 0).map(|of| of.batch.slot)
    }

    /// `slot`, and the slots that are programmed with it.
    pub(crate) fn chain(&self, slot: u32) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(slot), |&slot| Some(self.next(slot)).filter(|&at| at != NONE))
    }

    /// A slot for a page, which is gathered for the next program of its stream.
    pub(crate) fn add(&mut self, write: Write) -> Option<u32> {
        let id = self.free.pop()?;
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.slots[id as usize] = Slot { write, next: NONE, epoch };
        let of = &mut self.gathered[usize::from(write.stream)];
        match of.last {
            NONE => of.batch.slot = id,
            last => self.slots[last as usize].next = id,
        }
        of.last = id;
        of.batch.pages += 1;
        *self.epochs.back_mut().expect("the current epoch") += 1;
        Some(id)
    }

    /// The gathered slots of a stream, if there are at least `pages` of them.
    pub(crate) fn batch(&mut self, stream: u16, pages: u32) -> Option<Batch> {
        let of = &mut self.gathered[usize::from(stream)];
        if of.batch.pages < pages.max(1) {
            return None;
        }
        Some(core::mem::replace(of, NOTHING).batch)
    }

    pub(crate) fn write(&self, slot: u32) -> Write {
        self.slots[slot as usize].write
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

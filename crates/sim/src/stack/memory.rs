//! A log array's memory.

use raidcore::units::Mem;
use raidlog::array::LogMem;
use raidlog::{GroupId, LogArray};

use crate::arithmetic;
use crate::disk::{Block, Kept};

/// The memory that the log array refers to with [`LogMem`].
#[derive(Default)]
pub(super) struct Memory {
    /// Users' buffers, by tag: arithmetic may leave intermediate results there.
    pub(super) payloads: Vec<Vec<Block>>,
    pub(super) segments: Vec<Vec<Block>>,
    pub(super) slots: Vec<Vec<Block>>,
    /// By group.
    pub(super) scratch: Vec<Vec<Vec<Block>>>,
}

impl Memory {
    pub(super) fn block(&self, place: LogMem) -> Block {
        match place {
            LogMem::Payload { tag, at } => self.payloads[usize::from(tag.0)][at as usize].clone(),
            LogMem::Segment { buffer, at } => {
                self.segments[usize::from(buffer)][at as usize].clone()
            }
            LogMem::Slot { slot, at } => self.slots[usize::from(slot)][at as usize].clone(),
            LogMem::Scratch { group, buffer, at } => {
                self.scratch[group.index()][usize::from(buffer)][at as usize].clone()
            }
            LogMem::Zero => Block::ZERO,
        }
    }

    pub(super) fn put(&mut self, place: LogMem, block: Block) {
        let to = match place {
            LogMem::Payload { tag, at } => &mut self.payloads[usize::from(tag.0)][at as usize],
            LogMem::Segment { buffer, at } => &mut self.segments[usize::from(buffer)][at as usize],
            LogMem::Slot { slot, at } => &mut self.slots[usize::from(slot)][at as usize],
            LogMem::Scratch { group, buffer, at } => {
                &mut self.scratch[group.index()][usize::from(buffer)][at as usize]
            }
            LogMem::Zero => panic!("zeros are never a destination"),
        };
        *to = block;
    }
}

/// All memory, as a group's array refers to it.
pub(super) struct Below<'a> {
    pub(super) array: &'a LogArray,
    pub(super) group: GroupId,
    pub(super) memory: &'a mut Memory,
}

impl arithmetic::Memory for Below<'_> {
    fn bytes(&self, mem: Mem, blocks: u32) -> Vec<u8> {
        let place = self.array.place(self.group, mem);
        (0..blocks).flat_map(|n| self.memory.block(on(place, n)).bytes()).collect()
    }

    fn put(&mut self, mem: Mem, _: u32, bytes: &[u8]) {
        let place = self.array.place(self.group, mem);
        for (n, bytes) in (0..).zip(bytes.as_chunks().0) {
            self.memory.put(on(place, n), Block::of(bytes));
        }
    }
}

/// The place `n` blocks further on.
pub(super) fn on(place: LogMem, n: u32) -> LogMem {
    match place {
        LogMem::Payload { tag, at } => LogMem::Payload { tag, at: at + n },
        LogMem::Segment { buffer, at } => LogMem::Segment { buffer, at: at + n },
        LogMem::Slot { slot, at } => LogMem::Slot { slot, at: at + n },
        LogMem::Scratch { group, buffer, at } => LogMem::Scratch { group, buffer, at: at + n },
        LogMem::Zero => LogMem::Zero,
    }
}

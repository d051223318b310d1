//! What a log array calls memory.

use raidcore::units::Mem;
use raidlog::array::Place;
use raidlog::{GroupId, LogArray};

use crate::arithmetic;
use crate::disk::{Block, Kept};

/// What the log array names with [`Place`].
#[derive(Default)]
pub(super) struct Memory {
    /// Users' buffers, by tag: arithmetic may leave there for a while what is no user's.
    pub(super) payloads: Vec<Vec<Block>>,
    pub(super) segments: Vec<Vec<Block>>,
    pub(super) slots: Vec<Vec<Block>>,
    /// By group.
    pub(super) scratch: Vec<Vec<Vec<Block>>>,
}

impl Memory {
    pub(super) fn block(&self, place: Place) -> Block {
        match place {
            Place::Payload { tag, at } => self.payloads[usize::from(tag.0)][at as usize].clone(),
            Place::Segment { buffer, at } => {
                self.segments[usize::from(buffer)][at as usize].clone()
            }
            Place::Slot { slot, at } => self.slots[usize::from(slot)][at as usize].clone(),
            Place::Scratch { group, buffer, at } => {
                self.scratch[group.index()][usize::from(buffer)][at as usize].clone()
            }
            Place::Zero => Block::ZERO,
        }
    }

    pub(super) fn put(&mut self, place: Place, block: Block) {
        let to = match place {
            Place::Payload { tag, at } => &mut self.payloads[usize::from(tag.0)][at as usize],
            Place::Segment { buffer, at } => &mut self.segments[usize::from(buffer)][at as usize],
            Place::Slot { slot, at } => &mut self.slots[usize::from(slot)][at as usize],
            Place::Scratch { group, buffer, at } => {
                &mut self.scratch[group.index()][usize::from(buffer)][at as usize]
            }
            Place::Zero => panic!("zeros are never a destination"),
        };
        *to = block;
    }
}

/// All memory, as the array of a group names it.
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

/// The place so many blocks on.
pub(super) fn on(place: Place, n: u32) -> Place {
    match place {
        Place::Payload { tag, at } => Place::Payload { tag, at: at + n },
        Place::Segment { buffer, at } => Place::Segment { buffer, at: at + n },
        Place::Slot { slot, at } => Place::Slot { slot, at: at + n },
        Place::Scratch { group, buffer, at } => Place::Scratch { group, buffer, at: at + n },
        Place::Zero => Place::Zero,
    }
}

//! The engine's memory.

use raidcore::units::Mem;

use crate::arithmetic;
use crate::disk::{Data, KEPT};
use crate::scenario::Scenario;

/// The memory that the engine refers to with [`Mem`].
pub(crate) struct Memory {
    pub(crate) payload: Vec<Vec<Data>>,
    scratch: Vec<Vec<Data>>,
}

impl Memory {
    /// The first request's buffer holds the whole array.
    pub(crate) fn new(scenario: &Scenario, capacity: u64) -> Self {
        let blocks = |tag| if tag == 0 { capacity } else { u64::from(scenario.load.blocks) };
        let buffer = |tag| vec![[0; KEPT]; blocks(tag).min(capacity) as usize];
        Self { payload: (0..scenario.tags).map(buffer).collect(), scratch: Vec::new() }
    }

    pub(crate) fn new_scratch(&mut self, chunk: u32, buffers: u16) {
        self.scratch = vec![vec![[0xa5; KEPT]; chunk as usize]; buffers.into()];
    }

    pub(crate) fn blocks_mut(&mut self, mem: Mem, count: u32) -> &mut [Data] {
        let (buffer, at) = match mem {
            Mem::Payload { tag, at } => (&mut self.payload[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (&mut self.scratch[usize::from(buffer)], at),
            Mem::Zero => panic!("zeros are never a destination"),
        };
        &mut buffer[at as usize..(at + count) as usize]
    }

    pub(crate) fn blocks(&self, mem: Mem, count: u32) -> Vec<Data> {
        let (buffer, at) = match mem {
            Mem::Payload { tag, at } => (&self.payload[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (&self.scratch[usize::from(buffer)], at),
            Mem::Zero => return vec![[0; KEPT]; count as usize],
        };
        buffer[at as usize..(at + count) as usize].to_vec()
    }
}

impl arithmetic::Memory for Memory {
    fn bytes(&self, mem: Mem, blocks: u32) -> Vec<u8> {
        self.blocks(mem, blocks).into_flattened()
    }

    fn put(&mut self, mem: Mem, blocks: u32, bytes: &[u8]) {
        self.blocks_mut(mem, blocks).as_flattened_mut().copy_from_slice(bytes);
    }
}

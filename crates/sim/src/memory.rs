//! What machines call memory.

use raidcore::parity::Kernels;
use raidcore::units::{Mem, Tag};
use raidlog::Pool;

use crate::disk::Kept;

/// What a machine names with [`Mem`].
pub(crate) struct Memory<B> {
    pub(crate) kernels: &'static Kernels,
    /// Users' buffers, by tag.
    pub(crate) payload: Vec<Vec<B>>,
    scratch: Vec<Vec<B>>,
}

impl<B: Kept> Memory<B> {
    pub(crate) fn new(kernels: &'static Kernels, payload: Vec<Vec<B>>) -> Self {
        Self { kernels, payload, scratch: Vec::new() }
    }

    /// Scratch buffers for a machine that begins its work.
    pub(crate) fn new_scratch(&mut self, pools: &[Pool], content: &B) {
        let buffers = pools.iter().flat_map(|pool| vec![pool.blocks; pool.count.into()]);
        self.scratch = buffers.map(|blocks| vec![content.clone(); blocks as usize]).collect();
    }

    /// All of a scratch buffer.
    pub(crate) fn scratch_mut(&mut self, buffer: u16) -> &mut [B] {
        &mut self.scratch[usize::from(buffer)]
    }

    pub(crate) fn blocks_mut(&mut self, mem: Mem, count: u32) -> &mut [B] {
        let (buffer, at) = match mem {
            Mem::Payload { tag: Tag(tag), at } => (&mut self.payload[usize::from(tag)], at),
            Mem::Scratch { buffer, at } => (&mut self.scratch[usize::from(buffer)], at),
            Mem::Zero => panic!("zeros are never a destination"),
        };
        &mut buffer[at as usize..(at + count) as usize]
    }

    pub(crate) fn blocks(&self, mem: Mem, count: u32) -> Vec<B> {
        let (buffer, at) = match mem {
            Mem::Payload { tag: Tag(tag), at } => (&self.payload[usize::from(tag)], at),
            Mem::Scratch { buffer, at } => (&self.scratch[usize::from(buffer)], at),
            Mem::Zero => return vec![B::ZERO; count as usize],
        };
        buffer[at as usize..(at + count) as usize].to_vec()
    }

    /// What arithmetic sees of blocks.
    pub(crate) fn bytes(&self, mem: Mem, blocks: u32) -> Vec<u8> {
        self.blocks(mem, blocks).iter().flat_map(Kept::kept).collect()
    }

    /// What arithmetic has made of blocks.
    pub(crate) fn put_kept(&mut self, mem: Mem, blocks: u32, bytes: &[u8]) {
        let each = bytes.len() / blocks as usize;
        let blocks = self.blocks_mut(mem, blocks).iter_mut();
        blocks.zip(bytes.chunks_exact(each)).for_each(|(to, bytes)| *to = B::of_kept(bytes));
    }
}

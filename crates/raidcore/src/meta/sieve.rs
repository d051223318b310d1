//! A member's part of the staging log, reduced to what assembly needs: the headers, and the
//! checksums of the payload. A log of one gigabyte takes 2 MiB, and 4 KiB for each entry.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::checksum::checksum;
use super::headers::Log;
use super::image::{Image, MemberImage, Unreadable};
use super::journal::header_blocks_at;
use crate::units::{BLOCK_BYTES, Pba};

/// A member's part of the staging log: possible headers, and checksums of all blocks.
#[derive(Clone, Debug)]
pub struct StagedRing {
    start: Pba,
    /// By block; `None` for those that can't be read.
    sums: Vec<Option<u32>>,
    /// Possible headers, by their block in the ring.
    headers: BTreeMap<usize, Box<[u8; BLOCK_BYTES]>>,
    /// How many of the next blocks belong to a header.
    open: u32,
}

impl StagedRing {
    /// A ring that begins at a block of the member, and of which nothing has been read yet.
    #[must_use]
    pub fn new(start: Pba) -> Self {
        Self { start, sums: Vec::new(), headers: BTreeMap::new(), open: 0 }
    }

    /// Takes the next block of the ring; `None` if it can't be read.
    pub fn push(&mut self, block: Option<&[u8; BLOCK_BYTES]>) {
        let begins = block.and_then(|block| header_blocks_at(Log::Staging, block)).unwrap_or(0);
        self.open = self.open.max(begins);
        if let Some(block) = block.filter(|_| self.open > 0) {
            self.headers.insert(self.sums.len(), Box::new(*block));
        }
        self.open = self.open.saturating_sub(1);
        self.sums.push(block.map(|block| checksum(block)));
    }

    /// How many blocks it has taken.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.sums.len()
    }

    /// How many of these it has kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.headers.len()
    }

    /// A block of the member, if it may belong to a header.
    fn block(&self, at: Pba) -> Option<&[u8]> {
        self.headers.get(&self.index(at)?).map(|block| &block[..])
    }

    /// The checksum of a block of the member, if that lies in the ring and could be read.
    fn sum(&self, at: Pba) -> Option<u32> {
        self.sums.get(self.index(at)?).copied().flatten()
    }

    /// Whether the ring has taken this block of the member yet.
    fn has(&self, at: Pba) -> bool {
        self.index(at).is_some_and(|index| index < self.sums.len())
    }

    fn index(&self, at: Pba) -> Option<usize> {
        usize::try_from(at.0.checked_sub(self.start.0)?).ok()
    }
}

/// A device's metadata, with its part of the staging log apart.
#[derive(Clone, Debug)]
pub struct SievedImage {
    /// Everything before the staging log.
    pub image: MemberImage,
    /// The staging log.
    pub ring: StagedRing,
}

impl Image for SievedImage {
    fn label(&self) -> &str {
        self.image.label()
    }

    fn blocks(&self) -> u64 {
        self.image.blocks()
    }

    fn block(&self, at: Pba) -> Result<&[u8], Unreadable> {
        const NO_HEADER: &[u8] = &[0; BLOCK_BYTES];
        if !self.ring.has(at) {
            return self.image.block(at);
        }
        self.ring.sum(at).ok_or(Unreadable)?;
        Ok(self.ring.block(at).unwrap_or(NO_HEADER))
    }

    fn sum(&self, at: Pba) -> Option<u32> {
        if self.ring.has(at) { self.ring.sum(at) } else { self.image.sum(at) }
    }
}

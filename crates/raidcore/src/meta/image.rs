//! Devices, as assembly sees them.

use alloc::string::String;
use alloc::vec::Vec;

use super::checksum::checksum;
use super::headers::Ring;
use crate::units::{BLOCK_BYTES, Pba};

/// A device, as assembly sees it.
pub trait Image {
    /// Its name in messages: its path.
    fn label(&self) -> &str;

    /// The device's size in blocks.
    fn blocks(&self) -> u64;

    /// One block of its metadata; an empty slice if it lies beyond the end.
    ///
    /// # Errors
    /// If it can't be read.
    fn block(&self, at: Pba) -> Result<&[u8], Unreadable>;

    /// The [`checksum`] of a block of the staging log; `None` if it can't be read. Of this log,
    /// [`Image::block`] need only return headers.
    fn sum(&self, at: Pba) -> Option<u32> {
        there(self, at).map(checksum)
    }
}

/// A block that exists and can be read.
pub(super) fn there<I: Image + ?Sized>(image: &I, at: Pba) -> Option<&[u8]> {
    image.block(at).ok().filter(|block| !block.is_empty())
}

/// A member's ring that begins at a block of the member.
pub(super) struct RingOf<'a, I> {
    pub(super) image: &'a I,
    pub(super) start: Pba,
}

impl<I: Image> Ring for RingOf<'_, I> {
    fn block(&self, at: u64) -> Option<&[u8]> {
        there(self.image, Pba(self.start.0 + at))
    }

    fn sum(&self, at: u64) -> Option<u32> {
        self.image.sum(Pba(self.start.0 + at))
    }
}

/// A block can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the block can't be read")]
pub struct Unreadable;

/// What was read from a device, in one piece.
#[derive(Clone, Debug)]
pub struct MemberImage {
    /// Its name in messages: its path.
    pub label: String,
    /// The device's size in blocks.
    pub blocks: u64,
    /// Its first blocks, up to [`Areas::meta_blocks`](super::Areas::meta_blocks) if the superblock
    /// could be read. Unreadable blocks are zeros.
    pub meta: Vec<u8>,
    /// Which blocks of `meta` could not be read.
    pub unreadable: Vec<Pba>,
}

impl Image for MemberImage {
    fn label(&self) -> &str {
        &self.label
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn block(&self, at: Pba) -> Result<&[u8], Unreadable> {
        if self.unreadable.contains(&at) {
            return Err(Unreadable);
        }
        let start = usize::try_from(at.0).ok().and_then(|at| at.checked_mul(BLOCK_BYTES));
        let range = start.and_then(|start| Some(start..start.checked_add(BLOCK_BYTES)?));
        Ok(range.and_then(|range| self.meta.get(range)).unwrap_or(&[]))
    }
}

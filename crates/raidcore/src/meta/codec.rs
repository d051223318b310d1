//! The common parts of all metadata blocks.
//!
//! Invariants:
//! - A block begins with the prefix: magic, format, checksum, array. Every later format keeps the
//!   prefix and the checksum's rule, so that this release can tell "newer" from "damaged".
//! - The checksum is CRC-32C over everything that the block protects, with its own four bytes as
//!   zeros.
//! - Numbers are little-endian. A field begins where the one before it ends.

use super::checksum::{checksum, checksum_of};
use super::layout_error::LayoutError;
use super::record::ArrayId;
use crate::geometry::GeometryError;
use crate::units::BLOCK_BYTES;

/// The format that this build writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

const MAGIC: Field<8> = Field { at: 0 };
const VERSION: Field<4> = MAGIC.then();
const CHECKSUM: Field<4> = VERSION.then();
const ARRAY: Field<16> = CHECKSUM.then();

/// The greatest plausible count of changes, starts, versions or entries. Counting on from here does
/// not overflow.
pub(super) const COUNT_MAX: u64 = 1 << 62;

/// The bytes that every metadata block begins with.
pub(super) const PREFIX_BYTES: usize = ARRAY.end();

const _: () = assert!(CHECKSUM.at == 12 && PREFIX_BYTES == 32);

/// Why bytes are no valid block of metadata, or one that must not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// The bytes are not of a block's length.
    #[error("a block of metadata has 4096 bytes, not {have}")]
    Length {
        /// How many there are.
        have: usize,
    },
    /// There is no magic number: something else was written here, or nothing.
    #[error("there is no metadata here")]
    NoMagic,
    /// The checksum does not match: torn or damaged.
    #[error("the checksum does not match")]
    Checksum,
    /// Written by a later release.
    #[error("the on-disk format is {found}, this release knows {FORMAT}: use a later release")]
    Format {
        /// The format found.
        found: u32,
    },
    /// The block is intact but belongs to another array.
    #[error("it belongs to another array ({0})")]
    OtherArray(ArrayId),
    /// The block is intact but was meant for another place or time.
    #[error("it was written for another place or an earlier run")]
    Misplaced,
    /// Feature bits that must be known before anything may be done.
    #[error(
        "the array uses features that this release does not know (incompatible bits {bits:#x}): \
         use a later release"
    )]
    UnknownFeature {
        /// The unknown ones.
        bits: u64,
    },
    /// Feature bits that must be known before anything may be written.
    #[error(
        "the array uses features that this release could only read (read-only bits {bits:#x}), \
         and it has no read-only mode: use a later release"
    )]
    ReadOnlyFeature {
        /// The unknown ones.
        bits: u64,
    },
    /// A field has a value that it can't have.
    #[error("the field `{0}` has an impossible value")]
    Invalid(&'static str),
    /// The array's shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The areas overlap or are too small.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// A field of `N` bytes at a fixed offset.
#[derive(Clone, Copy)]
pub(super) struct Field<const N: usize> {
    pub(super) at: usize,
}

impl<const N: usize> Field<N> {
    /// The first byte after it.
    pub(super) const fn end(self) -> usize {
        self.at + N
    }

    /// The field that follows it.
    pub(super) const fn then<const M: usize>(self) -> Field<M> {
        Field { at: self.end() }
    }

    /// Its bytes.
    pub(super) fn get(self, block: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&block[self.at..self.end()]);
        bytes
    }

    /// Sets its bytes.
    pub(super) fn put(self, block: &mut [u8], bytes: [u8; N]) {
        block[self.at..self.end()].copy_from_slice(&bytes);
    }
}

impl Field<1> {
    pub(super) fn u8(self, block: &[u8]) -> u8 {
        let [byte] = self.get(block);
        byte
    }
}

impl Field<2> {
    pub(super) fn u16(self, block: &[u8]) -> u16 {
        u16::from_le_bytes(self.get(block))
    }
}

impl Field<4> {
    pub(super) fn u32(self, block: &[u8]) -> u32 {
        u32::from_le_bytes(self.get(block))
    }
}

impl Field<8> {
    pub(super) fn u64(self, block: &[u8]) -> u64 {
        u64::from_le_bytes(self.get(block))
    }

    /// A number that is counted up.
    pub(super) fn count(self, block: &[u8], name: &'static str) -> Result<u64, CodecError> {
        let count = self.u64(block);
        if count > COUNT_MAX {
            return Err(CodecError::Invalid(name));
        }
        Ok(count)
    }
}

/// Writes the prefix of `blocks`, whose other bytes are final.
pub(super) fn seal(blocks: &mut [u8], magic: [u8; 8], array: ArrayId) {
    MAGIC.put(blocks, magic);
    VERSION.put(blocks, FORMAT.to_le_bytes());
    ARRAY.put(blocks, array.0);
    CHECKSUM.put(blocks, [0; 4]);
    let sum = checksum(blocks);
    CHECKSUM.put(blocks, sum.to_le_bytes());
}

/// Whether `blocks` begins with `magic`.
pub(super) fn has_magic(blocks: &[u8], magic: [u8; 8]) -> bool {
    blocks.starts_with(&magic)
}

/// Checks the prefix of `blocks` and returns the array that they belong to.
pub(super) fn open(blocks: &[u8], magic: [u8; 8]) -> Result<ArrayId, CodecError> {
    if blocks.is_empty() || !blocks.len().is_multiple_of(BLOCK_BYTES) {
        return Err(CodecError::Length { have: blocks.len() });
    }
    if !has_magic(blocks, magic) {
        return Err(CodecError::NoMagic);
    }
    let sum = checksum_of([&blocks[..CHECKSUM.at], &[0; 4], &blocks[CHECKSUM.end()..]]);
    if sum != CHECKSUM.u32(blocks) {
        return Err(CodecError::Checksum);
    }
    match VERSION.u32(blocks) {
        FORMAT => Ok(ArrayId(ARRAY.get(blocks))),
        found => Err(CodecError::Format { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_format_is_told_from_damage() {
        let mut block = [0; BLOCK_BYTES];
        seal(&mut block, *b"EKtest\r\n", ArrayId([7; 16]));
        assert_eq!(open(&block, *b"EKtest\r\n"), Ok(ArrayId([7; 16])));
        VERSION.put(&mut block, 2u32.to_le_bytes());
        assert_eq!(open(&block, *b"EKtest\r\n"), Err(CodecError::Checksum));
        CHECKSUM.put(&mut block, [0; 4]);
        let sum = checksum(&block);
        CHECKSUM.put(&mut block, sum.to_le_bytes());
        assert_eq!(open(&block, *b"EKtest\r\n"), Err(CodecError::Format { found: 2 }));
    }
}

//! Sizes of a volume's structures on disk.

use raidcore::units::BLOCK_BYTES;

/// Bytes of an entry of the map.
pub(crate) const WIDTH: usize = 5;

/// Bytes of the prefix of each block.
pub(crate) const PREFIX_BYTES: usize = 32;

/// Bytes of a page before its entries.
pub(crate) const PAGE_BYTES: usize = PREFIX_BYTES + 16;

/// Bytes of a summary before its entries.
pub(crate) const SUMMARY_BYTES: usize = PREFIX_BYTES + 56;

/// Bytes of an entry of a summary.
pub(crate) const ENTRY_BYTES: usize = 1 + WIDTH + 4;

/// Blocks of the map on a page.
pub(crate) const ENTRIES_PER_PAGE: u64 = ((BLOCK_BYTES - PAGE_BYTES) / WIDTH) as u64;

/// Segments whose ages are on a page.
pub(crate) const AGES_PER_PAGE: u64 = ((BLOCK_BYTES - PAGE_BYTES) / 8) as u64;

const _: () = assert!(ENTRIES_PER_PAGE == 809 && AGES_PER_PAGE == 506);

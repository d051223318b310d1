//! The sizes of a drive, as the FTL sees them.
//!
//! A *page* is what the map maps: a flash page, or an even part of it. Planes that are programmed
//! together are one *plane*, and their blocks one *block*. A *row* is what one read of the array
//! brings to the page registers, a *program* what one program writes.
//!
//! Dies are numbered across channels first, so that neighbours are on different channels; planes
//! and blocks count through the drive, die by die.

/// Sizes of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels of the drive.
    pub channels: u32,
    /// Chips of the drive.
    pub chips: u32,
    /// Dies of the drive.
    pub dies: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Planes of the drive.
    pub planes: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of a block, with data or without.
    pub pages_per_block: u32,
    /// Pages of a block that hold data: the first ones.
    pub data_pages: u32,
    /// Pages of a row.
    pub pages_per_row: u32,
    /// Pages of a program.
    pub pages_per_program: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that the host sees.
    pub logical_pages: u32,
}

impl Geometry {
    /// Blocks of the drive.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.planes * self.blocks_per_plane
    }

    /// Pages of the drive that can hold data.
    #[must_use]
    pub fn raw_pages(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.data_pages)
    }

    pub(crate) fn plane_of(&self, block: u32) -> u32 {
        block / self.blocks_per_plane
    }

    pub(crate) fn die_of(&self, plane: u32) -> u32 {
        plane / self.planes_per_die
    }

    pub(crate) fn planes_of(&self, die: u32) -> core::ops::Range<u32> {
        die * self.planes_per_die..(die + 1) * self.planes_per_die
    }

    pub(crate) fn channel_of(&self, die: u32) -> u32 {
        die % self.channels
    }

    pub(crate) fn chip_of(&self, die: u32) -> u32 {
        die % self.chips
    }
}

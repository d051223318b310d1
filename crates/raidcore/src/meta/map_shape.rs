//! How the maps are divided into bits for stripes, and into pages of bits.

use super::layout_error::LayoutError;
use super::page::{BITS_PER_PAGE, is_page_size};

/// The most bits of the write-intent bitmap.
const REGIONS_MAX: u64 = 1 << 16;

/// The most pages of the write-intent bitmap: both slots of each fit between two copies of the
/// superblock.
pub(super) const BITMAP_PAGES_MAX: u32 = 31;

/// How maps are divided.
#[derive(Clone, Copy)]
pub(super) struct MapShape {
    /// Stripes that a bit of the write-intent bitmap stands for.
    pub(super) region_stripes: u64,
    /// Bits of a page.
    pub(super) page_bits: u64,
}

impl MapShape {
    /// The default for this many stripes.
    pub(super) fn of(stripes: u64) -> Self {
        let mut region_stripes = 1;
        while stripes.div_ceil(region_stripes) > REGIONS_MAX {
            region_stripes *= 2;
        }
        Self { region_stripes, page_bits: BITS_PER_PAGE }
    }

    pub(super) fn check(self, stripes: u64) -> Result<(), LayoutError> {
        if !is_page_size(self.page_bits) {
            return Err(LayoutError::Area("page of a map"));
        }
        let regions = self.region_stripes.is_power_of_two();
        if !regions || stripes.div_ceil(self.region_stripes) > REGIONS_MAX {
            return Err(LayoutError::Area("region"));
        }
        if stripes.div_ceil(self.region_stripes).div_ceil(self.page_bits) > BITMAP_PAGES_MAX.into()
        {
            return Err(LayoutError::Area("write-intent bitmap"));
        }
        // Numbers of pages have 32 bits.
        if stripes.div_ceil(self.page_bits) > u32::MAX.into() {
            return Err(LayoutError::Area("zero map"));
        }
        Ok(())
    }

    /// The pages that this many bits need.
    pub(super) fn pages(self, bits: u64) -> u32 {
        bits.div_ceil(self.page_bits) as u32
    }
}

//! The sizes of a drive, from its profile.

use super::Profile;
use crate::geometry::Geometry;

impl Profile {
    /// The sizes of the drive. The profile has to be possible.
    #[must_use]
    pub fn sizes(&self) -> Geometry {
        let (g, nand) = (&self.geometry, &self.nand);
        let pages_per_row = nand.program_planes * (g.page_bytes / self.mapping_bytes());
        let dies = g.channels * g.chips * g.dies;
        let planes_per_die = g.planes / nand.program_planes;
        let data_pages = (g.pages - u32::from(self.ftl.summary)) * pages_per_row;
        let offered = g.blocks - self.spare_blocks();
        Geometry {
            channels: g.channels,
            chips: g.channels * g.chips,
            dies,
            planes_per_die,
            planes: dies * planes_per_die,
            blocks_per_plane: g.blocks,
            pages_per_block: g.pages * pages_per_row,
            data_pages,
            pages_per_row,
            pages_per_program: nand.program_pages * pages_per_row,
            page_bytes: self.mapping_bytes(),
            logical_pages: dies * planes_per_die * offered * data_pages,
        }
    }
}

//! What the journal has of small writes.

use super::journal::header_blocks;
use super::record::{ArrayRecord, Consistency, Features};
use super::shapes::can_leave_out;
use crate::geometry::Geometry;

/// The form of small writes' entries in the journal, while all members are in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entries {
    /// There is no journal.
    None,
    /// Partial: what parity would be without the chunk that a write changes.
    Partial,
    /// Whole: all blocks that a write changes, parity included.
    Whole,
}

impl Entries {
    /// Those of an array that is created now, with this consistency and shape.
    #[must_use]
    pub fn of_new(consistency: Consistency, geometry: &Geometry) -> Self {
        Self::with(consistency, geometry, true)
    }

    /// Those of an array by its record: an older one has no partial entries.
    #[must_use]
    pub fn of(record: &ArrayRecord) -> Self {
        let has_partial = record.features.incompatible & Features::PARTIAL_ENTRIES != 0;
        Self::with(record.consistency, &record.geometry, has_partial)
    }

    fn with(consistency: Consistency, geometry: &Geometry, has_partial: bool) -> Self {
        match consistency {
            Consistency::Resync | Consistency::Bitmap => Self::None,
            Consistency::Journal if geometry.parities() == 0 => Self::None,
            Consistency::Journal if has_partial && can_leave_out(geometry) => Self::Partial,
            Consistency::Journal => Self::Whole,
        }
    }

    /// The blocks of the entry of a write of one block, header and all. Each member that holds parity of the
    /// stripe is written so many.
    #[must_use]
    pub fn small_blocks(self, geometry: &Geometry) -> u32 {
        let parities = geometry.parities() as u32;
        let payload = match self {
            Self::None => return 0,
            Self::Partial => parities,
            Self::Whole => 1 + parities,
        };
        header_blocks(payload, payload) + payload
    }
}

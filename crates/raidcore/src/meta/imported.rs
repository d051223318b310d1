//! The metadata of an array whose stripes are there already: another system's, md's, wrote them.
//!
//! Invariant: as long as [`ArrayRecord::is_pending`], no such array is
//! [assembled](super::assemble()), so that nothing of its devices is changed which the other system
//! needs.

use alloc::string::String;
use alloc::vec::Vec;

use super::entries::Entries;
use super::layout::{ALIGNMENT, Areas, JOURNAL_BLOCKS, SLACK_MAX};
use super::layout_error::LayoutError;
use super::map_shape::MapShape;
use super::placements;
use super::record::{ArrayId, ArrayRecord, Consistency, DeviceUuid, Features};
use super::shapes::{data_blocks, journal_least};
use crate::geometry::Geometry;
use crate::units::Pba;

/// An array as it lies on its devices, and what it is to be called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedArray {
    /// Its identity.
    pub array: ArrayId,
    /// Its name, as [`ArrayRecord::name`] wants it.
    pub name: String,
    /// Now, in seconds since 1970.
    pub created: u64,
    /// Level, chunk, members, stripes and placement.
    pub geometry: Geometry,
    /// Where the stripes begin on each member.
    pub data_start: Pba,
    /// What survives an unclean stop.
    pub consistency: Consistency,
    /// The identities of its members, in order.
    pub devices: Vec<DeviceUuid>,
}

impl Areas {
    /// The layout before data that is there already and begins at `data_start`, for all stripes of that
    /// geometry. The journal has its default size, and there is room for larger maps, as far as there is
    /// room at all.
    ///
    /// # Errors
    /// If the data does not begin at a multiple of 256 blocks, or there is no room for the maps and the
    /// smallest journal before it.
    fn before_data(
        geometry: &Geometry,
        consistency: Consistency,
        data_start: Pba,
    ) -> Result<Self, LayoutError> {
        let Pba(data_start) = data_start;
        if !data_start.is_multiple_of(ALIGNMENT) {
            return Err(LayoutError::Alignment { data_start });
        }
        let stripes = geometry.stripes();
        let usual = Self::of(geometry, 0, 0, stripes, 0, MapShape::of(stripes));
        let maps_end = usual.zero_map_start + 2 * u64::from(usual.zero_map_pages);
        let least = journal_least(geometry, consistency);
        let need = maps_end + least;
        if data_start < need {
            return Err(LayoutError::BeforeData { have: data_start, need });
        }
        let wanted = if least > 0 { least.max(JOURNAL_BLOCKS) } else { 0 };
        let journal_blocks = wanted.min(data_start - maps_end);
        let growth = usual.journal_start - maps_end;
        let journal_start = maps_end + growth.min(data_start - maps_end - journal_blocks);
        let journal_end = journal_start + journal_blocks;
        let areas = Self {
            journal_start,
            journal_blocks,
            staging_start: journal_end,
            data_start,
            member_blocks: data_start
                .checked_add(data_blocks(geometry, stripes))
                .ok_or(LayoutError::Area("data area"))?,
            far: data_start - usual.used(journal_blocks) > SLACK_MAX,
            ..usual
        };
        areas.check(geometry, consistency)?;
        Ok(areas)
    }
}

impl ImportedArray {
    /// The record of the array, which is [pending](ArrayRecord::is_pending).
    ///
    /// # Errors
    /// If metadata has no room before the data, or the data does not begin at a multiple of 256 blocks.
    pub fn record(self) -> Result<ArrayRecord, LayoutError> {
        let Self { geometry, consistency, created, .. } = self;
        let areas = Areas::before_data(&geometry, consistency, self.data_start)?;
        let mut incompatible = Features::PENDING;
        incompatible |= placements::features(geometry.level(), geometry.placement());
        if areas.far {
            incompatible |= Features::FAR_DATA;
        }
        if Entries::of_new(consistency, &geometry) == Entries::Partial {
            incompatible |= Features::PARTIAL_ENTRIES;
        }
        let of = (self.array, self.name, created);
        let shape = (geometry, areas, consistency);
        Ok(ArrayRecord::first(of, incompatible, shape, self.devices.into_iter()))
    }
}

impl ArrayRecord {
    /// Whether it is only prepared, on devices that are still another system's.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.features.incompatible & Features::PENDING != 0
    }

    /// The next record, by which the devices are this array's alone. It may be written only when the
    /// other system can't use any of them any more.
    #[must_use]
    pub fn taken_over(mut self) -> Self {
        self.features.incompatible &= !Features::PENDING;
        self.events += 1;
        self
    }
}

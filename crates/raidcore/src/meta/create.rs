//! The metadata of an array that does not exist yet, for whoever has devices to write it to.
//!
//! Invariant: what is made here is what [`assemble`](super::assemble()) takes for an array that was
//! stopped cleanly.

use alloc::string::String;
use alloc::vec::Vec;

use super::layout::{Areas, LayoutError, SUPERBLOCKS};
use super::page::{BitMap, MapKind};
use super::record::{
    ArrayId, ArrayRecord, Consistency, DeviceUuid, Features, SlotRecord, SlotState,
};
use crate::geometry::{Geometry, Level};
use crate::units::{BLOCK_BYTES, Pba};

/// What a new array is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewArray {
    /// Its identity.
    pub array: ArrayId,
    /// Its name, as [`ArrayRecord::name`] wants it.
    pub name: String,
    /// Now, in seconds since 1970.
    pub created: u64,
    /// The level.
    pub level: Level,
    /// The chunk in blocks.
    pub chunk: u32,
    /// What survives an unclean stop.
    pub consistency: Consistency,
    /// The identities of its members, in order.
    pub devices: Vec<DeviceUuid>,
    /// Blocks of the smallest member.
    pub member_blocks: u64,
}

impl NewArray {
    /// The record of the new array. It is there once the maps ([`ArrayRecord::new_maps`]) and then
    /// the superblocks ([`ArrayRecord::superblocks`]) are durable on its members.
    ///
    /// # Errors
    /// If the shape is impossible, or the members are too small for it.
    pub fn record(self) -> Result<ArrayRecord, LayoutError> {
        let Self { level, chunk, consistency, created, .. } = self;
        let members = self.devices.len();
        let (areas, stripes) = Areas::plan(level, members, chunk, consistency, self.member_blocks)?;
        let slot = |device| SlotRecord { device, state: SlotState::Up, since: created };
        Ok(ArrayRecord {
            array: self.array,
            name: self.name,
            created,
            features: Features::default(),
            geometry: Geometry::new(level, members, chunk, stripes)?,
            areas,
            consistency,
            events: 1,
            epoch: 1,
            clean: true,
            slots: self.devices.into_iter().map(slot).collect(),
            spares: Vec::new(),
        })
    }
}

impl ArrayRecord {
    /// The pages of a new array's maps and their places, the same on every member. `resync` says
    /// that the members' data may not be zeros, so that redundancy has to be made first.
    pub fn new_maps(&self, resync: bool) -> impl Iterator<Item = (Pba, [u8; BLOCK_BYTES])> {
        let stripes = self.geometry.stripes();
        let mut bitmap = BitMap::new(MapKind::Bitmap, self.areas.regions(stripes));
        if resync {
            bitmap.set_all();
        }
        let maps = [bitmap, BitMap::new(MapKind::ZeroMap, stripes)];
        maps.into_iter().flat_map(move |map| {
            (0..map.pages()).map(move |index| {
                let mut block = [0; BLOCK_BYTES];
                map.encode_page(self.array, index, 0, &mut block);
                (self.areas.map_page(map.kind(), index, 0), block)
            })
        })
    }

    /// All copies of a device's superblock and their places. No more than half of them may be
    /// written at a time, or a crash could leave no quorum of any version.
    pub fn superblocks(
        &self,
        device: DeviceUuid,
    ) -> impl Iterator<Item = (Pba, [u8; BLOCK_BYTES])> {
        let mut block = [0; BLOCK_BYTES];
        self.encode(device, &mut block);
        SUPERBLOCKS.into_iter().map(move |at| (at, block))
    }
}

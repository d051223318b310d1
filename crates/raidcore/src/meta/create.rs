//! The metadata of an array that does not exist yet.
//!
//! Invariant: [`Assembled::of_new`] is what [`assemble`](super::assemble()) makes of members that
//! hold the record's [maps](ArrayRecord::new_maps) and [superblocks](ArrayRecord::superblocks).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::assemble::Assembled;
use super::entries::Entries;
use super::label::DeviceLabel;
use super::layout::{Areas, SUPERBLOCKS};
use super::layout_error::LayoutError;
use super::page::{BitMap, MapKind, PageVersions};
use super::placements;
use super::record::{ArrayId, ArrayRecord, Consistency, DeviceUuid, Features, SlotRecord};
use super::volatile::VolatileWrites;
use crate::geometry::{Geometry, Level, Placement};
use crate::units::{BLOCK_BYTES, MEMBERS_MAX, Pba, Set};

/// The parameters of a new array.
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
    /// Blocks of the journal, if there is one. The default is
    /// [`JOURNAL_BLOCKS`](super::JOURNAL_BLOCKS), or more if the largest entries need it.
    pub journal_blocks: u64,
    /// Blocks of each member's staging log; 0 for none.
    pub staging_blocks: u64,
    /// The identities of its staging devices, in order; none without a staging log.
    pub staging_devices: Vec<DeviceUuid>,
    /// Blocks of each staging device's part of the staging log; 0 without such devices.
    pub staging_device_blocks: u64,
    /// Where the chunks of a stripe lie.
    pub placement: Placement,
    /// Whether there is a distributed spare.
    pub distributed_spare: bool,
    /// Blocks of each member, in the order of `devices`; none of one that is not told.
    pub member_blocks: Vec<u64>,
}

impl NewArray {
    /// The record of the new array.
    ///
    /// # Errors
    /// If the shape is impossible, or the members are too small for it.
    pub fn record(self) -> Result<ArrayRecord, LayoutError> {
        let Self { level, chunk, placement, consistency, created, .. } = self;
        let members = self.devices.len();
        let shape = Geometry::new(level, members, chunk, 1)?.placed(placement)?;
        let (mut areas, stripes) = Areas::plan(
            &shape,
            consistency,
            self.journal_blocks,
            self.staging_blocks,
            self.distributed_spare,
            &self.member_blocks,
        )?;
        let staging = Features::STAGING | Features::SHARED_HEADERS;
        let mut incompatible = if self.staging_blocks > 0 { staging } else { 0 };
        let geometry = Geometry::new(level, members, chunk, stripes)?.placed(placement)?;
        incompatible |= placements::features(level, placement);
        if self.distributed_spare {
            incompatible |= Features::DISTRIBUTED_SPARE;
        }
        if Entries::of_new(consistency, &geometry) == Entries::Partial {
            incompatible |= Features::PARTIAL_ENTRIES;
        }
        if !self.staging_devices.is_empty() {
            if members + self.staging_devices.len() > MEMBERS_MAX {
                return Err(LayoutError::Area("number of staging devices"));
            }
            incompatible |= Features::STAGING_DEVICES;
            areas = areas.with_staging_devices(self.staging_device_blocks)?;
        }
        let devices = self.devices.into_iter().chain(self.staging_devices);
        let of = (self.array, self.name, created);
        Ok(ArrayRecord::first(of, incompatible, (geometry, areas, consistency), devices))
    }
}

impl ArrayRecord {
    /// The first record of an array that is made at `created`, with these incompatible features and these
    /// devices, which are all up.
    pub(super) fn first(
        (array, name, created): (ArrayId, String, u64),
        incompatible: u64,
        (geometry, areas, consistency): (Geometry, Areas, Consistency),
        devices: impl Iterator<Item = DeviceUuid>,
    ) -> Self {
        let slots: Vec<_> = devices.map(|device| SlotRecord::up(device, created)).collect();
        Self {
            array,
            name,
            created,
            features: Features { incompatible, ..Features::default() },
            geometry,
            areas,
            consistency,
            events: 1,
            epoch: 1,
            staging_epoch: 1,
            staging_thin: Set::EMPTY,
            volume: None,
            clean: true,
            policy: None,
            volatile: VolatileWrites::default(),
            lease: None,
            labels: vec![DeviceLabel::NONE; slots.len()],
            slots,
            spares: Vec::new(),
            reshape: None,
            spared: None,
            successor: None,
            filled: None,
            scrub: None,
        }
    }

    /// The pages of a new array's maps and their places, the same on every member. `resync` says
    /// that redundancy does not match the data yet. It matches if all members hold zeros.
    pub fn new_maps(&self, resync: bool) -> impl Iterator<Item = (Pba, [u8; BLOCK_BYTES])> {
        maps(self, resync).into_iter().flat_map(move |map| {
            (0..map.pages()).map(move |index| {
                let mut block = [0; BLOCK_BYTES];
                map.encode_page(self.array, index, 0, &mut block);
                (self.areas.map_page(map.kind(), index, 0), block)
            })
        })
    }

    /// All copies of a device's superblock and their places. At most half of them may be written at
    /// a time: otherwise a crash could leave no quorum of any version.
    pub fn superblocks(
        &self,
        device: DeviceUuid,
    ) -> impl Iterator<Item = (Pba, [u8; BLOCK_BYTES])> + use<> {
        let mut block = [0; BLOCK_BYTES];
        self.encode(device, &mut block);
        SUPERBLOCKS.into_iter().map(move |at| (at, block))
    }
}

impl Assembled {
    /// A new array whose members hold no metadata yet: starting the engine writes all of it. This
    /// is for hosts whose disks are not persistent. Others write the metadata first, since a crash
    /// during the first start could leave half an array. `resync` is as in
    /// [`ArrayRecord::new_maps`].
    #[must_use]
    pub fn of_new(record: ArrayRecord, resync: bool) -> Self {
        let [bitmap, zero_map] = maps(&record, resync);
        let missed = record.areas.map(MapKind::Missed);
        Self {
            slots: (0..record.slots.len()).map(Some).collect(),
            spares: Vec::new(),
            slot_blocks: vec![record.areas.member_blocks(); record.slots.len()],
            spare_blocks: Vec::new(),
            stale: Vec::new(),
            bitmap_versions: vec![PageVersions::default(); bitmap.pages() as usize],
            bitmap,
            zero_versions: vec![PageVersions::default(); zero_map.pages() as usize],
            zero_map,
            missed_versions: vec![PageVersions::default(); missed.pages() as usize],
            missed,
            popularity: Vec::new(),
            replay: Vec::new(),
            next_entry: 1,
            staged: Vec::new(),
            warnings: Vec::new(),
            was_clean: record.clean,
            record,
            before: None,
        }
    }
}

/// The write-intent bitmap and the zero map of a new array.
fn maps(record: &ArrayRecord, resync: bool) -> [BitMap; 2] {
    let mut bitmap = record.areas.map(MapKind::Bitmap);
    if resync {
        bitmap.set_all();
    }
    [bitmap, record.areas.map(MapKind::ZeroMap)]
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::meta::{AssembleOptions, JOURNAL_BLOCKS, MemberImage, assemble};

    fn record() -> ArrayRecord {
        let new = NewArray {
            array: ArrayId([7; 16]),
            name: "new".into(),
            created: 5,
            level: Level::Raid6,
            placement: Placement::of(Level::Raid6),
            chunk: 4,
            consistency: Consistency::Journal,
            devices: (1..=5).map(|member| DeviceUuid([member; 16])).collect(),
            journal_blocks: JOURNAL_BLOCKS,
            staging_blocks: 256,
            staging_devices: Vec::new(),
            staging_device_blocks: 0,
            distributed_spare: false,
            member_blocks: vec![200_000; 5],
        };
        new.record().expect("it is possible")
    }

    fn image(record: &ArrayRecord, member: usize, resync: bool) -> MemberImage {
        let mut meta = vec![0; record.areas.meta_blocks() as usize * BLOCK_BYTES];
        let superblocks = record.superblocks(record.slots[member].device);
        for (at, block) in record.new_maps(resync).chain(superblocks) {
            meta[at.0 as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
        }
        let blocks = record.areas.member_blocks();
        MemberImage { label: format!("disk {member}"), blocks, meta, unreadable: Vec::new() }
    }

    #[test]
    fn what_is_assembled_from_new_members_is_a_new_array() {
        for resync in [false, true] {
            let record = record();
            let images: Vec<_> = (0..5).map(|member| image(&record, member, resync)).collect();
            let found = assemble(&images, AssembleOptions::default()).expect("all are there");
            assert_eq!(found.bitmap.count() > 0, resync);
            assert_eq!(format!("{found:?}"), format!("{:?}", Assembled::of_new(record, resync)));
        }
    }
}

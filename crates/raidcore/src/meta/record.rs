//! The superblock's record, as values.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::geometry::{Geometry, Layout};
use crate::meta::{
    Areas, BITS_PER_PAGE, DeviceLabel, FilledRanges, Filling, LayoutError, Policy, Ranges, Reshape,
    ScrubRecord, Term, VolatileWrites,
};
use crate::units::{MemberId, Pba, Set};

/// The most spares that a superblock can record.
pub const SPARES_MAX: usize = 16;

/// An array's identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ArrayId(pub [u8; 16]);

/// A device's identity within an array; new for every device that joins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceUuid(pub [u8; 16]);

/// A log volume's identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VolumeUuid(pub [u8; 16]);

impl fmt::Display for VolumeUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, f)
    }
}

impl fmt::Debug for VolumeUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, f)
    }
}

impl fmt::Display for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, f)
    }
}

impl fmt::Debug for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, f)
    }
}

impl fmt::Display for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, f)
    }
}

impl fmt::Debug for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, f)
    }
}

/// One block of metadata, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaPage {
    /// A copy of the superblock.
    Superblock {
        /// Which copy, below [`SUPERBLOCK_COPIES`](super::SUPERBLOCK_COPIES).
        copy: u8,
    },
    /// A page of the write-intent bitmap.
    Bitmap {
        /// Which page.
        index: u32,
    },
    /// A page of the zero map.
    ZeroMap {
        /// Which page.
        index: u32,
    },
    /// A page of the map of what is missed.
    Missed {
        /// Which page.
        index: u32,
    },
    /// How often users asked for each range.
    Popularity,
}

/// What survives an unclean stop (md's names where md has them).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// No bitmap, no journal: everything is resynced.
    Resync,
    /// A write-intent bitmap: only marked regions are resynced. The write hole is open when the
    /// array is degraded.
    Bitmap,
    /// The bitmap and a journal of every stripe write that is partial or degraded: the write hole
    /// is closed.
    Journal,
}

/// Feature bits. An unknown `compatible` bit is ignored, an unknown `read_only` bit forbids
/// writing, an unknown `incompatible` bit forbids everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Harmless if unknown.
    pub compatible: u64,
    /// Harmless to read if unknown.
    pub read_only: u64,
    /// Harmful if unknown.
    pub incompatible: u64,
}

impl Features {
    /// The incompatible bit of an array with a staging log: what users wrote may be there and not at
    /// home.
    pub const STAGING: u64 = 1;

    /// The incompatible bit of an array with staging devices, which are in slots after its members'.
    pub const STAGING_DEVICES: u64 = 2;

    /// The incompatible bit of an array that is a group of a log volume: what it holds makes sense
    /// only together with the other groups.
    pub const VOLUME: u64 = 4;

    /// The incompatible bit of an array with a distributed spare: a failed member's data may be there.
    pub const DISTRIBUTED_SPARE: u64 = 8;

    /// The incompatible bit of an array whose maps have pages of fewer bits than [`BITS_PER_PAGE`];
    /// the record tells how many.
    pub const PAGE_BITS: u64 = 16;

    /// The incompatible bit of an array whose placement is not the default of its level; the record
    /// tells it.
    pub const PLACEMENT: u64 = 32;

    /// The incompatible bit of an array whose journal may have [partial
    /// entries](super::JournalHeader::left_out).
    pub const PARTIAL_ENTRIES: u64 = 64;

    /// The incompatible bit of an array whose parity is in given shares, which the record tells; it has
    /// [`Features::PLACEMENT`], too.
    pub const PARITY_SHARES: u64 = 128;

    /// The incompatible bit of an array that is being reshaped: its stripes have two geometries.
    pub const RESHAPE: u64 = 256;

    /// The incompatible bit of an array whose maps have bits for more stripes than it has, or whose old
    /// stripes have chunks of another size while it is reshaped; the record tells both.
    pub const STRIPES: u64 = 512;

    /// The incompatible bit of an array before whose data more blocks may lie unused than other arrays
    /// have there.
    pub const FAR_DATA: u64 = 1024;

    /// The incompatible bit of an array that is prepared on devices which are still md's: it must not be
    /// started.
    pub const PENDING: u64 = 2048;

    /// The incompatible bit of an array whose acknowledged writes may be in the memory of a process only, or
    /// are lost; the record tells which.
    pub const VOLATILE: u64 = 4096;

    /// The incompatible bit of an array that only who holds its [lease](crate::lease) may run.
    pub const LEASE: u64 = 1 << 13;

    /// The incompatible bit of an array in whose staging log [entries may share a
    /// header](super::encode_shared).
    pub const SHARED_HEADERS: u64 = 1 << 14;

    /// The incompatible bit of an array of RAID10. Older releases don't know of it either, and say so; a level
    /// that they don't know they would take for a damaged superblock.
    pub const PAIRS: u64 = 1 << 15;
}

/// The content of the distributed spare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spared {
    /// The failed member whose chunks it holds.
    pub member: MemberId,
    /// The spare holds the chunks of all stripes before this one, durably.
    pub watermark: u64,
}

/// A spare that is being filled from a member that still serves, to take its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Successor {
    /// The member whose place it takes.
    pub member: MemberId,
    /// Its identity: it is one of the spares.
    pub device: DeviceUuid,
    /// It holds the member's chunks of all stripes before this one, durably, except in regions that
    /// are marked in the bitmap.
    pub watermark: u64,
}

/// That an array is a group of a log volume (an R-group of SWAN), and which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumePart {
    /// The volume's identity.
    pub volume: VolumeUuid,
    /// Which of its groups this is.
    pub group: u8,
    /// How many there are, 1 to [`VolumePart::GROUPS_MAX`].
    pub groups: u8,
    /// Blocks of a segment of its log, 1 to [`VolumePart::SEGMENT_MAX`].
    pub segment: u32,
    /// The blocks that users have.
    pub blocks: u64,
}

impl VolumePart {
    /// The most groups of a volume.
    pub const GROUPS_MAX: u8 = 32;

    /// The most blocks of a segment.
    pub const SEGMENT_MAX: u32 = 1 << 14;
}

/// A member's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// In service: everything it holds is current.
    Up,
    /// Being filled: current below the watermark, counted in stripes.
    Rebuilding {
        /// Stripes that are durable on it.
        watermark: u64,
    },
    /// Out of service, or never there.
    Failed,
}

/// A member's entry in the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRecord {
    /// The device in this place; for a failed member, the device that was.
    pub device: DeviceUuid,
    /// Its state.
    pub state: SlotState,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// For a failed member whose device lacks only what the map of missed regions names: the
    /// `events` of the latest record that the device can have. It has that one or the one before.
    pub left: Option<u64>,
    /// For a member that is being filled: it is current from the start in regions that the map of
    /// missed regions does not name.
    pub catches_up: bool,
}

impl SlotRecord {
    /// The entry of a device in service.
    #[must_use]
    pub fn up(device: DeviceUuid, since: u64) -> Self {
        Self { device, state: SlotState::Up, since, left: None, catches_up: false }
    }

    /// Whether the device's content is known: it has everything, except perhaps in regions that the
    /// map of missed regions names.
    pub(crate) fn is_known(&self) -> bool {
        self.state == SlotState::Up || self.catches_up
    }

    /// Whether the device is being filled.
    pub(crate) fn is_being_filled(&self) -> bool {
        matches!(self.state, SlotState::Rebuilding { .. })
    }

    /// The member's state changes, at a time in seconds since 1970.
    pub(crate) fn becomes(&mut self, state: SlotState, since: u64) {
        *self = Self { device: self.device, state, since, left: None, catches_up: false };
    }

    /// How many stripes are known to be durable on a member that is being rebuilt.
    #[must_use]
    pub fn watermark(&self) -> u64 {
        match self.state {
            SlotState::Rebuilding { watermark } => watermark,
            SlotState::Up | SlotState::Failed => 0,
        }
    }
}

/// The part of the superblock that is the same on all members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayRecord {
    /// Which array.
    pub array: ArrayId,
    /// Its name, at most 63 bytes, `[A-Za-z0-9][A-Za-z0-9_.-]*`.
    pub name: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Feature bits.
    pub features: Features,
    /// Level, chunk, members, stripes.
    pub geometry: Geometry,
    /// Where things are on each member.
    pub areas: Areas,
    /// What survives an unclean stop.
    pub consistency: Consistency,
    /// Counts the changes of this record. A member whose count lags by more than one missed
    /// something and is stale.
    pub events: u64,
    /// Counts the starts of the array; journal entries of earlier epochs are void.
    pub epoch: u64,
    /// Counts how often the staging log was emptied; its entries of earlier epochs are void.
    pub staging_epoch: u64,
    /// The failed staging devices without which some entries are on fewer devices than they should
    /// be, by place.
    pub staging_thin: Set<MemberId>,
    /// Whether the array was stopped cleanly.
    pub clean: bool,
    /// The policy that it is to follow, if one was ever chosen.
    pub policy: Option<Policy>,
    /// Where acknowledged writes may be, other than on the members.
    pub volatile: VolatileWrites,
    /// The term of the lease by which hosts agree who runs it, if it has one.
    pub lease: Option<Term>,
    /// The log volume that it is a group of, if it is.
    pub volume: Option<VolumePart>,
    /// The members (`geometry.members` of them), then the staging devices, which hold the staging
    /// log and no stripes (GC-Steering's dedicated staging space).
    pub slots: Vec<SlotRecord>,
    /// The labels of the devices in the slots, one for each.
    pub labels: Vec<DeviceLabel>,
    /// The spares, at most [`SPARES_MAX`].
    pub spares: Vec<DeviceUuid>,
    /// What its stripes are to become, and how far that has come, if they are.
    pub reshape: Option<Reshape>,
    /// What is on the distributed spare, if anything.
    pub spared: Option<Spared>,
    /// The spare that is being filled to take a member's place, if there is one.
    pub successor: Option<Successor>,
    /// What is durable, besides what is before the watermark, of what a pass fills or filled last.
    pub filled: Option<FilledRanges>,
    /// How the last scrub ended, if there was one.
    pub scrub: Option<ScrubRecord>,
}

impl ArrayRecord {
    /// Records the label of the device in a place, as far as there is room for it.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn set_label(&mut self, place: MemberId, label: DeviceLabel) {
        self.labels[place.index()] = label.of_slots(self.slots.len());
    }

    /// The same with maps that differ from the default: a bit of the write-intent bitmap for every
    /// `region_stripes` stripes, and `page_bits` bits in a page. Members may then need more blocks.
    ///
    /// # Errors
    /// If `region_stripes` is no power of two, if `page_bits` is neither a multiple of 64 nor a
    /// power of two, or more than [`BITS_PER_PAGE`], or if there would be too many regions or
    /// pages.
    pub fn with_maps_of(self, region_stripes: u64, page_bits: u64) -> Result<Self, LayoutError> {
        let areas = self.areas.with_maps_of(&self.geometry, region_stripes, page_bits)?;
        let mut features = self.features;
        if page_bits != BITS_PER_PAGE {
            features.incompatible |= Features::PAGE_BITS;
        }
        Ok(Self { areas, features, ..self })
    }

    /// Makes it a group of a log volume.
    #[must_use]
    pub fn in_volume(mut self, part: VolumePart) -> Self {
        self.features.incompatible |= Features::VOLUME;
        Self { volume: Some(part), ..self }
    }

    /// Where its stripes lie.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let layout = Layout::new(self.geometry, self.areas.data_start());
        self.frontier().map_or(layout, |frontier| layout.reshaped(frontier))
    }

    /// What the numbers of all its stripes are below.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.layout().stripes()
    }

    /// The member that `device` is, if it is one.
    #[must_use]
    pub fn member_of(&self, device: DeviceUuid) -> Option<MemberId> {
        self.places().find(|place| self.slots[place.index()].device == device)
    }

    /// Whether what is in this place is a staging device.
    #[must_use]
    pub fn is_staging_device(&self, member: MemberId) -> bool {
        member.index() >= self.geometry.members()
    }

    /// The failed member that the distributed spare replaces completely.
    #[must_use]
    pub fn stood_in_for(&self) -> Option<MemberId> {
        let whole = |spared: &Spared| spared.watermark >= self.stripes();
        self.spared.filter(whole).map(|spared| spared.member)
    }

    /// The ranges that are durable on what is being filled, besides what is before its watermark.
    #[must_use]
    pub fn filled_ranges(&self, of: Filling) -> Option<Ranges> {
        self.filled.filter(|filled| filled.of == of).map(|filled| filled.ranges)
    }

    /// Whether the map of missed regions is in use: for a device that may return, or one that has
    /// returned and is being filled.
    #[must_use]
    pub fn keeps_missed(&self) -> bool {
        self.slots.iter().any(|slot| slot.left.is_some() || slot.catches_up)
    }

    /// All places: those of the members, and then those of the staging devices.
    pub fn places(&self) -> impl Iterator<Item = MemberId> + Clone + use<> {
        (0..self.slots.len()).map(MemberId::at)
    }

    /// How many blocks the device in this place must have.
    #[must_use]
    pub fn blocks_of(&self, member: MemberId) -> u64 {
        if self.is_staging_device(member) {
            self.areas.staging_device_blocks()
        } else {
            self.layout().data_end(member).0 + self.areas.distributed_spare_blocks()
        }
    }

    /// How many blocks a spare must have to be of use anywhere.
    #[must_use]
    pub fn least_blocks(&self) -> u64 {
        self.places().map(|place| self.blocks_of(place)).min().unwrap_or(0)
    }

    /// Where the staging log's ring is on the device in this place, and how many blocks it has; none
    /// if there is none.
    #[must_use]
    pub fn staging_of(&self, member: MemberId) -> (Pba, u64) {
        let device = self.is_staging_device(member);
        if device { self.areas.staging_on_device() } else { self.areas.staging() }
    }

    /// The last eighth of that ring, for copies of popular blocks. It is void after a stop, clean
    /// or not.
    #[must_use]
    pub fn copies_of(&self, member: MemberId) -> (Pba, u64) {
        let (start, ring) = self.staging_of(member);
        let blocks = ring / 8;
        (Pba(start.0 + ring - blocks), blocks)
    }

    /// How many blocks of metadata, with the staging log, the device in this place begins with.
    #[must_use]
    pub fn meta_blocks_of(&self, member: MemberId) -> u64 {
        if self.is_staging_device(member) {
            self.areas.staging_device_blocks()
        } else {
            self.areas.meta_blocks()
        }
    }
}

/// One device's superblock: the record, and which device this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The part that all devices share.
    pub record: ArrayRecord,
    /// Whose superblock this is.
    pub device: DeviceUuid,
}

/// In the usual form, 8-4-4-4-12 (RFC 9562, section 4).
fn write_uuid(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
}

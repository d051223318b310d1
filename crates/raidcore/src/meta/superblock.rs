//! The superblock: the array's record and which of its devices this is, in one block.
//!
//! Invariants:
//! - A [`Superblock`] that came from a disk has passed every check of [`Superblock::decode`]; no
//!   number in it is out of bounds.
//! - A device's copies are identical, and are written in two rounds of two with a flush between:
//!   at any moment one version has two intact copies.

use alloc::string::String;
use alloc::vec::Vec;

use super::codec::{CodecError, Field, PREFIX_BYTES, has_magic, open, seal};
use super::label::{decode_labels, encode_labels};
use super::layout::{Areas, SUPERBLOCK_COPIES};
use super::numbers::{consistency_number, decode_consistency, decode_level, level_number};
use super::page::BITS_PER_PAGE;
use super::placements;
use super::policy::{POLICY_NAME_MAX, Policy, PolicyName};
use super::ranges;
use super::record::{
    ArrayId, ArrayRecord, DeviceUuid, Features, SPARES_MAX, SlotRecord, SlotState, Superblock,
    VolumePart, VolumeUuid,
};
use super::shapes::spare_blocks;
use super::{lease, reshape, returns, scrubbed, substitutes, volatile};
use crate::geometry::Geometry;
use crate::units::{BLOCK_BYTES, MEMBERS_MAX, Set};

const MAGIC: [u8; 8] = *b"Evenkeel";

const DEVICE: Field<16> = Field { at: PREFIX_BYTES };
const COMPATIBLE: Field<8> = DEVICE.then();
const READ_ONLY: Field<8> = COMPATIBLE.then();
const INCOMPATIBLE: Field<8> = READ_ONLY.then();
const EVENTS: Field<8> = INCOMPATIBLE.then();
const EPOCH: Field<8> = EVENTS.then();
const CREATED: Field<8> = EPOCH.then();
const LEVEL: Field<1> = CREATED.then();
const CONSISTENCY: Field<1> = LEVEL.then();
const CLEAN: Field<1> = CONSISTENCY.then();
const MEMBERS: Field<1> = CLEAN.then();
const CHUNK: Field<4> = MEMBERS.then();
const STRIPES: Field<8> = CHUNK.then();
const REGION_STRIPES: Field<8> = STRIPES.then();
const BITMAP_START: Field<8> = REGION_STRIPES.then();
const ZERO_MAP_START: Field<8> = BITMAP_START.then();
const BITMAP_PAGES: Field<4> = ZERO_MAP_START.then();
const ZERO_MAP_PAGES: Field<4> = BITMAP_PAGES.then();
const JOURNAL_START: Field<8> = ZERO_MAP_PAGES.then();
const JOURNAL_BLOCKS: Field<8> = JOURNAL_START.then();
const DATA_START: Field<8> = JOURNAL_BLOCKS.then();
const MEMBER_BLOCKS: Field<8> = DATA_START.then();
const NAME_LENGTH: Field<1> = MEMBER_BLOCKS.then();
const NAME: Field<63> = NAME_LENGTH.then();
const SPARES: Field<8> = NAME.then();
const PAGE_BITS: Field<8> = SPARES.then();

const SLOT_DEVICE: Field<16> = Field { at: 0 };
const SLOT_STATE: Field<8> = SLOT_DEVICE.then();
const SLOT_WATERMARK: Field<8> = SLOT_STATE.then();
const SLOT_SINCE: Field<8> = SLOT_WATERMARK.then();
const SLOT_BYTES: usize = SLOT_SINCE.end();

const SLOT_TABLE: Field<{ SLOT_BYTES * MEMBERS_MAX }> = Field { at: 256 };
const SPARE_TABLE: Field<{ 16 * SPARES_MAX }> = SLOT_TABLE.then();
const STAGING_START: Field<8> = SPARE_TABLE.then();
const STAGING_BLOCKS: Field<8> = STAGING_START.then();
const STAGING_EPOCH: Field<8> = STAGING_BLOCKS.then();
const POLICY_LENGTH: Field<1> = STAGING_EPOCH.then();
const POLICY: Field<POLICY_NAME_MAX> = POLICY_LENGTH.then();
const POLICY_SINCE: Field<8> = POLICY.then();
const STAGING_THIN: Field<8> = POLICY_SINCE.then();
const DEVICE_RING: Field<8> = STAGING_THIN.then();
const STAGING_DEVICES: Field<1> = DEVICE_RING.then();
const VOLUME: Field<16> = Field { at: 1880 };
const VOLUME_BLOCKS: Field<8> = VOLUME.then();
const VOLUME_SEGMENT: Field<4> = VOLUME_BLOCKS.then();
const VOLUME_GROUP: Field<1> = VOLUME_SEGMENT.then();
const VOLUME_GROUPS: Field<1> = VOLUME_GROUP.then();

/// Behind what tells of a device that is being filled.
const MAP_STRIPES: Field<8> = Field { at: 4017 };
const _: () = assert!(MAP_STRIPES.at == ranges::END && MAP_STRIPES.end() <= BLOCK_BYTES);
const _: () = assert!(PAGE_BITS.end() == SLOT_TABLE.at && SLOT_BYTES == 40);
const _: () = assert!(
    SPARE_TABLE.end() == 1792
        && POLICY_SINCE.end() == 1856
        && STAGING_DEVICES.end() == placements::START
        && placements::END == 1874
        && VOLUME_GROUPS.end() == substitutes::START
);

/// How many intact copies of a superblock are a quorum.
const QUORUM: usize = 2;

/// The feature bits that this build knows.
const KNOWN: Features = Features {
    compatible: 0,
    read_only: 0,
    incompatible: Features::STAGING
        | Features::STAGING_DEVICES
        | Features::VOLUME
        | Features::DISTRIBUTED_SPARE
        | Features::PAGE_BITS
        | Features::STRIPES
        | Features::PLACEMENT
        | Features::PARTIAL_ENTRIES
        | Features::PARITY_SHARES
        | Features::RESHAPE
        | Features::FAR_DATA
        | Features::PENDING
        | Features::VOLATILE
        | Features::LEASE
        | Features::SHARED_HEADERS
        | Features::PAIRS,
};

/// Why a device has no usable superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockError {
    /// No copy has the magic number.
    #[error("it is not a member of an Evenkeel array: there is no superblock")]
    NotAMember,
    /// It was a member, but no quorum of copies is intact.
    #[error("only {valid} of {SUPERBLOCK_COPIES} copies of its superblock are intact; 2 must be")]
    Damaged {
        /// Intact copies that agree on the array and the device.
        valid: usize,
    },
    /// It is intact, but this release must not use it.
    #[error(transparent)]
    Refused(CodecError),
}

impl ArrayRecord {
    /// Writes the superblock of `device` into one block. Does not allocate.
    ///
    /// # Panics
    /// If `into` is not one block, the name is longer than 63 bytes, there is not one slot for each
    /// member and at most [`MEMBERS_MAX`] in all, there are more than [`SPARES_MAX`] spares, or there
    /// is not one label for each slot, as [`ArrayRecord::set_label`] leaves it.
    pub fn encode(&self, device: DeviceUuid, into: &mut [u8]) {
        let members = self.geometry.members();
        assert!(into.len() == BLOCK_BYTES && (members..=MEMBERS_MAX).contains(&self.slots.len()));
        assert!(self.name.len() <= 63 && self.spares.len() <= SPARES_MAX);
        assert!(self.labels.len() == self.slots.len());
        into.fill(0);
        DEVICE.put(into, device.0);
        COMPATIBLE.put(into, self.features.compatible.to_le_bytes());
        READ_ONLY.put(into, self.features.read_only.to_le_bytes());
        INCOMPATIBLE.put(into, self.features.incompatible.to_le_bytes());
        EVENTS.put(into, self.events.to_le_bytes());
        EPOCH.put(into, self.epoch.to_le_bytes());
        CREATED.put(into, self.created.to_le_bytes());
        LEVEL.put(into, [level_number(self.geometry.level())]);
        CONSISTENCY.put(into, [consistency_number(self.consistency)]);
        CLEAN.put(into, [u8::from(self.clean)]);
        MEMBERS.put(into, [members as u8]);
        CHUNK.put(into, self.geometry.chunk().to_le_bytes());
        STRIPES.put(into, self.geometry.stripes().to_le_bytes());
        encode_areas(&self.areas, into);
        if self.features.incompatible & Features::PAGE_BITS != 0 {
            PAGE_BITS.put(into, self.areas.page_bits.to_le_bytes());
        }
        if self.features.incompatible & Features::STRIPES != 0 {
            MAP_STRIPES.put(into, self.areas.stripes.to_le_bytes());
        }
        if self.features.incompatible & Features::STAGING != 0 {
            STAGING_START.put(into, self.areas.staging_start.to_le_bytes());
            STAGING_BLOCKS.put(into, self.areas.staging_blocks.to_le_bytes());
            STAGING_EPOCH.put(into, self.staging_epoch.to_le_bytes());
        }
        placements::encode(self, into);
        reshape::encode(self, into);
        if self.features.incompatible & Features::STAGING_DEVICES != 0 {
            STAGING_DEVICES.put(into, [(self.slots.len() - members) as u8]);
            STAGING_THIN.put(into, self.staging_thin.bits().to_le_bytes());
            DEVICE_RING.put(into, self.areas.device_ring.to_le_bytes());
        }
        volatile::encode(self.volatile, into);
        lease::encode_term(self.lease, into);
        if let Some(part) = &self.volume {
            VOLUME.put(into, part.volume.0);
            VOLUME_BLOCKS.put(into, part.blocks.to_le_bytes());
            VOLUME_SEGMENT.put(into, part.segment.to_le_bytes());
            VOLUME_GROUP.put(into, [part.group]);
            VOLUME_GROUPS.put(into, [part.groups]);
        }
        substitutes::encode(self, into);
        returns::encode(self, into);
        if let Some(filled) = &self.filled {
            ranges::encode(filled, into);
        }
        if let Some(scrub) = &self.scrub {
            scrubbed::encode(scrub, into);
        }
        encode_labels(self.labels.iter(), into);
        NAME_LENGTH.put(into, [self.name.len() as u8]);
        into[NAME.at..NAME.at + self.name.len()].copy_from_slice(self.name.as_bytes());
        if let Some(policy) = &self.policy {
            let (length, name) = policy.name.encode();
            POLICY_LENGTH.put(into, [length]);
            POLICY.put(into, name);
            POLICY_SINCE.put(into, policy.since.to_le_bytes());
        }
        SPARES.put(into, (self.spares.len() as u64).to_le_bytes());
        let slots = into[SLOT_TABLE.at..SLOT_TABLE.end()].chunks_exact_mut(SLOT_BYTES);
        slots.zip(&self.slots).for_each(|(bytes, slot)| encode_slot(slot, bytes));
        let spares = into[SPARE_TABLE.at..SPARE_TABLE.end()].chunks_exact_mut(16);
        for (bytes, spare) in spares.zip(&self.spares) {
            bytes.copy_from_slice(&spare.0);
        }
        seal(into, MAGIC, self.array);
    }
}

impl Superblock {
    /// Decodes the superblock in a block.
    ///
    /// # Errors
    /// If the block is no superblock, is damaged, is of a later format, uses features that this
    /// build does not know, or has impossible values.
    pub fn decode(block: &[u8]) -> Result<Self, CodecError> {
        if block.len() != BLOCK_BYTES {
            return Err(CodecError::Length { have: block.len() });
        }
        let array = open(block, MAGIC)?;
        let features = decode_features(block)?;
        let level = decode_level(LEVEL.u8(block))?;
        let consistency = decode_consistency(CONSISTENCY.u8(block))?;
        let members = usize::from(MEMBERS.u8(block));
        let placement = placements::decode(block, &features, level, members)?;
        let geometry = Geometry::new(level, members, CHUNK.u32(block), STRIPES.u64(block))?
            .placed(placement)?;
        let reshape = reshape::decode(block, &features, &geometry)?;
        let old = reshape.map_or(0, |reshape| reshape.from.numbers().end);
        let stripes = geometry.stripes().max(old);
        let areas = decode_areas(block, &features, &geometry);
        areas.check(&geometry, consistency)?;
        let staging_epoch = decode_staging_epoch(block, &features, &areas)?;
        let devices = decode_staging_devices(block, &features, &areas, members)?;
        let clean = match CLEAN.u8(block) {
            0 => false,
            1 => true,
            _ => return Err(CodecError::Invalid("clean")),
        };
        let slots = block[SLOT_TABLE.at..SLOT_TABLE.end()].chunks_exact(SLOT_BYTES);
        let slots: Result<Vec<_>, _> =
            slots.take(members + devices).map(|bytes| decode_slot(bytes, stripes)).collect();
        let spares = match usize::try_from(SPARES.u64(block)) {
            Ok(count) if count <= SPARES_MAX => count,
            Ok(_) | Err(_) => return Err(CodecError::Invalid("spares")),
        };
        let table = SPARE_TABLE.get(block);
        let spares = table.chunks_exact(16).take(spares).map(|uuid| DeviceUuid(bytes16(uuid)));
        let mut slots = slots?;
        returns::decode(block, &mut slots[..members]);
        let record = ArrayRecord {
            array,
            name: decode_name(block)?,
            created: CREATED.u64(block),
            features,
            geometry,
            areas,
            consistency,
            events: EVENTS.count(block, "events")?,
            epoch: EPOCH.count(block, "epoch")?,
            staging_epoch,
            staging_thin: if devices > 0 {
                Set::from_bits(STAGING_THIN.u64(block))
            } else {
                Set::EMPTY
            },
            clean,
            policy: decode_policy(block),
            volatile: volatile::decode(block, &features)?,
            lease: lease::decode_term(block, &features)?,
            volume: decode_volume(block, &features)?,
            slots,
            labels: decode_labels(block, members + devices).collect(),
            spares: spares.collect(),
            reshape,
            spared: substitutes::decode_spared(block, &features)?,
            successor: substitutes::decode_successor(block)?,
            filled: ranges::decode(block, stripes),
            scrub: scrubbed::decode(block),
        };
        distinct(&record)?;
        substitutes::check(&record)?;
        reshape::check(&record)?;
        Ok(Self { record, device: DeviceUuid(DEVICE.get(block)) })
    }
}

/// Chooses a device's superblock from its copies; `None` is a copy that can't be read.
///
/// # Errors
/// If no copy has the magic number, if fewer than two copies that agree on the array and the device
/// are intact, or if an intact one is of a later release.
pub fn choose(copies: &[Option<&[u8]>; SUPERBLOCK_COPIES]) -> Result<Superblock, SuperblockError> {
    let mut valid: Vec<Superblock> = Vec::new();
    for copy in copies.iter().flatten() {
        match Superblock::decode(copy) {
            Ok(superblock) => valid.push(superblock),
            Err(
                why @ (CodecError::Format { .. }
                | CodecError::UnknownFeature { .. }
                | CodecError::ReadOnlyFeature { .. }),
            ) => return Err(SuperblockError::Refused(why)),
            Err(_) => {}
        }
    }
    let marked = |copy: &Option<&[u8]>| copy.is_none_or(|bytes| has_magic(bytes, MAGIC));
    if !copies.iter().any(marked) {
        return Err(SuperblockError::NotAMember);
    }
    let identity = |s: &Superblock| -> (ArrayId, DeviceUuid) { (s.record.array, s.device) };
    let agreeing = |s: &Superblock| valid.iter().filter(|t| identity(t) == identity(s)).count();
    let most = valid.iter().map(agreeing).max().unwrap_or(0);
    let rivals = valid.iter().filter(|s| agreeing(s) == most).count() != most;
    if most < QUORUM || rivals {
        return Err(SuperblockError::Damaged { valid: most });
    }
    let newest = valid.iter().filter(|s| agreeing(s) == most).max_by_key(|s| s.record.events);
    newest.cloned().ok_or(SuperblockError::NotAMember)
}

fn encode_areas(areas: &Areas, into: &mut [u8]) {
    REGION_STRIPES.put(into, areas.region_stripes.to_le_bytes());
    BITMAP_START.put(into, areas.bitmap_start.to_le_bytes());
    ZERO_MAP_START.put(into, areas.zero_map_start.to_le_bytes());
    BITMAP_PAGES.put(into, areas.bitmap_pages.to_le_bytes());
    ZERO_MAP_PAGES.put(into, areas.zero_map_pages.to_le_bytes());
    JOURNAL_START.put(into, areas.journal_start.to_le_bytes());
    JOURNAL_BLOCKS.put(into, areas.journal_blocks.to_le_bytes());
    DATA_START.put(into, areas.data_start.to_le_bytes());
    MEMBER_BLOCKS.put(into, areas.member_blocks.to_le_bytes());
}

fn decode_areas(block: &[u8], features: &Features, geometry: &Geometry) -> Areas {
    let (journal_start, journal_blocks) = (JOURNAL_START.u64(block), JOURNAL_BLOCKS.u64(block));
    let (staging_start, staging_blocks) = if features.incompatible & Features::STAGING != 0 {
        (STAGING_START.u64(block), STAGING_BLOCKS.u64(block))
    } else {
        (journal_start.saturating_add(journal_blocks), 0)
    };
    let has_devices = features.incompatible & Features::STAGING_DEVICES != 0;
    let has_spare = features.incompatible & Features::DISTRIBUTED_SPARE != 0;
    let tells_page_bits = features.incompatible & Features::PAGE_BITS != 0;
    let tells_stripes = features.incompatible & Features::STRIPES != 0;
    Areas {
        stripes: if tells_stripes { MAP_STRIPES.u64(block) } else { geometry.stripes() },
        region_stripes: REGION_STRIPES.u64(block),
        page_bits: if tells_page_bits { PAGE_BITS.u64(block) } else { BITS_PER_PAGE },
        bitmap_start: BITMAP_START.u64(block),
        bitmap_pages: BITMAP_PAGES.u32(block),
        zero_map_start: ZERO_MAP_START.u64(block),
        zero_map_pages: ZERO_MAP_PAGES.u32(block),
        journal_start,
        journal_blocks,
        staging_start,
        staging_blocks,
        device_ring: if has_devices { DEVICE_RING.u64(block) } else { 0 },
        data_start: DATA_START.u64(block),
        spare_blocks: if has_spare { spare_blocks(geometry, geometry.stripes()) } else { 0 },
        member_blocks: MEMBER_BLOCKS.u64(block),
        far: features.incompatible & Features::FAR_DATA != 0,
    }
}

/// How often the staging log was emptied; 1 if there is none.
fn decode_staging_epoch(
    block: &[u8],
    features: &Features,
    areas: &Areas,
) -> Result<u64, CodecError> {
    if features.incompatible & Features::STAGING == 0 {
        return Ok(1);
    }
    if areas.staging_blocks == 0 {
        return Err(CodecError::Invalid("staging blocks"));
    }
    STAGING_EPOCH.count(block, "staging epoch")
}

/// How many staging devices there are.
fn decode_staging_devices(
    block: &[u8],
    features: &Features,
    areas: &Areas,
    members: usize,
) -> Result<usize, CodecError> {
    if features.incompatible & Features::STAGING_DEVICES == 0 {
        return Ok(0);
    }
    let devices = usize::from(STAGING_DEVICES.u8(block));
    if devices == 0 || members + devices > MEMBERS_MAX || areas.device_ring == 0 {
        return Err(CodecError::Invalid("staging devices"));
    }
    Ok(devices)
}

/// The log volume that it is a group of, if it is one.
fn decode_volume(block: &[u8], features: &Features) -> Result<Option<VolumePart>, CodecError> {
    if features.incompatible & Features::VOLUME == 0 {
        return Ok(None);
    }
    let part = VolumePart {
        volume: VolumeUuid(VOLUME.get(block)),
        group: VOLUME_GROUP.u8(block),
        groups: VOLUME_GROUPS.u8(block),
        segment: VOLUME_SEGMENT.u32(block),
        blocks: VOLUME_BLOCKS.u64(block),
    };
    let groups = part.group < part.groups && part.groups <= VolumePart::GROUPS_MAX;
    let segment = (1..=VolumePart::SEGMENT_MAX).contains(&part.segment);
    if !groups || !segment || part.blocks == 0 {
        return Err(CodecError::Invalid("log volume"));
    }
    Ok(Some(part))
}

fn decode_policy(block: &[u8]) -> Option<Policy> {
    let name = PolicyName::decode(POLICY_LENGTH.u8(block), POLICY.get(block))?;
    Some(Policy { name, since: POLICY_SINCE.u64(block) })
}

fn encode_slot(slot: &SlotRecord, into: &mut [u8]) {
    let (state, watermark) = match slot.state {
        SlotState::Up => (1u64, 0),
        SlotState::Rebuilding { watermark } => (2, watermark),
        SlotState::Failed => (3, slot.left.unwrap_or(0)),
    };
    SLOT_DEVICE.put(into, slot.device.0);
    SLOT_STATE.put(into, state.to_le_bytes());
    SLOT_WATERMARK.put(into, watermark.to_le_bytes());
    SLOT_SINCE.put(into, slot.since.to_le_bytes());
}

fn decode_slot(bytes: &[u8], stripes: u64) -> Result<SlotRecord, CodecError> {
    let state = match (SLOT_STATE.u64(bytes), SLOT_WATERMARK.u64(bytes)) {
        (1, _) => SlotState::Up,
        (2, watermark) if watermark <= stripes => SlotState::Rebuilding { watermark },
        (2, _) => return Err(CodecError::Invalid("watermark")),
        (3, _) => SlotState::Failed,
        _ => return Err(CodecError::Invalid("state")),
    };
    let left = (state == SlotState::Failed).then(|| SLOT_WATERMARK.u64(bytes));
    Ok(SlotRecord {
        device: DeviceUuid(SLOT_DEVICE.get(bytes)),
        state,
        since: SLOT_SINCE.u64(bytes),
        left: left.filter(|&left| left > 0),
        catches_up: false,
    })
}

fn decode_features(block: &[u8]) -> Result<Features, CodecError> {
    let features = Features {
        compatible: COMPATIBLE.u64(block),
        read_only: READ_ONLY.u64(block),
        incompatible: INCOMPATIBLE.u64(block),
    };
    match (features.incompatible & !KNOWN.incompatible, features.read_only & !KNOWN.read_only) {
        (0, 0) => Ok(features),
        (0, bits) => Err(CodecError::ReadOnlyFeature { bits }),
        (bits, _) => Err(CodecError::UnknownFeature { bits }),
    }
}

fn decode_name(block: &[u8]) -> Result<String, CodecError> {
    let name = NAME.get(block);
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"_.-".contains(b);
    // Hosts make paths of the name, which must not become `..`.
    let good = |name: &&[u8]| {
        name.first().is_some_and(u8::is_ascii_alphanumeric) && name.iter().all(allowed)
    };
    name.get(..usize::from(NAME_LENGTH.u8(block)))
        .filter(good)
        .and_then(|name| core::str::from_utf8(name).ok())
        .map(String::from)
        .ok_or(CodecError::Invalid("name"))
}

/// Checks that the devices in use differ.
fn distinct(record: &ArrayRecord) -> Result<(), CodecError> {
    let slots = record.slots.iter().filter(|slot| slot.state != SlotState::Failed);
    let mut used: Vec<_> = slots.map(|s| s.device).chain(record.spares.iter().copied()).collect();
    used.sort_unstable();
    if used.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(CodecError::Invalid("device"));
    }
    Ok(())
}

fn bytes16(bytes: &[u8]) -> [u8; 16] {
    let mut array = [0; 16];
    array.copy_from_slice(bytes);
    array
}

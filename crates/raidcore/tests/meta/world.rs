//! Images of members as an array leaves them, for tests to damage.

use raidcore::geometry::{Geometry, Level, Placement};
use raidcore::meta::{
    Areas, ArrayId, ArrayRecord, AssembleError, AssembleOptions, Assembled, BitMap, Consistency,
    DeviceLabel, DeviceUuid, Features, JOURNAL_BLOCKS, JournalHeader, JournalRun, Log, MapKind,
    MemberImage, NewArray, SUPERBLOCKS, SievedImage, SlotRecord, StagedRing, VolatileWrites,
    assemble, checksum, encode_journal_header, journal_header_blocks,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba, Set, Stripe};

pub(crate) const ARRAY: ArrayId = ArrayId([0xa5; 16]);
pub(crate) const CHUNK: u32 = 4;
pub(crate) const EVENTS: u64 = 100;
pub(crate) const EPOCH: u64 = 7;
pub(crate) const STAGING_EPOCH: u64 = 1;

pub(crate) const STRICT: AssembleOptions = AssembleOptions { degraded: false, force: false };
pub(crate) const DEGRADED: AssembleOptions = AssembleOptions { degraded: true, force: false };
pub(crate) const FORCE: AssembleOptions = AssembleOptions { degraded: true, force: true };

pub(crate) const SHAPES: [(Level, usize); 11] = [
    (Level::Raid0, 2),
    (Level::Raid0, 5),
    (Level::Raid1, 2),
    (Level::Raid1, 3),
    (Level::Raid4, 3),
    (Level::Raid5, 3),
    (Level::Raid5, 5),
    (Level::Raid6, 4),
    (Level::Raid6, 6),
    (Level::Raid10, 4),
    (Level::Raid10, 6),
];

/// An array and the images of its members; the image of slot `i` is `images[i]`.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) record: ArrayRecord,
    pub(crate) images: Vec<MemberImage>,
}

pub(crate) fn device(number: u8) -> DeviceUuid {
    DeviceUuid([number; 16])
}

/// The device that is in a slot from the start.
pub(crate) fn of_slot(slot: usize) -> DeviceUuid {
    device(slot as u8 + 1)
}

pub(crate) fn record(level: Level, members: usize, consistency: Consistency) -> ArrayRecord {
    staged_record(level, members, consistency, 0)
}

/// The record of an array with a staging log of so many blocks.
pub(crate) fn staged_record(
    level: Level,
    members: usize,
    consistency: Consistency,
    staging: u64,
) -> ArrayRecord {
    let shape = Geometry::new(level, members, CHUNK, 1).expect("there is such a shape");
    let (areas, stripes) =
        Areas::plan(&shape, consistency, JOURNAL_BLOCKS, staging, false, &vec![3200; members])
            .expect("there is room");
    let staged = if staging > 0 { Features::STAGING } else { 0 };
    let incompatible = staged | if level == Level::Raid10 { Features::PAIRS } else { 0 };
    let slot = |slot| SlotRecord::up(of_slot(slot), 50);
    ArrayRecord {
        array: ARRAY,
        name: "tank".into(),
        created: 40,
        features: Features { incompatible, ..Features::default() },
        geometry: Geometry::new(level, members, CHUNK, stripes).expect("it was planned"),
        areas,
        consistency,
        events: EVENTS,
        epoch: EPOCH,
        staging_epoch: STAGING_EPOCH,
        staging_thin: Set::EMPTY,
        volume: None,
        clean: true,
        policy: None,
        volatile: VolatileWrites::default(),
        lease: None,
        slots: (0..members).map(slot).collect(),
        labels: vec![DeviceLabel::NONE; members],
        spares: Vec::new(),
        reshape: None,
        spared: None,
        successor: None,
        filled: None,
        scrub: None,
    }
}

/// The record of an array with a distributed spare.
pub(crate) fn distributed_record(level: Level, members: usize) -> ArrayRecord {
    let new = NewArray {
        array: ARRAY,
        name: "tank".into(),
        created: 40,
        level,
        placement: Placement::of(level),
        chunk: CHUNK,
        consistency: Consistency::Journal,
        devices: (0..members).map(of_slot).collect(),
        journal_blocks: JOURNAL_BLOCKS,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: true,
        member_blocks: vec![4000; members],
    };
    new.record().expect("there is room")
}

/// The same with so many staging devices, of `ring` blocks each.
pub(crate) fn with_staging_devices(record: ArrayRecord, devices: usize, ring: u64) -> ArrayRecord {
    let mut record = record;
    record.features.incompatible |= Features::STAGING_DEVICES;
    record.areas = record.areas.with_staging_devices(ring).expect("there is a log");
    let places = record.slots.len()..record.slots.len() + devices;
    let slot = |place| SlotRecord::up(of_slot(place), 50);
    record.slots.extend(places.map(slot));
    record.labels.resize(record.slots.len(), DeviceLabel::NONE);
    record
}

impl World {
    /// A clean array, everything up, both slots of the maps' pages written.
    pub(crate) fn new(level: Level, members: usize, consistency: Consistency) -> Self {
        Self::of(record(level, members, consistency))
    }

    pub(crate) fn of(record: ArrayRecord) -> Self {
        let mut world = Self { images: Vec::new(), record };
        for slot in 0..world.record.slots.len() {
            let device = world.record.slots[slot].device;
            world.add_image(device);
        }
        for kind in [MapKind::Bitmap, MapKind::ZeroMap] {
            for version in [1, 2] {
                let map = world.map(kind, &[]);
                world.store_map(.., kind, version, &map);
            }
        }
        world
    }

    /// An image with nothing but superblocks.
    pub(crate) fn add_image(&mut self, device: DeviceUuid) -> usize {
        let place = self.record.member_of(device).unwrap_or(MemberId(0));
        let meta = self.record.meta_blocks_of(place) as usize * BLOCK_BYTES;
        self.images.push(MemberImage {
            label: format!("disk{}", self.images.len()),
            blocks: self.record.blocks_of(place),
            meta: vec![0; meta],
            unreadable: Vec::new(),
        });
        let image = self.images.len() - 1;
        self.store_record(image, device, &self.record.clone());
        image
    }

    pub(crate) fn store_record(&mut self, image: usize, device: DeviceUuid, record: &ArrayRecord) {
        let block = superblock(record, device);
        for at in SUPERBLOCKS {
            put(&mut self.images[image], at, &block);
        }
    }

    /// Every member gets the record as it is now.
    pub(crate) fn store_records(&mut self) {
        for slot in 0..self.record.slots.len() {
            let device = self.record.slots[slot].device;
            self.store_record(slot, device, &self.record.clone());
        }
    }

    pub(crate) fn map(&self, kind: MapKind, bits: &[u64]) -> BitMap {
        let mut map = self.record.areas.map(kind);
        for &bit in bits {
            map.set(bit);
        }
        map
    }

    /// Stores page 0 of a map on some members.
    pub(crate) fn store_map(
        &mut self,
        images: impl std::slice::SliceIndex<[MemberImage], Output = [MemberImage]>,
        kind: MapKind,
        version: u64,
        map: &BitMap,
    ) {
        self.store_page(images, kind, 0, version, map);
    }

    /// Stores a page of a map on some members.
    pub(crate) fn store_page(
        &mut self,
        images: impl std::slice::SliceIndex<[MemberImage], Output = [MemberImage]>,
        kind: MapKind,
        index: u32,
        version: u64,
        map: &BitMap,
    ) {
        let at = self.record.areas.map_page(kind, index, version);
        let mut block = [0; BLOCK_BYTES];
        map.encode_page(self.record.array, index, version, &mut block);
        for image in &mut self.images[images] {
            put(image, at, &block);
        }
    }

    /// Stores a bitmap with these bits on all members, as the latest version.
    pub(crate) fn mark(&mut self, bits: &[u64]) {
        let map = self.map(MapKind::Bitmap, bits);
        self.store_map(.., MapKind::Bitmap, 3, &map);
    }

    /// Writes an entry into a member's ring; returns the block after it.
    pub(crate) fn store_entry(&mut self, member: usize, at: u64, entry: &Entry) -> u64 {
        let bytes = entry.encode(member, at);
        let start = self.record.areas.journal().0.0 + at;
        put(&mut self.images[member], Pba(start), &bytes);
        at + (bytes.len() / BLOCK_BYTES) as u64
    }

    pub(crate) fn assemble(&self, options: AssembleOptions) -> Result<Assembled, AssembleError> {
        self.assemble_without(Set::EMPTY, options)
    }

    /// Assembles without some of the images.
    pub(crate) fn assemble_without(
        &self,
        gone: Set<MemberId>,
        options: AssembleOptions,
    ) -> Result<Assembled, AssembleError> {
        let images: Vec<_> = (0..self.images.len())
            .filter(|&image| !gone.has(MemberId::at(image)))
            .map(|image| self.images[image].clone())
            .collect();
        let found = assemble(&images, options);
        let sieved: Vec<_> = images.into_iter().map(|image| self.sieved(image)).collect();
        assert_eq!(assemble(&sieved, options), found, "what is left of a staging log is enough");
        found
    }

    /// The same image, sieved.
    fn sieved(&self, mut image: MemberImage) -> SievedImage {
        let (start, blocks) = self.record.areas.staging();
        let mut ring = StagedRing::new(start);
        let from = start.0 as usize * BLOCK_BYTES;
        if blocks > 0 && image.meta.len() > from {
            let bytes = image.meta.split_off(from);
            for (block, at) in bytes.as_chunks::<BLOCK_BYTES>().0.iter().zip(start.0..) {
                ring.push((!image.unreadable.contains(&Pba(at))).then_some(block));
            }
        }
        SievedImage { image, ring }
    }
}

/// An entry as a test wants it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) entry: u64,
    pub(crate) tail: u64,
    pub(crate) epoch: u64,
    pub(crate) holders: Set<MemberId>,
    pub(crate) stripe: u64,
    /// Member, row, blocks.
    pub(crate) runs: Vec<(u8, u32, u32)>,
    /// What the payload is filled with.
    pub(crate) fill: u8,
    /// The member that it leaves out, if it is partial.
    pub(crate) left_out: Option<u8>,
}

impl Entry {
    pub(crate) fn new(entry: u64, holders: Set<MemberId>) -> Self {
        Self {
            entry,
            tail: 1,
            epoch: EPOCH,
            holders,
            // A stripe of its own, so that no entry overwrites another.
            stripe: entry % 64,
            runs: vec![(0, 1, 2), (2, 1, 2)],
            fill: entry as u8,
            left_out: None,
        }
    }

    /// Only tells the tail.
    pub(crate) fn tail_record(entry: u64, tail: u64, member: usize) -> Self {
        Self { tail, runs: Vec::new(), ..Self::new(entry, Set::one(MemberId::at(member))) }
    }

    pub(crate) fn runs(&self) -> Vec<JournalRun> {
        let run = |&(member, row, blocks)| JournalRun { member: MemberId(member), row, blocks };
        self.runs.iter().map(run).collect()
    }

    pub(crate) fn payload_blocks(&self) -> u32 {
        self.runs.iter().map(|run| run.2).sum()
    }

    pub(crate) fn header_blocks(&self) -> u32 {
        journal_header_blocks(self.payload_blocks(), self.runs.len() as u32)
    }

    pub(crate) fn encode(&self, member: usize, at: u64) -> Vec<u8> {
        let header = JournalHeader {
            log: Log::Journal,
            open: JournalHeader::open_of(self.left_out.map(MemberId)),
            array: ARRAY,
            epoch: self.epoch,
            entry: self.entry,
            tail: self.tail,
            member: MemberId::at(member),
            at,
            holders: self.holders,
            stripe: Stripe(self.stripe),
        };
        let payload = vec![self.fill; self.payload_blocks() as usize * BLOCK_BYTES];
        let mut bytes = vec![0; self.header_blocks() as usize * BLOCK_BYTES];
        let crcs = payload.chunks_exact(BLOCK_BYTES).map(checksum);
        encode_journal_header(&header, self.runs().into_iter(), crcs, &mut bytes);
        bytes.extend(payload);
        bytes
    }
}

/// An entry of the staging log as a test wants it.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    pub(crate) number: u64,
    pub(crate) tail: u64,
    pub(crate) open: u32,
    pub(crate) epoch: u64,
    pub(crate) stripe: u64,
    /// Member, row, blocks.
    pub(crate) runs: Vec<(u8, u32, u32)>,
    /// It has no payload: home holds the blocks.
    pub(crate) marker: bool,
}

impl Staged {
    pub(crate) fn new(number: u64, runs: &[(u8, u32, u32)]) -> Self {
        let runs = runs.to_vec();
        Self { number, tail: 1, open: 0, epoch: STAGING_EPOCH, stripe: 3, runs, marker: false }
    }

    pub(crate) fn store(&self, world: &mut World, members: &[usize], at: u64) {
        let blocks: u32 = self.runs.iter().map(|run| run.2).sum();
        let payload = if self.marker { 0 } else { blocks };
        let bytes = vec![self.number as u8; payload as usize * BLOCK_BYTES];
        for &member in members {
            let header = JournalHeader {
                log: Log::Staging,
                array: ARRAY,
                epoch: self.epoch,
                entry: self.number,
                tail: self.tail,
                open: self.open,
                member: MemberId::at(member),
                at,
                holders: members.iter().map(|&member| MemberId::at(member)).collect(),
                stripe: Stripe(self.stripe),
            };
            let run = |&(member, row, blocks): &(u8, u32, u32)| JournalRun {
                member: MemberId(member),
                row,
                blocks,
            };
            let headers = journal_header_blocks(payload, self.runs.len() as u32);
            let mut entry = vec![0; headers as usize * BLOCK_BYTES];
            let crcs = bytes.chunks_exact(BLOCK_BYTES).map(checksum);
            encode_journal_header(&header, self.runs.iter().map(run), crcs, &mut entry);
            entry.extend(&bytes);
            let start = world.record.areas.staging().0.0 + at;
            put(&mut world.images[member], Pba(start), &entry);
        }
    }
}

pub(crate) fn superblock(record: &ArrayRecord, device: DeviceUuid) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    record.encode(device, &mut block);
    block
}

pub(crate) fn put(image: &mut MemberImage, at: Pba, bytes: &[u8]) {
    let start = at.0 as usize * BLOCK_BYTES;
    image.meta[start..start + bytes.len()].copy_from_slice(bytes);
}

pub(crate) fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Makes the checksum right again after a field was changed.
pub(crate) fn reseal(block: &mut [u8]) {
    block[12..16].fill(0);
    let sum = checksum(block);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
}

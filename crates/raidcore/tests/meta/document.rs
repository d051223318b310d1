//! `docs/on-disk-format.md` is right: blocks that are built by hand from its tables equal those
//! that the code writes.

use std::time::Duration;

use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    ArrayRecord, AssembleOptions, CodecError, Consistency, DeviceLabel, Features, Holder, HostName,
    JournalHeader, LEASE_BLOCK, LeaseBlock, Log, MapKind, NoLease, Policy, PolicyName, ScrubEnd,
    ScrubRecord, SlotState, Spared, Successor, Superblock, Term, VolumePart, VolumeUuid,
    scan_journal,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba, Set, Stripe};

use crate::world::{
    ARRAY, EPOCH, EVENTS, Entry, World, device, distributed_record, of_slot, put, staged_record,
    superblock, with_staging_devices,
};

const DOCUMENT: &str = include_str!("../../../../docs/on-disk-format.md");

/// A table of the document.
struct Table(Vec<(usize, usize, &'static str)>);

impl Table {
    /// The table under a heading; each field has to begin where the one before it ends.
    fn of(heading: &str) -> Self {
        let heading = format!("\n### {heading}\n");
        let (_, section) = DOCUMENT.split_once(&heading).expect("there is such a heading");
        let (section, _) = section.split_once("\n#").expect("it is not the last one");
        let mut rows = Vec::new();
        for line in section.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let (Ok(at), Ok(bytes)) = (cells[1].parse(), cells[2].parse()) else {
                continue;
            };
            rows.push((at, bytes, cells[3]));
        }
        let mut end = 0;
        for &(at, bytes, field) in &rows {
            assert_eq!(at, end, "{heading}{field} leaves a gap or overlaps");
            end = at + bytes;
        }
        Self(rows)
    }

    fn bytes(&self) -> usize {
        self.0.last().map_or(0, |&(at, bytes, _)| at + bytes)
    }

    fn field<'a>(&self, block: &'a mut [u8], name: &str) -> &'a mut [u8] {
        let found = self.0.iter().find(|row| row.2 == name);
        let &(at, bytes, _) = found.unwrap_or_else(|| panic!("no field `{name}`"));
        &mut block[at..at + bytes]
    }

    fn number(&self, block: &mut [u8], name: &str, value: u64) {
        let field = self.field(block, name);
        let bytes = value.to_le_bytes();
        let (low, high) = bytes.split_at(field.len());
        assert!(high.iter().all(|&byte| byte == 0), "{name} is too small for {value}");
        field.copy_from_slice(low);
    }
}

/// CRC-32C bit by bit, straight from the definition.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

/// Seals a superblock that was changed by hand.
fn seal_anew(block: &mut [u8]) {
    Table::of("Prefix").number(block, "checksum", 0);
    seal(block, b"Evenkeel");
}

fn seal(block: &mut [u8], magic: &[u8; 8]) {
    let prefix = Table::of("Prefix");
    prefix.field(block, "magic").copy_from_slice(magic);
    prefix.number(block, "format", 1);
    prefix.field(block, "array").copy_from_slice(&ARRAY.0);
    let sum = crc32c(block);
    prefix.number(block, "checksum", u64::from(sum));
}

#[test]
fn a_distributed_spare_by_the_book() {
    let mut record = distributed_record(Level::Raid6, 6);
    record.slots[2].state = SlotState::Failed;
    record.spared = Some(Spared { member: MemberId(2), watermark: 30 });
    let (areas, stripes) = (&record.areas, record.geometry.stripes());
    // Three copies of each chunk of four blocks, on the five others.
    let spare = (3 * stripes).div_ceil(5) * 4;
    let start = areas.meta_blocks() + 4 * stripes;
    let (table, mut block) = (Table::of("Superblock"), superblock(&record, device(1)));
    for (name, value) in [
        ("incompatible", 8 + 64),
        ("member blocks", start + spare),
        ("spared", 1),
        ("spared member", 2),
        ("spared watermark", 30),
    ] {
        let mut before = block;
        table.number(&mut block, name, value);
        assert_eq!(table.field(&mut before, name), table.field(&mut block, name), "{name}");
    }
    // Copy 2 of stripe 8 is number 26: the members in turn are 0, 1, 3, 4 and 5.
    let place = areas.on_distributed_spare(&record.layout(), MemberId(2), Stripe(8), 2);
    assert_eq!(place, (MemberId(1), Pba(start + 26 / 5 * 4)));
}

/// A record with everything but the distributed spare.
fn full_record() -> ArrayRecord {
    let record = staged_record(Level::Raid6, 5, Consistency::Journal, 128);
    let mut record = with_staging_devices(record, 1, 300);
    record.clean = false;
    record.geometry = record.geometry.placed(Placement::RightSymmetric).expect("RAID6 can have it");
    record.features.incompatible |= Features::PLACEMENT;
    record.features.compatible = 9;
    record.staging_thin = Set::one(MemberId(5));
    record.staging_epoch = 5;
    let name = PolicyName::new("rotate").expect("it is printable");
    record.policy = Some(Policy { name, since: 60 });
    record.slots[3].state = SlotState::Rebuilding { watermark: 77 };
    record.slots[3].catches_up = true;
    record.slots[4].state = SlotState::Failed;
    record.slots[4].left = Some(88);
    record.spares = vec![device(70), device(71)];
    record.scrub = Some(ScrubRecord { end: ScrubEnd::CutShort, at: 70, rows: 12, located: 11 });
    record.set_label(MemberId(4), DeviceLabel::new("/dev/disk/by-id/nvme-a", "S5GX"));
    record.successor = Some(Successor { member: MemberId(1), device: device(71), watermark: 66 });
    let volume = VolumeUuid([90; 16]);
    let record =
        record.in_volume(VolumePart { volume, group: 1, groups: 3, segment: 256, blocks: 1000 });
    record.with_maps_of(1, 1 << 12).expect("it is possible")
}

#[test]
fn a_superblock_by_the_book() {
    let record = full_record();
    let [table, slot_table, label_table] = ["Superblock", "Slot", "Label"].map(Table::of);
    assert_eq!((table.bytes(), slot_table.bytes(), label_table.bytes()), (BLOCK_BYTES, 40, 128));
    let mut block = [0; BLOCK_BYTES];
    table.field(&mut block, "device").copy_from_slice(&of_slot(3).0);
    table.field(&mut block, "successor").copy_from_slice(&device(71).0);
    let (areas, stripes) = (&record.areas, record.geometry.stripes());
    let (journal_start, journal_blocks) = areas.journal();
    for (name, value) in [
        ("compatible", 9),
        ("successor watermark", 66),
        ("succeeds", 1),
        ("succeeded", 1),
        ("catching up", 1 << 3),
        ("read-only", 0),
        ("incompatible", 55),
        ("events", EVENTS),
        ("epoch", EPOCH),
        ("created", 40),
        ("level", 6),
        ("consistency", 3),
        ("clean", 0),
        ("members", 5),
        ("chunk", 4),
        ("stripes", stripes),
        ("region stripes", areas.region_stripes()),
        ("bitmap start", 256),
        ("zero map start", 258),
        ("bitmap pages", 1),
        ("zero map pages", 1),
        ("journal start", journal_start.0),
        ("journal blocks", journal_blocks),
        ("data start", areas.meta_blocks()),
        ("member blocks", areas.meta_blocks() + 4 * stripes),
        ("name length", 4),
        ("spares", 2),
        ("page bits", 1 << 12),
        ("staging start", journal_start.0 + journal_blocks),
        ("staging blocks", 128),
        ("staging epoch", 5),
        ("policy length", 6),
        ("policy since", 60),
        ("thin", 1 << 5),
        ("device ring", 300),
        ("staging devices", 1),
        ("placement", 3),
        ("volume blocks", 1000),
        ("volume segment", 256),
        ("volume group", 1),
        ("volume groups", 3),
        ("scrub end", 3),
        ("scrub at", 70),
        ("scrub rows", 12),
        ("scrub located", 11),
    ] {
        table.number(&mut block, name, value);
    }
    table.field(&mut block, "volume").fill(90);
    table.field(&mut block, "name")[..4].copy_from_slice(b"tank");
    table.field(&mut block, "policy")[..6].copy_from_slice(b"rotate");
    let slots = table.field(&mut block, "slot table");
    for (slot, bytes) in slots.chunks_exact_mut(40).take(6).enumerate() {
        slot_table.field(bytes, "device").copy_from_slice(&of_slot(slot).0);
        let (state, watermark) = [(1, 0), (1, 0), (1, 0), (2, 77), (3, 88), (1, 0)][slot];
        slot_table.number(bytes, "state", state);
        slot_table.number(bytes, "watermark", watermark);
        slot_table.number(bytes, "since", 50);
    }
    let entries = table.field(&mut block, "label table");
    let label = entries.chunks_exact_mut(128).nth(4).expect("an entry");
    label_table.number(label, "serial length", 4);
    label_table.number(label, "path length", 22);
    label_table.field(label, "texts")[..26].copy_from_slice(b"S5GX/dev/disk/by-id/nvme-a");
    let spares = table.field(&mut block, "spare table");
    spares[..32].copy_from_slice(&[[70; 16], [71; 16]].concat());
    seal(&mut block, b"Evenkeel");
    assert_eq!(block, superblock(&record, of_slot(3)));
    assert_eq!(Superblock::decode(&block).map(|s| s.record), Ok(record));
}

#[test]
fn a_map_page_by_the_book() {
    let world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    for (kind, number) in [(MapKind::Bitmap, 1), (MapKind::ZeroMap, 2), (MapKind::Missed, 3)] {
        let map = world.map(kind, &[0, 9, 100]);
        let table = Table::of("Map page");
        assert_eq!(table.bytes(), BLOCK_BYTES);
        let mut block = [0; BLOCK_BYTES];
        for (name, value) in [("kind", number), ("index", 0), ("version", 5), ("length", map.len())]
        {
            table.number(&mut block, name, value);
        }
        let bits = table.field(&mut block, "bits");
        for bit in [0, 9, 100] {
            bits[bit / 8] |= 1 << (bit % 8);
        }
        seal(&mut block, b"EKmap\r\n\x1a");
        let mut written = [0; BLOCK_BYTES];
        map.encode_page(ARRAY, 0, 5, &mut written);
        assert_eq!(block, written);
    }
}

#[test]
fn a_journal_entry_by_the_book() {
    let entry =
        Entry { tail: 40, stripe: 3, ..Entry::new(42, Set::one(MemberId(1)).with(MemberId(2))) };
    let (table, run_table) = (Table::of("Journal header"), Table::of("Run"));
    let mut bytes = vec![0; BLOCK_BYTES];
    for (name, value) in [
        ("epoch", EPOCH),
        ("entry", 42),
        ("tail", 40),
        ("stripe", 3),
        ("holders", 0b110),
        ("at", 17),
        ("member", 2),
        ("runs", 2),
        ("payload", 4),
    ] {
        table.number(&mut bytes, name, value);
    }
    let mut at = table.bytes();
    for (member, row, blocks) in [(0, 1, 2), (2, 1, 2)] {
        let run = &mut bytes[at..at + run_table.bytes()];
        run_table.number(run, "member", member);
        run_table.number(run, "row", row);
        run_table.number(run, "blocks", blocks);
        at += run_table.bytes();
    }
    let payload = [42; BLOCK_BYTES];
    for _ in 0..4 {
        bytes[at..at + 4].copy_from_slice(&crc32c(&payload).to_le_bytes());
        at += 4;
    }
    seal(&mut bytes, b"EKjnl\r\n\x1a");
    bytes.extend(payload.repeat(4));
    assert!(bytes == entry.encode(2, 17), "another header or payload");
}

#[test]
fn entries_that_share_a_header_by_the_book() {
    let [table, part_table, run_table] = ["Journal header", "Shared entry", "Run"].map(Table::of);
    let mut bytes = vec![0; BLOCK_BYTES];
    let fields = [("epoch", EPOCH), ("entry", 42), ("tail", 40), ("stripe", 2), ("holders", 6)];
    let more = [("at", 3), ("member", 2), ("runs", 3), ("payload", 4), ("open", 1)];
    for (name, value) in fields.into_iter().chain(more) {
        table.number(&mut bytes, name, value);
    }
    let mut at = table.bytes();
    let mut next = |table: &Table, fields: &[(&str, u64)]| {
        let place = &mut bytes[at..at + table.bytes()];
        fields.iter().for_each(|&(name, value)| table.number(place, name, value));
        at += table.bytes();
    };
    next(&part_table, &[("stripe", 7), ("runs", 1)]);
    next(&part_table, &[("stripe", 9), ("runs", 2)]);
    let runs = [(0, 1, 2), (2, 1, 1), (1, 0, 1)];
    for (member, row, blocks) in runs {
        next(&run_table, &[("member", member), ("row", row), ("blocks", blocks)]);
    }
    let payload: Vec<_> = (1..5).map(|fill| [fill; BLOCK_BYTES]).collect();
    for (sum, block) in bytes[at..].chunks_exact_mut(4).zip(&payload) {
        sum.copy_from_slice(&crc32c(block).to_le_bytes());
    }
    seal(&mut bytes, b"EKshr\r\n\x1a");
    bytes.extend(payload.concat());
    // Behind blocks that are none.
    let ring = [vec![0; 3 * BLOCK_BYTES], bytes].concat();
    let found = scan_journal(Log::Staging, 8, &ring[..], ARRAY, EPOCH, MemberId(2));
    let told: Vec<_> = found
        .iter()
        .map(|entry| {
            let JournalHeader { entry: number, tail, open, stripe, .. } = entry.header;
            ((number, tail, open, stripe.0), entry.runs.len(), entry.payload_at)
        })
        .collect();
    assert_eq!(told, [((42, 40, 1, 7), 1, 4), ((43, 40, 2, 9), 2, 6)]);
    assert_eq!(found[1].crcs, [crc32c(&payload[2]), crc32c(&payload[3])]);
    assert!(scan_journal(Log::Journal, 8, &ring[..], ARRAY, EPOCH, MemberId(2)).is_empty());
    assert!(scan_journal(Log::Staging, 7, &ring[..], ARRAY, EPOCH, MemberId(2)).is_empty());
}

#[test]
fn a_lease_by_the_book() {
    let record = World::new(Level::Raid5, 3, Consistency::Journal).record;
    let (table, mut without) = (Table::of("Superblock"), superblock(&record, device(1)));
    let mut leased = record.clone();
    let term = Term::new(Duration::from_millis(1500)).expect("it is one");
    assert_eq!(leased.set_lease(Some(term)), Ok(()));
    let mut block = superblock(&leased, device(1));
    for (name, value) in [("incompatible", 1 << 13), ("lease term", 1500)] {
        let mut by_hand = block;
        table.number(&mut by_hand, name, value);
        assert_eq!(table.field(&mut by_hand, name), table.field(&mut block, name), "{name}");
    }
    assert_eq!(Superblock::decode(&block).map(|found| found.record), Ok(leased.clone()));
    // Without the bit the field is reserved, and with it, it has to be a term.
    table.number(&mut without, "lease term", 7);
    seal_anew(&mut without);
    assert_eq!(Superblock::decode(&without).map(|found| found.record), Ok(record));
    table.number(&mut block, "lease term", 999);
    seal_anew(&mut block);
    assert_eq!(Superblock::decode(&block), Err(CodecError::Invalid("lease term")));
    assert_eq!(leased.set_lease(None), Ok(()));
    assert_eq!((leased.lease, leased.features.incompatible), (None, 0));
}

#[test]
fn a_lease_block_by_the_book() {
    let table = Table::of("Lease block");
    assert_eq!((table.bytes(), LEASE_BLOCK), (BLOCK_BYTES, Pba(67)));
    let mut block = [0; BLOCK_BYTES];
    for (name, value) in [
        ("generation", 7),
        ("counter", 9),
        ("begun", 55),
        ("record", 66),
        ("term", 1500),
        ("voters", 0b111),
        ("held", 1),
        ("name length", 3),
    ] {
        table.number(&mut block, name, value);
    }
    for (name, byte) in [("host", 1), ("boot", 2), ("instance", 3)] {
        table.field(&mut block, name).fill(byte);
    }
    table.field(&mut block, "name")[..3].copy_from_slice(b"one");
    seal(&mut block, b"EKlease\n");
    let holder =
        Holder { host: [1; 16], boot: [2; 16], instance: [3; 16], name: HostName::new("one") };
    let term = Term::new(Duration::from_millis(1500)).expect("it is one");
    let (voters, held) = (Set::first(3), true);
    let lease =
        LeaseBlock { generation: 7, counter: 9, holder, begun: 55, term, voters, events: 66, held };
    let mut written = [0xff; BLOCK_BYTES];
    lease.encode(ARRAY, &mut written);
    assert_eq!(block, written);
    assert_eq!(LeaseBlock::decode(ARRAY, &block), Ok(Some(lease)));
}

#[test]
fn arrays_for_which_the_rules_of_a_lease_do_not_hold_have_none() {
    let term = Term::new(Duration::from_secs(20));
    let mut spared = distributed_record(Level::Raid6, 6);
    assert_eq!(spared.set_lease(term), Err(NoLease::DistributedSpare));
    let plain = World::new(Level::Raid5, 3, Consistency::Journal).record;
    let volume = VolumeUuid([90; 16]);
    let part = VolumePart { volume, group: 1, groups: 3, segment: 256, blocks: 1000 };
    assert_eq!(plain.in_volume(part).set_lease(term), Err(NoLease::LogVolume));
    assert_eq!((spared.lease, spared.set_lease(None)), (None, Ok(())));
    let mirror = |members| World::new(Level::Raid1, members, Consistency::Bitmap).record;
    assert_eq!(mirror(2).set_lease(term), Err(NoLease::MirrorOfTwo));
    assert_eq!((mirror(2).set_lease(None), mirror(3).set_lease(term)), (Ok(()), Ok(())));
}

#[test]
fn what_users_ask_for_by_the_book() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    let stripes = world.record.geometry.stripes();
    let table = Table::of("What users ask for");
    assert_eq!(table.bytes(), BLOCK_BYTES);
    let block = |events, stripes| {
        let mut block = [0; BLOCK_BYTES];
        for (name, value) in [("events", events), ("stripes", stripes), ("shift", 3)] {
            table.number(&mut block, name, value);
        }
        let counts = table.field(&mut block, "counts");
        counts[..4].copy_from_slice(&[5, 0, 1, 2]);
        counts[8] = events as u8;
        seal(&mut block, b"EKpop\r\n\x1a");
        block
    };
    let popularity =
        |world: &World| world.assemble(AssembleOptions::default()).expect("it starts").popularity;
    assert_eq!(popularity(&world), []);
    put(&mut world.images[0], Pba(65), &block(4, stripes));
    put(&mut world.images[1], Pba(65), &block(7, stripes));
    put(&mut world.images[2], Pba(65), &block(9, stripes + 1));
    let found = popularity(&world);
    assert_eq!((found.len() as u64, &found[..5]), (stripes.min(1024), &[40, 4104, 0, 0, 56][..]));
    world.images[1].unreadable.push(Pba(65));
    assert_eq!(popularity(&world)[4], 32);
}

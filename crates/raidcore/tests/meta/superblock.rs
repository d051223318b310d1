//! The superblock: what is decoded, what is refused, which copy counts.

use proptest::prelude::*;
use raidcore::geometry::{Geometry, GeometryError, Level, Placement, Role, Shares, SharesError};
use raidcore::meta::{
    ArrayId, ArrayRecord, Assembled, CodecError, Consistency, DeviceLabel, DeviceUuid, Features,
    JOURNAL_BLOCKS, NewArray, Policy, PolicyName, Reshape, SPARES_MAX, SUPERBLOCK_COPIES, ScrubEnd,
    ScrubRecord, SlotState, Spared, Successor, Superblock, SuperblockError, VolatileWrites,
    VolumePart, VolumeUuid, choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Set, Stripe};

use crate::world::{device, distributed_record, flip, of_slot, record, reseal, superblock};

type Block = [u8; BLOCK_BYTES];

fn any_level() -> impl Strategy<Value = Level> {
    prop::sample::select(&Level::ALL[..])
}

fn any_consistency() -> impl Strategy<Value = Consistency> {
    prop_oneof![Just(Consistency::Resync), Just(Consistency::Bitmap), Just(Consistency::Journal)]
}

/// One of a level's placements, for so many members, at least four.
fn any_placement(level: Level, members: usize, which: u64) -> Placement {
    let mut percent = vec![0; members];
    percent[..3].copy_from_slice(&[50, 30, 20]);
    let uneven = Placement::Uneven(Shares::new(&percent).expect("they are all"));
    let all = Placement::all().chain([uneven]);
    let fitting: Vec<_> = all.filter(|placement| placement.fits(level)).collect();
    fitting[which as usize % fitting.len()]
}

fn any_state(number: u8, watermark: u64) -> SlotState {
    match number {
        0 => SlotState::Up,
        1 => SlotState::Rebuilding { watermark },
        _ => SlotState::Failed,
    }
}

prop_compose! {
    fn any_record()(
        level in any_level(),
        members in 4usize..=32,
        chunk in 0u32..=8,
        consistency in any_consistency(),
        blocks in 1u64 << 18..1 << 40,
        name in "[A-Za-z0-9][A-Za-z0-9_.-]{0,62}",
        numbers in (any::<u64>(), 0u64..=1 << 62, 0u64..=1 << 62, any::<u64>()),
        clean: bool,
        states in prop::collection::vec((0u8..3, any::<u64>(), any::<u64>()), 32),
        staging in (prop_oneof![Just(0u64), 64u64..=1 << 17], 0usize..=3),
        spares in 0usize..=SPARES_MAX,
        array: [u8; 16],
        policy in prop::option::of(("[!-~]{1,31}", any::<u64>())),
        volume in prop::option::of((any::<[u8; 16]>(), 0u8..16, 1u8..=16, 1u32..=1 << 14, 1u64..)),
        distributed in prop::option::of((any::<u8>(), any::<u64>())),
        labels in prop::collection::vec(("[ -~]{0,140}", "[ -~]{0,40}"), 32),
        scrub in prop::option::of((0u8..3, any::<u64>(), any::<u64>(), any::<u64>())),
    ) -> ArrayRecord {
        let parity = !matches!(level, Level::Raid0 | Level::Raid1 | Level::Raid10) && 2 * members + 2 <= 64;
        let (staging_blocks, devices) = if parity { staging } else { (0, 0) };
        let members = if level == Level::Raid10 { members & !1 } else { members };
        let devices = if staging_blocks > 0 { devices.min(32 - members) } else { 0 };
        let new = NewArray {
            array: ArrayId(array),
            name,
            created: numbers.0,
            level,
            placement: any_placement(level, members, numbers.0),
            chunk: 1 << chunk,
            consistency,
            devices: (0..members).map(of_slot).collect(),
            journal_blocks: JOURNAL_BLOCKS,
            staging_blocks,
            staging_devices: (members..members + devices).map(of_slot).collect(),
            staging_device_blocks: if devices > 0 { 2 * staging_blocks } else { 0 },
            distributed_spare: parity && distributed.is_some(),
            member_blocks: vec![blocks; members],
        };
        let mut record = new.record().expect("there is room");
        (record.events, record.epoch, record.features.compatible) = (numbers.1, numbers.2, numbers.3);
        (record.clean, record.staging_thin) = (clean, Set::from_bits(if devices > 0 { numbers.3 } else { 0 }));
        record.policy = policy.map(|(name, since)| Policy {
            name: PolicyName::new(&name).expect("it is printable"),
            since,
        });
        let stripes = record.geometry.stripes();
        for (slot, &(state, mark, since)) in record.slots.iter_mut().zip(&states) {
            (slot.state, slot.since) = (any_state(state, mark % (stripes + 1)), since);
        }
        let failed = |m: &usize| record.slots[*m].state != SlotState::Up;
        record.spared = distributed.and_then(|(at, mark)| {
            let member = (0..members).map(|m| (m + usize::from(at)) % members).find(failed)?;
            let spared = Spared { member: MemberId::at(member), watermark: mark % (stripes + 1) };
            record.areas.has_distributed_spare().then_some(spared)
        });
        for (place, (path, serial)) in (0..record.slots.len() as u8).zip(&labels) {
            record.set_label(MemberId(place), DeviceLabel::new(path, serial));
        }
        let ends = [ScrubEnd::Compared, ScrubEnd::Repaired, ScrubEnd::CutShort];
        record.scrub = scrub.map(|(end, at, rows, located)| ScrubRecord {
            end: ends[usize::from(end)],
            at,
            rows,
            located: located.min(rows),
        });
        record.spares = (0..spares).map(|spare| device(100 + spare as u8)).collect();
        let up = |m: &usize| record.slots[*m].state == SlotState::Up;
        let successor = (0..members).find(up).zip(record.spares.last());
        record.successor = successor.filter(|_| clean && record.spared.is_none()).map(
            |(member, &device)| Successor {
                member: MemberId::at(member),
                device,
                watermark: numbers.3 % (stripes + 1),
            },
        );
        let Some((volume, group, more, segment, blocks)) = volume else { return record };
        let volume = VolumeUuid(volume);
        record.in_volume(VolumePart { volume, group, groups: group + more, segment, blocks })
    }
}

proptest! {
    #[test]
    fn every_record_comes_back(record in any_record(), device: [u8; 16]) {
        let device = DeviceUuid(device);
        let back = Superblock::decode(&superblock(&record, device));
        prop_assert_eq!(back, Ok(Superblock { record, device }));
    }

    /// An accepted block is within bounds, and encodes to the same bytes.
    #[test]
    fn a_forged_block_is_refused_or_bounded(
        record in any_record(),
        forgeries in prop::collection::vec((32usize..4096, any::<u8>()), 1..6),
    ) {
        let mut block = superblock(&record, device(1));
        for (at, byte) in forgeries {
            block[at] = byte;
        }
        reseal(&mut block);
        if let Ok(found) = Superblock::decode(&block) {
            let (areas, geometry) = (&found.record.areas, &found.record.geometry);
            prop_assert!(areas.meta_blocks() < areas.member_blocks());
            let bits = areas.stripes();
            prop_assert!(areas.meta_blocks() <= bits / 16_128 + (1 << 18) + (1 << 13));
            prop_assert!(areas.regions() <= 1 << 16);
            prop_assert!((geometry.members()..=32).contains(&found.record.slots.len()));
            let again = superblock(&found.record, found.device);
            prop_assert_eq!(Superblock::decode(&again), Ok(found));
        }
    }

    #[test]
    fn noise_is_refused(mut block in prop::collection::vec(any::<u8>(), BLOCK_BYTES)) {
        prop_assert!(Superblock::decode(&block).is_err());
        block[..8].copy_from_slice(b"Evenkeel");
        block[8..12].copy_from_slice(&1u32.to_le_bytes());
        reseal(&mut block);
        // Intact noise is never an array with a random shape.
        prop_assert!(Superblock::decode(&block).is_err());
    }
}

#[test]
fn every_bit_flip_is_refused() {
    let record = record(Level::Raid6, 6, Consistency::Journal);
    let mut block = superblock(&record, device(1));
    for bit in 0..BLOCK_BYTES * 8 {
        flip(&mut block, bit);
        assert!(Superblock::decode(&block).is_err(), "bit {bit}");
        flip(&mut block, bit);
    }
    assert!(Superblock::decode(&block).is_ok());
}

/// Intact blocks with impossible values: offset, bytes, and the error.
#[test]
fn impossible_values_are_refused() {
    let record = record(Level::Raid5, 3, Consistency::Journal);
    let areas = &record.areas;
    let number = |value: u64| value.to_le_bytes().to_vec();
    // Data start and member blocks, further back.
    let shifted = |by: u64| {
        [areas.data_start().0, areas.member_blocks()].map(|old| number(old + by + (1 << 13)))
    };
    let cases: Vec<(usize, Vec<u8>, &str)> = vec![
        (72, number(u64::MAX), "event count"),
        (80, number(u64::MAX), "epoch"),
        (96, vec![7], "level"),
        (97, vec![0], "consistency"),
        (98, vec![2], "clean"),
        (99, vec![2], "too few members"),
        (99, vec![33], "too many members"),
        (100, 3u32.to_le_bytes().to_vec(), "chunk not a power of two"),
        (100, 512u32.to_le_bytes().to_vec(), "chunk too large"),
        (104, number(0), "no stripes"),
        (104, number(record.geometry.stripes() + 1), "more stripes than fit"),
        (104, number(u64::MAX), "too many stripes"),
        (112, number(3), "region not a power of two"),
        (112, number(0), "empty regions"),
        (120, number(192), "bitmap over the superblocks"),
        (128, number(257), "zero map over the bitmap"),
        (136, 9u32.to_le_bytes().to_vec(), "bitmap pages"),
        (140, 0u32.to_le_bytes().to_vec(), "zero map pages"),
        (144, number(259), "journal over the zero map"),
        (152, number(3), "journal too small"),
        (152, number(u64::MAX), "journal without end"),
        (160, number(areas.data_start().0 + 1), "data not aligned"),
        (160, number(256), "data over the metadata"),
        (168, number(areas.member_blocks() + 1), "size and stripes differ"),
        (160, shifted(0).concat(), "a gap before the data"),
        (152, [number(1 << 19), shifted(1 << 19).concat()].concat(), "a journal too large"),
        (176, vec![0], "no name"),
        (176, vec![64], "name too long"),
        (177, b"..".to_vec(), "a name that climbs"),
        (177, b"a/b".to_vec(), "a name that descends"),
        (240, number(17), "too many spares"),
        (272, number(0), "no state"),
        (272, number(4), "unknown state"),
        (296, of_slot(0).0.to_vec(), "a device in two slots"),
    ];
    let part =
        VolumePart { volume: VolumeUuid([9; 16]), group: 1, groups: 2, segment: 8, blocks: 9 };
    let grouped = record.clone().in_volume(part);
    let of_volume = vec![
        (1896, number(0), "a volume without blocks"),
        (1904, vec![0], "segments without blocks"),
        (1906, vec![1], "segments too large"),
        (1909, vec![33], "too many groups"),
        (1908, vec![2], "more groups than there are"),
        (1909, vec![0], "no groups"),
    ];
    let mut spared = distributed_record(Level::Raid5, 4);
    spared.slots[1].state = SlotState::Failed;
    spared.spared = Some(Spared { member: MemberId(1), watermark: 0 });
    let of_spare = vec![
        (1910, vec![2], "a spare that holds who knows what"),
        (1911, vec![0], "a spare that stands in for who is up"),
        (1911, vec![4], "a spare that stands in for nobody"),
        (1912, number(spared.geometry.stripes() + 1), "a spare that holds too much"),
    ];
    let cases = cases.into_iter().map(|case| (&record, case));
    let of_volume = of_volume.into_iter().map(|case| (&grouped, case));
    let of_spare = of_spare.into_iter().map(|case| (&spared, case));
    for (record, (at, bytes, what)) in cases.chain(of_volume).chain(of_spare) {
        let mut block = superblock(record, device(1));
        block[at..at + bytes.len()].copy_from_slice(&bytes);
        reseal(&mut block);
        assert!(Superblock::decode(&block).is_err(), "{what}");
    }
}

/// No policy's name keeps an array from starting: of an invalid one, the valid characters are
/// shown.
#[test]
fn any_policy_is_taken() {
    let record = record(Level::Raid5, 3, Consistency::Journal);
    let name = |length: u8, bytes: &[u8]| {
        let mut block = superblock(&record, device(1));
        block[1816] = length;
        block[1817..1817 + bytes.len()].copy_from_slice(bytes);
        block[1848] = 9;
        reseal(&mut block);
        let found = Superblock::decode(&block).expect("it is intact").record;
        let again = superblock(&found, device(1));
        assert_eq!(Superblock::decode(&again).map(|s| s.record), Ok(found.clone()));
        found.policy.map(|policy| (policy.name.to_string(), policy.since))
    };
    let told = |name: &str| Some((name.to_string(), 9));
    assert_eq!(name(0, b"plain"), None);
    assert_eq!(name(5, b"plain+"), told("plain"));
    assert_eq!(name(6, b"a b\0\xff\n"), told("a?b???"));
    assert_eq!(name(255, &[b'x'; 31]), told(&"x".repeat(31)));
    assert_eq!(PolicyName::new("plain").map(|name| name.to_string()).as_deref(), Some("plain"));
    for wrong in ["", "a b", "\u{e4}", "\0", &"x".repeat(32)] {
        assert_eq!(PolicyName::new(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_watermark_beyond_the_end_is_refused() {
    let mut record = record(Level::Raid1, 2, Consistency::Bitmap);
    let stripes = record.geometry.stripes();
    for (watermark, fine) in [(stripes, true), (stripes + 1, false)] {
        record.slots[1].state = SlotState::Rebuilding { watermark };
        let found = Superblock::decode(&superblock(&record, device(1)));
        assert_eq!(found.is_ok(), fine, "{watermark} of {stripes}");
    }
}

#[test]
fn parity_shares_are_told_and_checked() {
    let uneven = |percent: &[u8]| Placement::Uneven(Shares::new(percent).expect("they are all"));
    let mut record = record(Level::Raid6, 4, Consistency::Bitmap);
    record.geometry = record.geometry.placed(uneven(&[50, 0, 20, 30])).expect("it can be");
    record.features.incompatible |= Features::PLACEMENT | Features::PARITY_SHARES;
    let block = superblock(&record, device(1));
    let found = Superblock::decode(&block).expect("it is one");
    assert_eq!(found.record.geometry.placement(), uneven(&[50, 0, 20, 30]));
    let refused = |changes: &[(usize, u8)]| {
        let mut forged = block;
        changes.iter().for_each(|&(at, byte)| forged[at] = byte);
        reseal(&mut forged);
        Superblock::decode(&forged).expect_err("it is impossible")
    };
    let shares = CodecError::Invalid("parity shares");
    assert_eq!(refused(&[(1954, 51)]), shares, "101% in all");
    assert_eq!(refused(&[(1873, 2)]), shares, "one of md's");
    assert_eq!(refused(&[(64, 128)]), shares, "without a placement");
    assert_eq!(refused(&[(64, 32)]), CodecError::Invalid("placement"), "without shares");
    let too_large = GeometryError::Shares(SharesError::TooLarge(51));
    assert_eq!(refused(&[(1954, 51), (1956, 19)]), CodecError::Geometry(too_large));
}

#[test]
fn lost_writes_are_on_record_until_they_are_accepted() {
    let record = record(Level::Raid5, 4, Consistency::Journal);
    let starts = |record: &ArrayRecord, holds, is_accepted, clean| {
        let mut assembled = Assembled::of_new(record.clone(), false);
        assembled.begin_volatile(holds, is_accepted);
        let before = assembled.before.as_ref().unwrap_or(&assembled.record);
        assert_eq!(before, record, "what is on disk");
        assembled.record.clean = clean;
        Superblock::decode(&superblock(&assembled.record, device(1))).expect("it is one").record
    };
    let mut found = starts(&record, true, false, false);
    assert_eq!(found.volatile, VolatileWrites { held: true, lost: false });
    assert!(found.has_lost_writes(), "its process is no more");
    assert!(found.features.incompatible & Features::VOLATILE != 0, "older releases refuse it");
    let mut forged = superblock(&found, device(1));
    for bits in [0, 4, 255] {
        forged[4025] = bits;
        reseal(&mut forged);
        assert_eq!(Superblock::decode(&forged), Err(CodecError::Invalid("volatile writes")));
    }
    for holds in [false, true] {
        found = starts(&found, holds, false, true);
        assert_eq!(found.volatile, VolatileWrites { held: holds, lost: true });
        assert!(found.has_lost_writes(), "a clean stop does not bring them back");
    }
    found = starts(&found, true, true, true);
    assert!(!found.has_lost_writes(), "it is clean: nothing was held since");
    assert_eq!(starts(&found, false, false, true), record);
}

#[test]
fn a_reshape_is_told_and_checked() {
    let mut record = record(Level::Raid6, 5, Consistency::Journal);
    let stripes = record.geometry.stripes();
    let from = Geometry::new(Level::Raid5, 4, record.geometry.chunk(), stripes).expect("it is one");
    record.features.incompatible |= Features::RESHAPE;
    record.reshape = Some(Reshape { from, next: 7, saved: 2 });
    let block = superblock(&record, device(1));
    let found = Superblock::decode(&block).expect("it is one").record;
    assert_eq!(found.reshape, record.reshape);
    let layout = found.layout();
    assert_eq!(
        [8, 9].map(|stripe| layout.of(Stripe(stripe)).level()),
        [Level::Raid6, Level::Raid5]
    );
    assert_eq!(layout.capacity(), from.capacity());
    let (saved, room) = found.saved_area();
    let (ring, blocks) = found.journal_ring();
    assert_eq!(ring.0 + blocks, saved.0, "one behind the other");
    assert_eq!(layout.place(Stripe(7), Role(0)).1, saved);
    let refused = |at: usize, bytes: &[u8]| {
        let mut forged = block;
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        reseal(&mut forged);
        Superblock::decode(&forged).expect_err("it is impossible")
    };
    let reshape = CodecError::Invalid("reshape");
    assert_eq!(refused(1993, &stripes.to_le_bytes()), reshape, "it is over");
    assert_eq!(refused(1993, &u64::MAX.to_le_bytes()), reshape);
    assert_eq!(refused(1989, &(room as u32 + 1).to_le_bytes()), reshape, "there is no room");
    assert_eq!(refused(1988, &[6]), reshape, "it had more members");
    assert_eq!(refused(1986, &[7]), CodecError::Invalid("level"));
    assert_eq!(refused(1987, &[9]), reshape, "no placement");
    assert_eq!(refused(97, &[2]), reshape, "without a journal");
}

#[test]
fn unknown_features_and_formats_say_what_to_do() {
    let mut record = record(Level::Raid5, 3, Consistency::Bitmap);
    let decode = |record: &ArrayRecord| Superblock::decode(&superblock(record, device(1))).err();
    record.features.compatible = u64::MAX;
    assert_eq!(decode(&record), None);
    record.features.read_only = 1 << 40;
    assert_eq!(decode(&record), Some(CodecError::ReadOnlyFeature { bits: 1 << 40 }));
    record.features.incompatible = 1 << 40;
    assert_eq!(decode(&record), Some(CodecError::UnknownFeature { bits: 1 << 40 }));

    let mut later = superblock(&record, device(1));
    later[8] = 2;
    reseal(&mut later);
    let refused = CodecError::Format { found: 2 };
    assert_eq!(Superblock::decode(&later), Err(refused));
    // A single copy of a later release is enough: an upgrade may have been half done.
    let mut old = superblock(&record, device(1));
    record.features = Features::default();
    old.copy_from_slice(&superblock(&record, device(1)));
    let copies: [Option<&[u8]>; SUPERBLOCK_COPIES] = [Some(&old), Some(&old), Some(&later), None];
    assert_eq!(choose_superblock(&copies), Err(SuperblockError::Refused(refused)));
}

/// Each subset of the copies damaged, in each way.
#[test]
fn two_intact_copies_are_a_quorum() {
    let good = superblock(&record(Level::Raid5, 3, Consistency::Bitmap), device(1));
    let mut torn = good;
    torn[2048..].fill(0xee);
    let zeros = [0; BLOCK_BYTES];
    let damages: [(&str, Option<&[u8]>); 4] = [
        ("unreadable", None),
        ("torn", Some(&torn)),
        ("wiped", Some(&zeros)),
        ("beyond the device's end", Some(&[])),
    ];
    for (what, damage) in damages {
        for damaged in 0u32..16 {
            let copies: [Option<&[u8]>; SUPERBLOCK_COPIES] = std::array::from_fn(|copy| {
                if damaged >> copy & 1 == 0 { Some(&good[..]) } else { damage }
            });
            let expected = match 4 - damaged.count_ones() as usize {
                0 if damage.is_some_and(|bytes| !bytes.starts_with(b"Evenkeel")) => {
                    Err(SuperblockError::NotAMember)
                }
                valid @ (0 | 1) => Err(SuperblockError::Damaged { valid }),
                _ => Superblock::decode(&good).map_err(SuperblockError::Refused),
            };
            assert_eq!(choose_superblock(&copies), expected, "{what} {damaged:04b}");
        }
    }
}

/// The two rounds of a change, cut off anywhere, with the block under way torn.
#[test]
fn a_change_that_is_cut_off_leaves_the_old_or_the_new_record() {
    let old = record(Level::Raid5, 3, Consistency::Bitmap);
    let mut new = old.clone();
    new.events += 1;
    new.slots[2].state = SlotState::Failed;
    let (before, after) = (superblock(&old, device(1)), superblock(&new, device(1)));
    for order in [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2], [1, 0, 3, 2]] {
        for written in 0..=4 {
            for cut in [0, 20, 100, 300] {
                let mut copies: [Block; SUPERBLOCK_COPIES] = [before; SUPERBLOCK_COPIES];
                for &copy in &order[..written] {
                    copies[copy] = after;
                }
                if let Some(&copy) = order.get(written) {
                    copies[copy][..cut].copy_from_slice(&after[..cut]);
                }
                let found = choose_superblock(&copies.each_ref().map(|c| Some(&c[..])));
                let events = found.map(|s| s.record.events);
                let expected = if written == 0 { old.events } else { new.events };
                assert_eq!(events, Ok(expected), "{order:?}, {written} written, {cut} bytes more");
            }
        }
    }
}

#[test]
fn copies_of_two_devices_are_no_quorum_for_either() {
    let record = record(Level::Raid5, 3, Consistency::Bitmap);
    let (a, b) = (superblock(&record, device(1)), superblock(&record, device(2)));
    let tie = choose_superblock(&[Some(&a), Some(&b), Some(&b), Some(&a)]);
    assert_eq!(tie, Err(SuperblockError::Damaged { valid: 2 }));
    let most = choose_superblock(&[Some(&a), Some(&b), Some(&b), Some(&b)]);
    assert_eq!(most.map(|s| s.device), Ok(device(2)));
}

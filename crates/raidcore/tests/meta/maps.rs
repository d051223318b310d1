//! The two maps: which version counts, what a loss means, and when the write hole is open.

use raidcore::geometry::Level;
use raidcore::meta::{
    AssembleError, BITS_PER_PAGE, BitMap, Consistency, MapKind, SlotState, Superblock, Warning,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Set, Stripe};

use crate::world::{DEGRADED, FORCE, STRICT, World, flip, of_slot, record, reseal, superblock};

fn bits(map: &BitMap) -> Vec<u64> {
    let next = |&bit: &u64| map.next_set(bit + 1);
    std::iter::successors(map.next_set(0), next).collect()
}

fn raid5() -> World {
    World::new(Level::Raid5, 3, Consistency::Bitmap)
}

/// The latest version on any member counts: a store waits for all current members.
#[test]
fn the_latest_version_counts() {
    for kind in [MapKind::Bitmap, MapKind::ZeroMap] {
        let mut world = raid5();
        for (member, version, bit) in [(0, 3, 30), (1, 4, 40), (2, 3, 30)] {
            let map = world.map(kind, &[bit]);
            world.store_map(member..=member, kind, version, &map);
        }
        let array = world.assemble(STRICT).expect("it is whole");
        let (map, versions) = match kind {
            MapKind::Bitmap => (&array.bitmap, &array.bitmap_versions),
            MapKind::ZeroMap => (&array.zero_map, &array.zero_versions),
            MapKind::Missed => (&array.missed, &array.missed_versions),
        };
        assert_eq!((bits(map), versions.len()), (vec![40], 1));
        // Only one member has it, which may fail next: the version before it has to stay.
        assert_eq!((versions[0].newest, versions[0].durable), (4, 3));
        // A torn latest page leaves the version before it.
        let at = world.record.areas.map_page(kind, 0, 4).0 as usize * BLOCK_BYTES;
        world.images[1].meta[at + 2048..at + BLOCK_BYTES].fill(0x77);
        let array = world.assemble(STRICT).expect("it is whole");
        let map = if kind == MapKind::Bitmap { array.bitmap } else { array.zero_map };
        assert_eq!(bits(&map), [30]);
    }
}

/// Every bit flip of the latest page: another member's copy, or the version before, is used.
#[test]
fn no_bit_flip_of_a_page_gets_through() {
    for kind in [MapKind::Bitmap, MapKind::ZeroMap] {
        let mut world = raid5();
        let old = world.map(kind, &[5, 6]);
        let new = world.map(kind, &[6, 600]);
        world.store_map(.., kind, 3, &old);
        world.store_map(0..1, kind, 4, &new);
        let at = world.record.areas.map_page(kind, 0, 4).0 as usize * BLOCK_BYTES;
        for bit in 0..BLOCK_BYTES * 8 {
            flip(&mut world.images[0].meta, at * 8 + bit);
            let array = world.assemble(STRICT).expect("it is whole");
            let map = if kind == MapKind::Bitmap { array.bitmap } else { array.zero_map };
            assert_eq!(map, old, "bit {bit}");
            flip(&mut world.images[0].meta, at * 8 + bit);
        }
    }
}

/// A bit may stand for more stripes than the default; impossible values are refused.
#[test]
fn regions_have_the_size_that_the_record_tells() {
    let mut record = record(Level::Raid5, 3, Consistency::Bitmap);
    let stripes = record.geometry.stripes();
    record = record.with_maps_of(8, BITS_PER_PAGE).expect("it is possible");
    let mut world = World::of(record);
    let last = (stripes - 1) / 8;
    let map = world.map(MapKind::Bitmap, &[0, last]);
    world.store_map(.., MapKind::Bitmap, 3, &map);
    let array = world.assemble(STRICT).expect("it is whole");
    let areas = &array.record.areas;
    assert_eq!((array.bitmap.len(), bits(&array.bitmap)), (stripes.div_ceil(8), vec![0, last]));
    assert_eq!([0, 7, 8].map(|stripe| areas.region(Stripe(stripe))), [0, 0, 1]);
    for region_stripes in [0, 3] {
        assert!(array.record.clone().with_maps_of(region_stripes, BITS_PER_PAGE).is_err());
    }
}

/// Pages may have fewer bits than there is room for; each is stored and found alone.
#[test]
fn pages_have_the_size_that_the_record_tells() {
    for page_bits in [32, 64, 128] {
        let record = record(Level::Raid5, 3, Consistency::Bitmap);
        let mut world = World::of(record.with_maps_of(1, page_bits).expect("it is possible"));
        let stripes = world.record.geometry.stripes();
        assert!(stripes > 2 * page_bits, "there are more than two pages");
        let kinds = [MapKind::Bitmap, MapKind::ZeroMap];
        for kind in kinds {
            let old = world.map(kind, &[0, page_bits, page_bits + 1, stripes - 1]);
            (0..old.pages()).for_each(|page| world.store_page(.., kind, page, 3, &old));
        }
        for kind in kinds {
            let new = world.map(kind, &[1, page_bits + 2, stripes - 2]);
            world.store_page(0..1, kind, 1, 4, &new);
            let array = world.assemble(STRICT).expect("it is whole");
            let (map, versions) = if kind == MapKind::Bitmap {
                (array.bitmap, array.bitmap_versions)
            } else {
                (array.zero_map, array.zero_versions)
            };
            assert_eq!(bits(&map), [0, page_bits + 2, stripes - 1]);
            let versions = versions[..3].iter().map(|versions| (versions.newest, versions.durable));
            assert!(versions.eq([(3, 3), (4, 3), (3, 3)]));
        }
        // A lost page does not affect the bits of others.
        for version in [3, 4] {
            let at = world.record.areas.map_page(MapKind::Bitmap, 1, version).0 as usize;
            for image in &mut world.images {
                image.meta[at * BLOCK_BYTES] ^= 1;
            }
        }
        let found = bits(&world.assemble(STRICT).expect("it is whole").bitmap);
        let page = page_bits..2 * page_bits;
        assert_eq!(found, [0].into_iter().chain(page).chain([stripes - 1]).collect::<Vec<_>>());
    }
}

/// Impossible sizes of pages are refused, when an array is created and when one is read.
#[test]
fn impossible_pages_are_refused() {
    let wide = record(Level::Raid5, 3, Consistency::Bitmap);
    for page_bits in [0, 3, 96 + 1, BITS_PER_PAGE + 64, u64::MAX] {
        assert!(wide.clone().with_maps_of(1, page_bits).is_err(), "{page_bits}");
    }
    // More pages of the bitmap than there may be.
    assert!(wide.clone().with_maps_of(1, 4).is_err());
    let record = wide.with_maps_of(1, 64).expect("it is possible");
    let stored = superblock(&record, of_slot(0));
    assert_eq!(Superblock::decode(&stored).expect("it is valid").record, record);
    for page_bits in [0, 3, 32, 97, 128, BITS_PER_PAGE, u64::MAX] {
        let mut block = stored;
        block[248..256].copy_from_slice(&page_bits.to_le_bytes());
        reseal(&mut block);
        assert!(Superblock::decode(&block).is_err(), "{page_bits}");
    }
}

/// Intact pages at the wrong place: of another index, slot, map, array or size.
#[test]
fn misplaced_pages_are_ignored() {
    let world = raid5();
    let at = world.record.areas.map_page(MapKind::Bitmap, 0, 4).0 as usize * BLOCK_BYTES;
    let fields: [(usize, &[u8]); 7] = [
        (16, &[1]),                // array
        (32, &2u32.to_le_bytes()), // kind
        (36, &1u32.to_le_bytes()), // page
        (40, &5u64.to_le_bytes()), // a version of the other slot
        (40, &u64::MAX.to_le_bytes()[..]),
        (48, &9u64.to_le_bytes()), // bits in the map
        (8, &2u32.to_le_bytes()),  // format
    ];
    for (field, bytes) in fields {
        let mut forged = world.clone();
        let all = forged.map(MapKind::Bitmap, &[1, 2, 3]);
        forged.store_map(0..1, MapKind::Bitmap, 4, &all);
        let page = &mut forged.images[0].meta[at..at + BLOCK_BYTES];
        page[field..field + bytes.len()].copy_from_slice(bytes);
        reseal(page);
        let array = forged.assemble(STRICT).expect("it is whole");
        assert_eq!((array.bitmap.count(), array.bitmap_versions[0].newest), (0, 2), "byte {field}");
    }
}

#[test]
fn a_lost_page_of_the_bitmap_is_resynced() {
    let mut world = raid5();
    let pages = [0, 1].map(|version| world.record.areas.map_page(MapKind::Bitmap, 0, version));
    for image in &mut world.images {
        image.unreadable.extend(pages);
    }
    let array = world.assemble(STRICT).expect("that is no reason not to start");
    assert_eq!(array.bitmap.count(), array.bitmap.len());
    assert_eq!(array.warnings, [Warning::BitmapPageLost { page: 0 }]);
}

#[test]
fn a_lost_page_of_the_zero_map_needs_force() {
    let mut world = raid5();
    let pages = [0, 1].map(|version| world.record.areas.map_page(MapKind::ZeroMap, 0, version));
    for image in &mut world.images {
        image.unreadable.extend(pages);
    }
    assert_eq!(world.assemble(DEGRADED).err(), Some(AssembleError::ZeroMapLost { page: 0 }));
    let array = world.assemble(FORCE).expect("by force");
    assert_eq!(array.zero_map.count(), 0);
    assert_eq!(array.warnings, [Warning::ZeroMapPageLost { page: 0 }]);
}

/// A member that is being filled may hold maps of an earlier life, however high they count.
#[test]
fn maps_of_a_member_being_filled_do_not_count() {
    let mut world = World::new(Level::Raid1, 3, Consistency::Bitmap);
    world.record.slots[2].state = SlotState::Rebuilding { watermark: 9 };
    world.store_records();
    for kind in [MapKind::Bitmap, MapKind::ZeroMap] {
        let stale = world.map(kind, &[1, 2, 3]);
        world.store_map(2..3, kind, 1000, &stale);
    }
    let array = world.assemble(STRICT).expect("two are current");
    assert_eq!((array.bitmap.count(), array.zero_map.count()), (0, 0));
    assert_eq!(array.bitmap_versions[0].newest, 2);
}

/// The write hole, for all conditions that decide on it.
#[test]
fn degraded_and_out_of_step_needs_force() {
    let consistencies = [Consistency::Resync, Consistency::Bitmap, Consistency::Journal];
    let levels = [
        (Level::Raid1, 3),
        (Level::Raid4, 3),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
        (Level::Raid10, 4),
    ];
    for (level, members) in levels {
        for consistency in consistencies {
            for case in 0..8 {
                let [clean, marked, degraded] = [1, 2, 4].map(|bit| case & bit != 0);
                let mut world = World::new(level, members, consistency);
                world.record.clean = clean;
                world.store_records();
                if marked {
                    world.mark(&[3, 77]);
                }
                let gone = if degraded { Set::one(MemberId(1)) } else { Set::EMPTY };
                let context = format!("{level:?} {consistency:?} {clean} {marked} {degraded}");
                let everything = consistency == Consistency::Resync && !clean;
                let parity = !level.is_mirrored();
                let hole = degraded
                    && parity
                    && consistency != Consistency::Journal
                    && (marked || everything);
                let found = world.assemble_without(gone, DEGRADED);
                let forced = world.assemble_without(gone, FORCE).expect(&context);
                if hole {
                    assert_eq!(found.err(), Some(AssembleError::DirtyDegraded), "{context}");
                } else {
                    assert!(found.is_ok(), "{context}");
                }
                assert_eq!(forced.warnings.contains(&Warning::DirtyDegraded), hole, "{context}");
                let count = match (everything, marked) {
                    (true, _) => forced.bitmap.len(),
                    (false, true) => 2,
                    (false, false) => 0,
                };
                assert_eq!((forced.bitmap.count(), forced.was_clean), (count, clean), "{context}");
            }
        }
    }
}

#[test]
fn a_member_being_filled_leaves_the_hole_open() {
    let mut world = raid5();
    world.record.slots[0].state = SlotState::Rebuilding { watermark: 100 };
    world.store_records();
    assert!(world.assemble(STRICT).is_ok());
    world.mark(&[200]);
    assert_eq!(world.assemble(STRICT).err(), Some(AssembleError::DirtyDegraded));
}

#[test]
fn without_redundancy_there_is_nothing_to_resync() {
    let mut world = World::new(Level::Raid0, 2, Consistency::Resync);
    world.record.clean = false;
    world.store_records();
    assert_eq!(world.assemble(STRICT).expect("it is whole").bitmap.count(), 0);
}

#[test]
fn a_map_finds_its_bits_across_pages() {
    let mut map = BitMap::new(MapKind::ZeroMap, 3 * BITS_PER_PAGE);
    let set = [0, 63, BITS_PER_PAGE, 3 * BITS_PER_PAGE - 1];
    for bit in set {
        assert!(map.set(bit) && !map.set(bit));
    }
    assert_eq!((bits(&map), map.count(), map.pages()), (set.to_vec(), 4, 3));
    assert!(map.clear(63) && !map.clear(63) && !map.get(63));
    map.set_all();
    assert_eq!(map.count(), map.len());
}

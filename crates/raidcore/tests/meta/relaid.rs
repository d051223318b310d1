//! Arrays that get more stripes, or stripes with other numbers: their maps get other bits, and a start
//! finds those of before until the record tells of the others.

use raidcore::geometry::Level;
use raidcore::meta::{
    Assembled, Consistency, Features, MapKind, ReshapeError, SlotState, Superblock, Target,
};

use crate::world::{CHUNK, SHAPES, STRICT, World, put, superblock};

/// The set bits of the zero map.
fn zeros(assembled: &Assembled) -> Vec<u64> {
    (0..assembled.zero_map.len()).filter(|&bit| assembled.zero_map.get(bit)).collect()
}

/// Writes what has to be there before a start: the pages, one more at a time. As long as no record tells of
/// them, nothing has changed.
fn write_maps(world: &mut World, becomes: &Assembled) {
    let before = world.assemble(STRICT).expect("it is whole");
    let members = becomes.record.geometry.members();
    for (at, page) in becomes.relaid_maps() {
        for member in 0..members {
            put(&mut world.images[member], at, &page);
            let found = world.assemble(STRICT).expect("it is what it was");
            assert_eq!(zeros(&found), zeros(&before));
            assert_eq!(found.bitmap.count(), 0);
        }
    }
}

/// The array is what it was to become.
fn adopt(world: &mut World, becomes: &Assembled) {
    world.record = becomes.record.clone();
    world.record.events += 1;
    world.store_records();
}

/// A reshape has come to its end.
fn end(world: &mut World) {
    let record = &mut world.record;
    record.reshape = None;
    let more = record.areas.stripes() != record.geometry.stripes();
    record.features.incompatible &= !(Features::RESHAPE | Features::STRIPES);
    record.features.incompatible |= if more { Features::STRIPES } else { 0 };
    assert!(record.slots.iter().all(|slot| slot.state == SlotState::Up));
    record.events += 1;
    world.store_records();
}

fn other_chunks(world: &mut World, chunk: u32) -> Assembled {
    let mut becomes = world.assemble(STRICT).expect("it is whole");
    let target = Target { chunk: Some(chunk), ..Target::default() };
    assert_eq!(becomes.begin_reshape(&target), Ok(Vec::new()));
    write_maps(world, &becomes);
    adopt(world, &becomes);
    let found = world.assemble(STRICT).expect("it is whole");
    assert_eq!(zeros(&found), zeros(&becomes), "a start finds the maps that were written");
    assert_eq!(found.zero_versions, becomes.zero_versions);
    assert_eq!((found.bitmap.count(), found.bitmap.len()), (0, found.record.areas.regions()));
    found
}

#[test]
fn smaller_chunks_and_back_again_and_once_more() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Journal);
    let map = world.map(MapKind::ZeroMap, &[2, 5]);
    world.store_map(.., MapKind::ZeroMap, 3, &map);
    let stripes = world.record.geometry.stripes();

    let found = other_chunks(&mut world, CHUNK / 2);
    assert_eq!(found.record.geometry.stripes(), 2 * stripes);
    assert_eq!(zeros(&found), [stripes + 2, stripes + 5], "old stripes have the last numbers");
    end(&mut world);

    // Larger ones have fewer stripes, and the maps stay as they are.
    let found = other_chunks(&mut world, CHUNK);
    assert_eq!((found.record.stripes(), found.record.areas.stripes()), (2 * stripes, 2 * stripes));
    end(&mut world);
    let found = world.assemble(STRICT).expect("it is whole");
    assert_eq!((found.record.stripes(), found.zero_map.len()), (stripes, 2 * stripes));

    // As many bits as now would be those of before.
    let bits = world.map(MapKind::ZeroMap, &[1]);
    let newest = found.zero_versions[0].newest;
    world.store_map(.., MapKind::ZeroMap, newest + 1, &bits);
    let found = other_chunks(&mut world, CHUNK / 2);
    assert_eq!((found.record.stripes(), found.zero_map.len()), (2 * stripes, 2 * stripes + 1));
    assert_eq!(zeros(&found), [stripes + 1], "what is behind the end does not count");
    end(&mut world);
    let found = world.assemble(STRICT).expect("it is whole");
    assert_ne!(found.record.features.incompatible & Features::STRIPES, 0);
}

#[test]
fn members_that_have_become_larger_are_used_and_read_as_zeros() {
    for (level, members) in SHAPES {
        for consistency in [Consistency::Resync, Consistency::Bitmap, Consistency::Journal] {
            let mut world = World::new(level, members, consistency);
            let map = world.map(MapKind::ZeroMap, &[2]);
            world.store_map(.., MapKind::ZeroMap, 3, &map);
            let stripes = world.record.geometry.stripes();
            let mut becomes = world.assemble(STRICT).expect("it is whole");
            let need = world.record.areas.member_blocks() + u64::from(CHUNK);
            let have = need - u64::from(CHUNK);
            assert_eq!(becomes.enlarge(), Err(ReshapeError::TooSmall { have, need }));

            let rows = 40_000;
            let more = rows * world.record.geometry.stripes_of_a_row();
            for (image, extra) in world.images.iter_mut().zip(0..) {
                image.blocks += u64::from(CHUNK) * rows + extra;
            }
            let mut becomes = world.assemble(STRICT).expect("it is whole");
            becomes.enlarge().expect("there is room");
            let record = &becomes.record;
            assert_eq!(record.geometry.stripes(), stripes + more);
            assert_eq!(record.areas.data_start(), world.record.areas.data_start());
            assert!(zeros(&becomes).into_iter().eq([2].into_iter().chain(stripes..stripes + more)));
            let block = superblock(record, record.slots[0].device);
            assert_eq!(Superblock::decode(&block).map(|found| found.record).as_ref(), Ok(record));
            write_maps(&mut world, &becomes);
            adopt(&mut world, &becomes);
            let found = world.assemble(STRICT).expect("it is whole");
            assert_eq!(zeros(&found), zeros(&becomes));
            assert_eq!(found.zero_versions, becomes.zero_versions);
        }
    }
}

#[test]
fn only_a_whole_array_at_rest_becomes_another() {
    let mut world = World::new(Level::Raid5, 4, Consistency::Journal);
    world.images.iter_mut().for_each(|image| image.blocks += 1000);
    let mut marked = world.clone();
    marked.mark(&[1]);
    let mut assembled = marked.assemble(STRICT).expect("it is whole");
    assert_eq!(assembled.enlarge(), Err(ReshapeError::Unclean));
    world.record.clean = false;
    world.store_records();
    let mut assembled = world.assemble(STRICT).expect("it is whole");
    assert_eq!(assembled.enlarge(), Err(ReshapeError::Unclean));
    let target = Target { chunk: Some(CHUNK / 2), ..Target::default() };
    assert_eq!(assembled.begin_reshape(&target), Err(ReshapeError::Unclean));
}

//! Devices that were away: which may return, and when the map of missed regions counts.

use raidcore::geometry::Level;
use raidcore::meta::{
    Consistency, MapKind, NoReturn, Returning, SlotState, Superblock, Warning, may_return,
};
use raidcore::units::MemberId;

use crate::world::{EVENTS, STRICT, World, device, of_slot};

/// Member 2 has left at the count of `EVENTS`, and the array has gone on.
fn away() -> World {
    let mut world = World::new(Level::Raid5, 4, Consistency::Bitmap);
    world.record.events += 5;
    world.record.slots[2].state = SlotState::Failed;
    world.record.slots[2].left = Some(EVENTS);
    for member in [0, 1, 3] {
        world.store_record(member, of_slot(member), &world.record.clone());
    }
    world
}

fn superblock(world: &World, lag: u64) -> Superblock {
    let mut record = World::new(Level::Raid5, 4, Consistency::Bitmap).record;
    record.events = EVENTS - lag;
    assert_eq!(record.array, world.record.array);
    Superblock { record, device: of_slot(2) }
}

#[test]
fn who_left_last_catches_up_and_an_old_copy_is_filled() {
    let world = away();
    let blocks = world.record.areas.member_blocks();
    for (lag, catches_up) in [(0, true), (1, true), (2, false), (50, false)] {
        let how = may_return(&superblock(&world, lag), &world.record, blocks);
        assert_eq!(how, Ok(Returning { member: MemberId(2), was: of_slot(2), catches_up }));
    }
    let array = world.assemble(STRICT).expect("it is known that one is away");
    let told = Warning::MayReturn { label: "disk2".into(), member: MemberId(2) };
    assert!(array.warnings.contains(&told), "{:?}", array.warnings);
}

#[test]
fn who_went_on_alone_does_not_return() {
    let world = away();
    let blocks = world.record.areas.member_blocks();
    let mut alone = superblock(&world, 0);
    alone.record.events += 1;
    assert_eq!(may_return(&alone, &world.record, blocks), Err(NoReturn::WentOn));
    alone.record.slots[0].state = SlotState::Failed;
    alone.record.events -= 2;
    assert_eq!(may_return(&alone, &world.record, blocks), Err(NoReturn::WentOn));
}

#[test]
fn a_place_that_is_taken_stays_so() {
    let mut world = away();
    let blocks = world.record.areas.member_blocks();
    let back = superblock(&world, 0);
    let small = may_return(&back, &world.record, blocks - 1);
    assert_eq!(small, Err(NoReturn::TooSmall { have: blocks - 1, need: blocks }));
    world.record.slots[2].device = device(60);
    assert_eq!(may_return(&back, &world.record, blocks), Err(NoReturn::PlaceTaken));
    let other = Superblock { device: of_slot(0), ..back };
    assert_eq!(may_return(&other, &world.record, blocks), Err(NoReturn::InService));
}

/// Pages of the map count only while they are needed. A lost page means that all of it was missed.
#[test]
fn the_map_counts_while_somebody_is_away() {
    let mut world = away();
    let array = world.assemble(STRICT).expect("it is known that one is away");
    assert_eq!(array.missed.count(), array.missed.len(), "there is no page");
    let map = world.map(MapKind::Missed, &[7]);
    world.store_map(..2, MapKind::Missed, 4, &map);
    let array = world.assemble(STRICT).expect("it is known that one is away");
    assert_eq!((array.missed.next_set(0), array.missed.count()), (Some(7), 1));
    world.record.slots[2].left = None;
    for member in [0, 1, 3] {
        world.store_record(member, of_slot(member), &world.record.clone());
    }
    let array = world.assemble(STRICT).expect("it is known that one is away");
    assert_eq!((array.missed.count(), array.missed_versions[0].newest), (0, 4));
    let back =
        may_return(&superblock(&world, 0), &array.record, array.record.areas.member_blocks());
    assert_eq!(back.map(|how| how.catches_up), Ok(false), "nothing tells when it has left");
}

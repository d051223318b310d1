//! The staging log: which entries count at a start.

use raidcore::geometry::Level;
use raidcore::meta::{AssembleError, Assembled, Consistency, ReplayRun, SlotState, Warning};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba, Set};

use crate::world::{
    DEGRADED, FORCE, STAGING_EPOCH, STRICT, Staged, World, staged_record, with_staging_devices,
};

/// RAID5 of four with a staging log, stopped uncleanly.
fn unclean() -> World {
    let mut record = staged_record(Level::Raid5, 4, Consistency::Journal, 128);
    record.clean = false;
    World::of(record)
}

/// What is to be brought home: number of the entry, member, row, blocks, block of the payload.
fn staged(assembled: &Assembled) -> Vec<(u64, u8, u32, u32, u32)> {
    let runs = assembled.staged.iter().flat_map(|replay| {
        replay
            .runs
            .iter()
            .map(|&ReplayRun { to, from }| (replay.entry, to.member.0, to.row, to.blocks, from))
    });
    runs.collect()
}

#[test]
fn of_each_block_the_last_entry_counts() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 3)]).store(&mut world, &[1, 2], 0);
    Staged::new(2, &[(0, 1, 1), (3, 0, 1)]).store(&mut world, &[0, 3], 0);
    let found = world.assemble(STRICT).expect("all are there");
    let expected = [(1, 0, 0, 1, 0), (1, 0, 2, 1, 2), (2, 0, 1, 1, 0), (2, 3, 0, 1, 1)];
    assert_eq!(staged(&found), expected);
    assert_eq!(found.staged[0].copies.len(), 2, "both copies are found");
}

#[test]
fn a_marker_says_that_home_counts() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 3)]).store(&mut world, &[1, 2], 0);
    let marker = Staged { marker: true, ..Staged::new(2, &[(0, 0, 2)]) };
    marker.store(&mut world, &[0, 3], 0);
    let found = world.assemble(STRICT).expect("all are there");
    assert_eq!(staged(&found), [(1, 0, 2, 1, 2)]);
}

#[test]
fn what_is_before_any_tail_is_void() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 1)]).store(&mut world, &[1, 2], 0);
    Staged::new(2, &[(0, 1, 1)]).store(&mut world, &[1, 2], 2);
    // The tail is in other rings.
    Staged { tail: 2, ..Staged::new(3, &[(0, 2, 1)]) }.store(&mut world, &[0, 3], 0);
    let found = world.assemble(STRICT).expect("all are there");
    assert_eq!(staged(&found), [(2, 0, 1, 1, 0), (3, 0, 2, 1, 0)]);
    // One of the members with this tail may be lost.
    let found = world.assemble_without(Set::one(MemberId(0)), DEGRADED).expect("one may be lost");
    assert_eq!(staged(&found), [(2, 0, 1, 1, 0), (3, 0, 2, 1, 0)]);
}

#[test]
fn a_log_that_was_emptied_is_void() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 1)]).store(&mut world, &[1, 2], 0);
    world.record.staging_epoch = 2;
    world.store_records();
    assert_eq!(staged(&world.assemble(STRICT).expect("all are there")), []);
    world.record.staging_epoch = STAGING_EPOCH;
    world.record.clean = true;
    world.store_records();
    assert_eq!(staged(&world.assemble(STRICT).expect("all are there")), []);
}

#[test]
fn a_copy_is_enough_and_none_is_not() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 1)]).store(&mut world, &[1, 2], 0);
    Staged::new(2, &[(0, 1, 1)]).store(&mut world, &[1, 2], 2);
    Staged::new(3, &[(0, 2, 1)]).store(&mut world, &[0, 3], 0);
    let start = world.record.areas.staging().0.0;
    world.images[1].unreadable.push(Pba(start + 1));
    let found = world.assemble(STRICT).expect("the other copy is there");
    assert_eq!(staged(&found).len(), 3);
    assert_eq!(found.staged[0].copies.len(), 2, "together they have all");

    world.images[2].unreadable.push(Pba(start));
    let error = world.assemble(STRICT).err();
    assert_eq!(error, Some(AssembleError::StagedLost { entry: 1 }));
    let found = world.assemble(FORCE).expect("it is accepted");
    assert!(found.warnings.contains(&Warning::StagedLost { entry: 1 }));
    assert_eq!(staged(&found), [(2, 0, 1, 1, 0), (3, 0, 2, 1, 0)]);

    // No later entry says that it was on all its holders: it was not acknowledged.
    Staged { open: 1, ..Staged::new(2, &[(0, 1, 1)]) }.store(&mut world, &[1, 2], 2);
    Staged { open: 2, ..Staged::new(3, &[(0, 2, 1)]) }.store(&mut world, &[0, 3], 0);
    assert_eq!(staged(&world.assemble(STRICT).expect("nothing is lost")).len(), 2);
}

#[test]
fn copies_that_lack_different_blocks_are_enough_together() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 3)]).store(&mut world, &[1, 2], 0);
    let payload = world.record.areas.staging().0.0 + 1;
    world.images[1].unreadable.push(Pba(payload));
    world.images[2].unreadable.push(Pba(payload + 2));
    let found = world.assemble(STRICT).expect("each block is there");
    assert_eq!(staged(&found), [(1, 0, 0, 3, 0)]);
    assert_eq!(found.staged[0].copies.len(), 2);

    // A block that neither holder can read is lost, unless it was overwritten since.
    world.images[2].unreadable.push(Pba(payload));
    Staged::new(2, &[(0, 3, 1)]).store(&mut world, &[0, 3], 0);
    let error = world.assemble(STRICT).err();
    assert_eq!(error, Some(AssembleError::StagedLost { entry: 1 }));
    Staged::new(2, &[(0, 0, 1)]).store(&mut world, &[0, 3], 0);
    let found = world.assemble(STRICT).expect("nothing is lost");
    assert_eq!(staged(&found), [(1, 0, 1, 2, 1), (2, 0, 0, 1, 0)]);
    // A copy with a wrong checksum does not count.
    world.images[2].unreadable.clear();
    world.images[2].meta[payload as usize * BLOCK_BYTES] ^= 1;
    world.images[1].unreadable.push(Pba(payload + 1));
    assert_eq!(world.assemble(STRICT).err(), Some(AssembleError::StagedLost { entry: 1 }));
}

#[test]
fn an_entry_that_goes_beyond_the_log_is_none() {
    let mut world = unclean();
    Staged { open: 1, ..Staged::new(1, &[(0, 0, 1)]) }.store(&mut world, &[1, 2], 127);
    let payload = world.record.areas.staging().0.0 + 128;
    for unreadable in [false, true] {
        if unreadable {
            world.images[1].unreadable.push(Pba(payload));
        }
        assert_eq!(staged(&world.assemble(STRICT).expect("nothing is lost")), []);
    }
}

#[test]
fn who_is_not_up_is_not_asked() {
    let mut world = unclean();
    Staged::new(1, &[(0, 0, 1)]).store(&mut world, &[1], 0);
    Staged { open: 1, ..Staged::new(2, &[(0, 1, 1)]) }.store(&mut world, &[2], 0);
    world.record.slots[1].state = SlotState::Rebuilding { watermark: 9 };
    world.store_records();
    assert_eq!(staged(&world.assemble(DEGRADED).expect("one may be lost")), [(2, 0, 1, 1, 0)]);
}

#[test]
fn what_the_array_does_not_have_is_left_out() {
    let mut world = unclean();
    Staged { stripe: 1 << 40, ..Staged::new(1, &[(0, 0, 1)]) }.store(&mut world, &[1, 2], 0);
    Staged::new(2, &[(9, 0, 1)]).store(&mut world, &[1, 2], 2);
    // A forged number does not make the search longer than there are entries.
    Staged::new(1 << 61, &[(0, 0, 1)]).store(&mut world, &[1, 2], 4);
    let found = world.assemble(FORCE).expect("it is accepted");
    assert_eq!(staged(&found), [(1 << 61, 0, 0, 1, 0)]);
    for warning in [Warning::StagedInvalid { entry: 1 }, Warning::StagedInvalid { entry: 2 }] {
        assert!(found.warnings.contains(&warning), "{:?}", found.warnings);
    }
}

/// A staging device in place 4, with a larger log than members have, besides.
fn unclean_with_device() -> World {
    let mut record = staged_record(Level::Raid5, 4, Consistency::Journal, 128);
    record.clean = false;
    World::of(with_staging_devices(record, 1, 300))
}

#[test]
fn what_is_on_a_staging_device_counts_wherever_it_lies_in_its_log() {
    let mut world = unclean_with_device();
    Staged::new(1, &[(0, 0, 3)]).store(&mut world, &[4], 290);
    Staged::new(1, &[(0, 0, 3)]).store(&mut world, &[1], 0);
    for gone in [Set::EMPTY, Set::one(MemberId(1)), Set::one(MemberId(4))] {
        let found = world.assemble_without(gone, DEGRADED).expect("one may be lost");
        assert_eq!(staged(&found), [(1, 0, 0, 3, 0)], "without {gone:?}");
    }
    let strict = world.assemble_without(Set::one(MemberId(4)), STRICT).expect_err("it is missed");
    assert!(strict.to_string().starts_with("missing: staging device 4 "), "{strict}");
}

#[test]
fn of_members_and_staging_devices_not_more_may_be_missing_than_an_entry_has_copies_to_spare() {
    let missing = Some(AssembleError::StagedMissing);
    let mut world = unclean_with_device();
    let both = Set::one(MemberId(1)).with(MemberId(4));
    assert_eq!(world.assemble_without(both, DEGRADED).err(), missing);
    let forced = world.assemble_without(both, FORCE).expect("it is accepted");
    assert!(forced.warnings.contains(&Warning::StagedMissing));
    // A device that failed long ago held no entries that matter.
    world.record.slots[4].state = SlotState::Failed;
    world.store_records();
    assert!(world.assemble_without(Set::one(MemberId(1)), DEGRADED).is_ok());
    world.record.staging_thin = Set::one(MemberId(4));
    world.store_records();
    assert_eq!(world.assemble_without(Set::one(MemberId(1)), DEGRADED).err(), missing);
    // The members that were in service then are there.
    assert!(world.assemble(DEGRADED).is_ok());
    let up =
        std::mem::replace(&mut world.record.slots[1].state, SlotState::Rebuilding { watermark: 3 });
    world.store_records();
    assert!(world.assemble_without(Set::one(MemberId(1)), DEGRADED).is_ok(), "it was being filled");
    world.record.slots[1].state = up;
    world.record.clean = true;
    world.store_records();
    assert!(world.assemble_without(Set::one(MemberId(1)), DEGRADED).is_ok(), "nothing was staged");
}

#[test]
fn a_staging_device_needs_to_be_no_larger_than_its_log() {
    let mut world = unclean_with_device();
    let need = world.record.areas.staging_device_blocks();
    assert!(need < world.record.areas.member_blocks());
    assert!(world.assemble(STRICT).is_ok());
    world.images[4].blocks = need - 1;
    let refused = world.assemble(STRICT).expect_err("it is missing");
    assert!(matches!(refused, AssembleError::Incomplete { .. }), "{refused:?}");
    let shrunk = Warning::Shrunk { label: "disk4".into(), have: need - 1, need };
    assert!(world.assemble(FORCE).expect("by force").warnings.contains(&shrunk));
}

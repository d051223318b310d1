//! Members that missed something: stale ones, crashes during a change, and split brains.

use raidcore::geometry::Level;
use raidcore::meta::{
    ArrayRecord, AssembleError, AssembleOptions, Consistency, FilledRanges, Filling, Ranges,
    SlotState, Superblock, Warning, may_return,
};
use raidcore::units::{MemberId, Set};

use crate::world::{DEGRADED, EVENTS, FORCE, SHAPES, STRICT, World, device, of_slot};

/// A lag of one is a crash during a change; a lag of two is a member that missed a change.
#[test]
fn who_lags_by_more_than_one_change_is_stale() {
    for (level, members) in SHAPES {
        for lag in 0..4 {
            let mut world = World::new(level, members, Consistency::Bitmap);
            let mut old = world.record.clone();
            old.events -= lag;
            world.store_record(0, of_slot(0), &old);
            let strict = world.assemble(STRICT);
            if lag <= 1 {
                let array = strict.expect("nothing is missing");
                assert_eq!((array.slots[0], array.record.events), (Some(0), EVENTS));
                continue;
            }
            assert!(strict.is_err(), "{level:?}: a stale member is taken for current");
            match world.assemble(FORCE) {
                Ok(array) => {
                    assert_eq!((array.slots[0], &array.stale[..]), (None, &[0][..]));
                    let events = EVENTS - lag;
                    let label = "disk0".into();
                    let behind = Warning::Behind { label, events, newest: EVENTS };
                    assert_eq!(array.warnings, [behind]);
                }
                Err(error) => {
                    let hopeless = matches!(error, AssembleError::TooManyMissing { .. });
                    assert!(hopeless && world.record.geometry.redundancy() == 0, "{error}");
                }
            }
        }
    }
}

/// A member's failure is recorded on the others, on all or on some when the power fails.
#[test]
fn a_failed_member_stays_out() {
    for recorded in 1u64..4 {
        let mut world = World::new(Level::Raid6, 4, Consistency::Bitmap);
        let before = world.record.clone();
        let mut new = before.clone();
        new.events += 1;
        new.slots[3].state = SlotState::Failed;
        for member in Set::from_bits(recorded) {
            world.store_record(member, of_slot(member), &new);
        }
        let array = world.assemble(STRICT).expect("it is known that one has failed");
        assert_eq!(array.slots, [Some(0), Some(1), Some(2), None]);
        assert_eq!(array.stale, [3]);
        let label = "disk3".into();
        assert_eq!(array.warnings, [Warning::MayReturn { label, member: MemberId(3) }]);
        let left = Superblock { record: before.clone(), device: of_slot(3) };
        let back = may_return(&left, &array.record, before.areas.member_blocks());
        assert_eq!(back.map(|how| how.catches_up), Ok(false), "nothing tells when it has left");
    }
}

#[test]
fn who_was_replaced_stays_out() {
    let mut world = World::new(Level::Raid1, 2, Consistency::Bitmap);
    world.record.events += 10;
    world.record.slots[1].device = device(60);
    world.store_record(0, of_slot(0), &world.record.clone());
    let new = world.add_image(device(60));
    let array = world.assemble(STRICT).expect("the members are there");
    assert_eq!((array.slots, array.stale), (vec![Some(0), Some(new)], vec![1]));
}

/// Two halves of a mirror, each of which went on without the other.
#[test]
fn a_split_brain_is_noticed() {
    for (first, second) in [(1, 1), (1, 2), (5, 1), (20, 40)] {
        let mut world = World::new(Level::Raid1, 2, Consistency::Bitmap);
        for (member, went_on) in [(0, first), (1, second)] {
            let mut record = world.record.clone();
            record.events += went_on;
            record.slots[1 - member].state = SlotState::Failed;
            world.store_record(member, of_slot(member), &record);
        }
        for options in [STRICT, DEGRADED, FORCE] {
            let expected =
                AssembleError::SplitBrain { first: "disk0".into(), second: "disk1".into() };
            assert_eq!(world.assemble(options).err(), Some(expected), "{first}, {second}");
        }
        for gone in [0, 1] {
            let half = world
                .assemble_without(Set::one(MemberId::at(gone)), STRICT)
                .expect("each is an array");
            assert_eq!(half.record.slots[gone].state, SlotState::Failed);
        }
    }
}

/// RAID6 of four can be split into two arrays, too.
#[test]
fn halves_of_a_raid6_are_a_split_brain() {
    let mut world = World::new(Level::Raid6, 4, Consistency::Bitmap);
    for (half, went_on) in [([0, 1], 3), ([2, 3], 4)] {
        let mut record = world.record.clone();
        record.events += went_on;
        for member in 0..4 {
            if !half.contains(&member) {
                record.slots[member].state = SlotState::Failed;
            }
        }
        for member in half {
            world.store_record(member, of_slot(member), &record);
        }
    }
    assert!(matches!(world.assemble(FORCE), Err(AssembleError::SplitBrain { .. })));
    // One of each half is a split brain as well, not an array of two.
    let gone = Set::one(MemberId(0)).with(MemberId(3));
    assert!(matches!(world.assemble_without(gone, FORCE), Err(AssembleError::SplitBrain { .. })));
}

#[test]
fn a_spare_that_an_older_record_has_taken_out_of_service_is_a_split_brain() {
    let mut world = World::new(Level::Raid1, 3, Consistency::Bitmap);
    let mut newer = world.record.clone();
    newer.events += 5;
    newer.slots[1].state = SlotState::Failed;
    newer.slots[2].state = SlotState::Failed;
    newer.spares.push(device(70));
    world.store_record(0, of_slot(0), &newer);
    let mut older = world.record.clone();
    older.events += 1;
    (older.slots[1].device, older.slots[1].state) = (device(70), SlotState::Failed);
    world.store_record(2, of_slot(2), &older);
    assert!(matches!(world.assemble(FORCE), Err(AssembleError::SplitBrain { .. })));
}

#[test]
fn records_that_differ_at_one_count_are_a_split_brain() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    let mut other = world.record.clone();
    other.epoch += 1;
    world.store_record(1, of_slot(1), &other);
    assert!(matches!(world.assemble(FORCE), Err(AssembleError::SplitBrain { .. })));
}

/// A failed device counts for nothing even if its record is the second newest.
#[test]
fn stale_and_missing_members_add_up() {
    let mut world = World::new(Level::Raid6, 6, Consistency::Bitmap);
    let mut old = world.record.clone();
    old.events -= 7;
    world.store_record(0, of_slot(0), &old);
    assert!(world.assemble_without(Set::one(MemberId(5)), DEGRADED).is_ok());
    let error = world
        .assemble_without(Set::one(MemberId(5)).with(MemberId(4)), FORCE)
        .expect_err("three are lost");
    assert!(matches!(error, AssembleError::TooManyMissing { lost: 3, redundancy: 2, .. }));
}

/// An older release writes the version that it has found once more, without what it does not know, before it
/// changes anything: a start of it that is cut short leaves two records that differ in nothing else.
#[test]
fn a_start_of_a_release_that_knows_no_filled_ranges_is_no_split_brain() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    let mut known = world.record.clone();
    known.slots[2].state = SlotState::Rebuilding { watermark: 0 };
    let mut ranges = Ranges::none(known.geometry.stripes());
    ranges.add(1);
    known.filled = Some(FilledRanges { of: Filling::Device(device(3)), ranges });
    for member in 0..3 {
        world.store_record(member, of_slot(member), &known);
    }
    let options = AssembleOptions { degraded: true, ..STRICT };
    let filled = |world: &World| world.assemble(options).map(|assembled| assembled.record.filled);
    assert_eq!(filled(&world), Ok(known.filled));
    let unknown = ArrayRecord { filled: None, ..known.clone() };
    world.store_record(0, of_slot(0), &unknown);
    assert_eq!(filled(&world), Ok(None), "what one of them does not know counts for none");
    let other = ArrayRecord { name: "other".into(), ..unknown };
    world.store_record(0, of_slot(0), &other);
    assert!(matches!(filled(&world), Err(AssembleError::SplitBrain { .. })));
}

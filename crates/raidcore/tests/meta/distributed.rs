//! The distributed spare: where it is, and which members are missed when it replaces one.

use std::collections::BTreeSet;

use proptest::prelude::*;
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    AssembleError, Consistency, LayoutError, NewArray, SlotState, Spared, spare_copies,
};
use raidcore::units::{MemberId, Pba, Set, Stripe};

use crate::world::{ARRAY, DEGRADED, STRICT, World, distributed_record, of_slot};

fn new(level: Level, members: usize, chunk: u32, member_blocks: u64) -> NewArray {
    NewArray {
        array: ARRAY,
        name: "tank".into(),
        created: 1,
        level,
        placement: Placement::of(level),
        chunk,
        consistency: Consistency::Bitmap,
        devices: (0..members).map(of_slot).collect(),
        journal_blocks: 0,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: true,
        member_blocks: vec![member_blocks; members],
    }
}

proptest! {
    /// Whichever member fails: the copies of a chunk are on different members and not on the one
    /// that failed, no two overlap, all are within the spare, and hardly any of it is unused.
    #[test]
    fn every_copy_has_a_place_of_its_own(
        level in prop_oneof![Just(Level::Raid4), Just(Level::Raid5), Just(Level::Raid6)],
        members in 4usize..=32,
        chunk in 0u32..=4,
        blocks in 600u64..4000,
        failed in 0usize..32,
    ) {
        let record = new(level, members, 1 << chunk, blocks).record();
        prop_assume!(record.is_ok());
        let record = record.expect("it was just said");
        let (geometry, layout, areas) = (record.geometry, record.layout(), record.areas);
        let failed = MemberId::at(failed % members);
        let (Pba(start), spare) = (layout.data_end(failed), areas.distributed_spare_blocks());
        let data_end = areas.data_start().0 + geometry.stripes() * u64::from(geometry.chunk());
        prop_assert_eq!(start, data_end);
        prop_assert_eq!(start + spare, areas.member_blocks());
        prop_assert!(areas.member_blocks() <= blocks);
        let mut taken = BTreeSet::new();
        for stripe in (0..geometry.stripes()).map(Stripe) {
            let copies = 0..spare_copies(&geometry);
            let places: Vec<_> =
                copies.map(|c| areas.on_distributed_spare(&layout, failed, stripe, c)).collect();
            let holders: BTreeSet<_> = places.iter().map(|&(MemberId(m), _)| m).collect();
            prop_assert_eq!(holders.len(), geometry.redundancy() + 1);
            prop_assert!(!holders.contains(&failed.0));
            prop_assert!(holders.iter().all(|&m| usize::from(m) < members));
            for (MemberId(member), Pba(at)) in places {
                let chunk = u64::from(geometry.chunk());
                prop_assert!((at - start).is_multiple_of(chunk) && at + chunk <= start + spare);
                prop_assert!(taken.insert((member, at)));
            }
        }
        let room = (members as u64 - 1) * (spare / u64::from(geometry.chunk()));
        prop_assert!(room - taken.len() as u64 <= members as u64 - 2);
    }
}

#[test]
fn it_takes_as_much_of_each_member_as_the_others_need_for_one() {
    // 100,000 blocks of RAID5 of five: of 6 parts 4 are data, 2 spare.
    let record = new(Level::Raid5, 5, 16, 100_000).record().expect("there is room");
    let (data, spare) = (record.geometry.stripes() * 16, record.areas.distributed_spare_blocks());
    assert_eq!(spare, (data / 16 * 2).div_ceil(4) * 16);
    let unused = 100_000 - record.areas.member_blocks();
    assert!(unused < 16 * 4, "{unused} blocks are of no use");
}

#[test]
fn without_parity_or_room_there_is_none() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid10] {
        let refused = new(level, 4, 16, 100_000).record();
        assert_eq!(refused, Err(LayoutError::NoDistributedSpare));
    }
    let Err(LayoutError::TooSmall { have: 300, need }) = new(Level::Raid5, 4, 64, 300).record()
    else {
        panic!("there is no room");
    };
    assert!(new(Level::Raid5, 4, 64, need).record().is_ok());
    assert!(new(Level::Raid5, 4, 64, need - 1).record().is_err());
}

/// An array whose spare holds a part of what was on member 1, which has failed.
fn spared(level: Level, members: usize, of_all: impl Fn(u64) -> u64) -> World {
    let mut record = distributed_record(level, members);
    let watermark = of_all(record.geometry.stripes());
    record.slots[1].state = SlotState::Failed;
    record.spared = Some(Spared { member: MemberId(1), watermark });
    World::of(record)
}

#[test]
fn who_is_stood_in_for_is_not_missed() {
    for (level, members, others) in [(Level::Raid5, 4, 1), (Level::Raid6, 6, 2)] {
        let world = spared(level, members, |stripes| stripes);
        let without = |count: usize| Set::first(count + 2).without(MemberId(0));
        assert!(world.assemble_without(without(0), STRICT).is_ok(), "{level:?}");
        let array =
            world.assemble_without(without(others), DEGRADED).expect("one more may be lost");
        assert_eq!(array.record.stood_in_for(), Some(MemberId(1)));
        let refused = world.assemble_without(without(others + 1), DEGRADED);
        assert!(matches!(refused, Err(AssembleError::TooManyMissing { .. })), "{level:?}");
    }
}

#[test]
fn who_is_stood_in_for_in_part_is() {
    let world = spared(Level::Raid5, 4, |stripes| stripes - 1);
    let array =
        world.assemble_without(Set::one(MemberId(1)), STRICT).expect("nobody else is missing");
    assert_eq!(array.record.stood_in_for(), None);
    let refused = world.assemble_without(Set::one(MemberId(1)).with(MemberId(2)), DEGRADED);
    assert!(matches!(refused, Err(AssembleError::TooManyMissing { lost: 2, .. })));
}

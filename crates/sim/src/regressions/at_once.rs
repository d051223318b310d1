//! Reads that nothing but their home concerns, which are begun without a walk.

use det::Instant;
use raidcore::engine::{Detour, Redirect, SteeringPolicy};
use raidcore::units::{MemberId, Set};
use raidlog::ONLY;

use super::*;

/// Goes around busy members, and waits for all others.
struct GoesAround;

impl SteeringPolicy for GoesAround {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        false
    }
}

/// RAID5 of three whose block 0 was written, and is at home on member 0, while nothing is under way.
fn written() -> (World, u64) {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let version = world.write_one(0);
    world.drain();
    world.machine.set_steering(ONLY, Some(Box::new(GoesAround)));
    (world, version)
}

#[test]
fn a_read_of_a_calm_member_is_one_io() {
    let (mut world, version) = written();
    world.ask(0, Op::Read, 0, 1);
    assert_eq!((world.ios.len(), world.ios[0].io.device), (1, DeviceId(0)));
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

#[test]
fn a_busy_member_is_gone_around() {
    let (mut world, version) = written();
    world.step(Input::Busy(Set::one(MemberId(0))));
    world.ask(0, Op::Read, 0, 1);
    assert!(
        world.ios.iter().all(|p| p.io.device != DeviceId(0)),
        "no read waits for the busy member"
    );
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
    assert_eq!(world.engine().counters().detours, 1);
}

#[test]
fn a_block_that_can_not_be_read_is_reconstructed_and_mended() {
    let (mut world, version) = written();
    let at = world.areas.data_start().0;
    world.disks[0].bad.insert(at, FOR_GOOD);
    world.ask(0, Op::Read, 0, 1);
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
    assert_eq!(world.engine().counters().reconstructed_reads, 1);
    assert!(!world.disks[0].bad.contains_key(&at), "it is written anew");
}

#[test]
fn a_member_that_goes_while_it_is_read_is_done_without() {
    let (mut world, version) = written();
    world.ask(0, Op::Read, 0, 1);
    world.step(Input::DeviceGone(DeviceId(0)));
    world.disks[0].gone = true;
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

#[test]
fn one_block_of_several_that_can_not_be_read_leaves_the_others_as_they_are() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let versions: Vec<_> = (0..4).map(|lba| world.write_one(lba)).collect();
    world.drain();
    let at = world.areas.data_start().0 + 2;
    world.disks[0].bad.insert(at, FOR_GOOD);
    world.ask(0, Op::Read, 0, 4);
    assert_eq!(world.ios.len(), 1);
    world.drain();
    for (block, version) in versions.into_iter().enumerate() {
        assert_eq!(version_of(block as u64, &world.memory.payload[0][block]), version);
    }
    assert!(!world.disks[0].bad.contains_key(&at), "it is written anew");
}

#[test]
fn either_copy_of_a_mirror_makes_up_for_the_other() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        for bad in 0..2 {
            let mut world = world(level, members, Consistency::Bitmap);
            let version = world.write_one(0);
            world.drain();
            let at = world.areas.data_start().0;
            world.disks[bad].bad.insert(at, FOR_GOOD);
            world.ask(0, Op::Read, 0, 1);
            assert_eq!(world.ios.len(), 1, "{level:?}");
            world.drain();
            assert_eq!(version_of(0, &world.memory.payload[0][0]), version, "{level:?} {bad}");
        }
    }
}

#[test]
fn who_waits_for_room_goes_on_when_a_read_has_ended() {
    let few = scenario(Level::Raid5, 3, Consistency::Bitmap);
    // One stripe of users' at a time.
    let mut world = play(1, Scenario { jobs: 5, background_jobs: 4, ..few });
    for tag in 0..4 {
        world.ask(tag, Op::Read, 8 * u64::from(tag), 1);
    }
    for left in (0..4).rev() {
        assert_eq!(world.ios.len(), 1, "{left} wait");
        assert!(world.end_one(|_| true));
    }
    assert!(world.requests.iter().all(Option::is_none), "all are answered");
}

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
    assert!(world.ios.iter().all(|p| p.io.device != DeviceId(0)), "nobody waits for who is busy");
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

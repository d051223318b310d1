//! Copies of popular blocks: their home may be busy, but has always the same content.

use det::Instant;
use raidcore::engine::{Detour, IoError, Redirect, SteeringPolicy};
use raidcore::units::{MemberId, Set};
use raidlog::ONLY;

use super::*;
use crate::disk::KEPT;
use crate::disk::Sick;

/// Wants a copy of every block that is read.
struct Keeper;

impl SteeringPolicy for Keeper {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        false
    }

    fn keeps(&mut self, _: Instant, _: MemberId, _: Lba, _: u32) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        false
    }
}

/// The same, and reads go around busy members.
struct KeeperAround;

impl SteeringPolicy for KeeperAround {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        true
    }

    fn keeps(&mut self, _: Instant, _: MemberId, _: Lba, _: u32) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        false
    }
}

/// RAID5 of three. Block 0 was written and read: it is at home on member 0, and copied to member 1.
fn copied(seed: u64) -> (World, u64) {
    let mut world = staging::staging_world(seed);
    world.machine.set_steering(ONLY, Some(Box::new(Keeper)));
    let version = world.write_one(0);
    assert_eq!(world.read_one(0), version);
    assert_eq!(world.copies(), 1);
    (world, version)
}

impl World {
    fn copies(&self) -> u64 {
        self.engine().staging_status().expect("there is room for copies").copied
    }

    /// Reads block 0 while its home is busy; tells whether it was read from the copy.
    fn read_busy(&mut self) -> (u64, bool) {
        let before = self.engine().counters().copy_reads;
        self.step(Input::Busy(Set::one(MemberId(0))));
        let version = self.read_one(0);
        (version, self.engine().counters().copy_reads > before)
    }

    /// Reads blocks of member 2 one by one: enough that their copies fill the room on member 1. I/O
    /// that `waits` fits does not end.
    fn read_much(&mut self, waits: impl Fn(&Io) -> bool) {
        let geometry = *self.engine().geometry();
        for lba in (0..u64::from(geometry.stripe_blocks()) * 30).map(Lba) {
            let (stripe, offset) = geometry.locate(lba);
            let (role, _) = geometry.chunk_at(offset);
            if geometry.member(stripe, role) == MemberId(2) {
                self.ask(1, Op::Read, lba.0, 1);
                self.end_all(|io| !waits(io));
            }
        }
    }

    fn reads_copy(&self) -> impl Fn(&Io) -> bool + use<> {
        let data = self.areas.data_start();
        move |io: &Io| matches!(io.op, IoOp::Read(_)) && io.at < data
    }
}

#[test]
fn a_busy_member_is_not_read_if_there_is_a_copy() {
    let (mut world, version) = copied(1);
    world.step(Input::Busy(Set::one(MemberId(0))));
    world.ask(0, Op::Read, 0, 1);
    assert!(!world.ios.iter().any(|p| p.io.device == DeviceId(0)), "nobody waits for who is busy");
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
    assert_eq!(world.engine().counters().copy_reads, 1);
}

#[test]
fn what_is_written_or_discarded_has_no_copy() {
    let (mut world, _) = copied(1);
    let version = world.write_one(0);
    assert_eq!(world.read_busy(), (version, false));
    let (mut world, _) = copied(1);
    let stripe = world.engine().geometry().stripe_blocks();
    world.ask(0, Op::Discard, 0, stripe);
    world.drain();
    assert_eq!(world.copies(), 0);
    assert_eq!(world.read_busy(), (version_of(0, &[0; KEPT]), false));
}

#[test]
fn a_new_member_has_no_copies() {
    let (mut world, version) = copied(1);
    world.replace(1);
    assert_eq!(world.read_busy(), (version, false));
}

#[test]
fn copies_that_make_room_are_not_read_any_more() {
    let (mut world, version) = copied(1);
    world.read_much(|_| false);
    assert_eq!(world.read_busy(), (version, false));
}

#[test]
fn what_is_being_read_makes_no_room() {
    let (mut world, version) = copied(1);
    world.step(Input::Busy(Set::one(MemberId(0))));
    world.ask(0, Op::Read, 0, 1);
    let waits = world.reads_copy();
    assert!(world.ios.iter().any(|p| waits(&p.io)), "the copy is being read");
    world.read_much(waits);
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

#[test]
fn what_could_not_be_written_is_no_copy() {
    for seed in 0..8 {
        let mut world = staging::staging_world(seed);
        world.machine.set_steering(ONLY, Some(Box::new(Keeper)));
        let version = world.write_one(0);
        world.command(Command::Fail(MemberId(2)));
        world.drain();
        world.ask(0, Op::Read, 0, 1);
        // Member 1 is needed, so it stays although it can't take the copy.
        world.end_all(|io| matches!(io.op, IoOp::Read(_)));
        world.disks[1].sick = Some(Sick::next(IoError::Medium));
        world.drain();
        assert_eq!(world.read_busy(), (version, false));
    }
}

#[test]
fn a_copy_that_can_not_be_read_is_read_at_home() {
    let (mut world, version) = copied(1);
    let (copies, _) = world.copies[0];
    world.disks[1].bad.insert(copies.0, FOR_GOOD);
    assert_eq!(world.read_busy().0, version);
    assert_eq!(world.results.iter().filter(|result| result.is_err()).count(), 0);
}

/// A member is lost, and reported as busy, while it is being read. The read then goes around it,
/// and its original buffer holds nothing of the block.
#[test]
fn what_is_read_from_the_others_in_the_end_is_not_copied_from_where_it_was_to_be_read_to() {
    let mut world = staging::staging_world(1);
    world.machine.set_steering(ONLY, Some(Box::new(KeeperAround)));
    // The parity is something else.
    world.write_one(4);
    let version = world.write_one(0);
    world.ask(0, Op::Read, 0, 1);
    world.step(Input::Busy(Set::one(MemberId(0))));
    world.disks[0].gone = true;
    world.drain();
    world.machine.set_steering(ONLY, Some(Box::new(Keeper)));
    assert_eq!(world.read_one(0), version);
}

//! Reads during writes of the same stripe.

use raidcore::units::{Mem, MemberId, Set};

use super::*;

/// RAID5 of three: blocks 0 to 3 are at home on member 0, 4 to 7 on member 1, parity on member 2. A
/// write of block 0 waits for member 0, which is slow.
fn waiting_write() -> (World, u64) {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    (0..8).for_each(|lba| {
        world.write_one(lba);
    });
    let other = world.write_one(5);
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| !takes_long(io));
    assert!(world.ios.iter().any(|p| takes_long(&p.io)), "the write is under way");
    (world, other)
}

fn takes_long(io: &Io) -> bool {
    io.device == DeviceId(0) && matches!(io.op, IoOp::Write { .. })
}

#[test]
fn a_read_does_not_wait_for_a_write_of_other_blocks() {
    let (mut world, other) = waiting_write();
    world.ask(1, Op::Read, 5, 1);
    assert!(world.end_one(|io| !takes_long(io)), "it has begun");
    assert_eq!(version_of(5, &world.memory.payload[1][0]), other);
    assert!(world.requests[1].is_none() && world.requests[0].is_some());
    world.drain();
}

#[test]
fn a_read_that_needs_parity_waits_for_the_write() {
    let (mut world, other) = waiting_write();
    let areas = world.areas.clone();
    world.disks[1].bad.insert(areas.data_start().0 + 1, FOR_GOOD);
    world.ask(1, Op::Read, 5, 1);
    world.end_all(|io| !takes_long(io));
    assert!(world.requests[1].is_some(), "parity is not what it will be");
    world.drain();
    assert_eq!(version_of(5, &world.memory.payload[1][0]), other);
}

#[test]
fn a_read_of_what_is_being_written_waits() {
    let (mut world, _) = waiting_write();
    world.ask(1, Op::Read, 0, 8);
    assert!(!world.end_one(|io| !takes_long(io)), "it has begun");
    world.drain();
}

#[test]
fn a_read_of_a_busy_member_waits_for_the_write_and_goes_around() {
    let (mut world, other) = waiting_write();
    world.step(Input::Busy(Set::one(MemberId(1))));
    world.ask(1, Op::Read, 5, 1);
    assert!(!world.ios.iter().any(|p| p.io.device == DeviceId(1)), "nobody waits for who is busy");
    world.drain();
    assert_eq!(version_of(5, &world.memory.payload[1][0]), other);
}

#[test]
fn a_read_of_what_is_being_mended_waits() {
    let mut world = world(Level::Raid6, 4, Consistency::Bitmap);
    let versions: Vec<u64> = (0..8).map(|lba| world.write_one(lba)).collect();
    let home = world.areas.data_start().0;
    // Blocks 0 and 4 are at home on members 1 and 2. Parity needs block 4, since block 0 can't be
    // read either: so parity is recomputed.
    for disk in 1..3 {
        world.disks[disk].bad.insert(home, FOR_GOOD);
    }
    world.ask(0, Op::Write, 0, 1);
    let mends = |io: &Io| io.device == DeviceId(2) && matches!(io.op, IoOp::Write { .. });
    world.end_all(|io| !mends(io));
    assert!(world.ios.iter().any(|p| mends(&p.io)), "it is being mended");
    world.ask(1, Op::Read, 4, 1);
    assert!(!world.end_one(|io| !mends(io)), "it has begun");
    world.drain();
    assert_eq!(version_of(4, &world.memory.payload[1][0]), versions[4]);
}

#[test]
fn a_write_that_mends_a_block_waits_for_who_reads_it() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let versions: Vec<u64> = (0..8).map(|lba| world.write_one(lba)).collect();
    let areas = world.areas.clone();
    world.disks[1].bad.insert(areas.data_start().0, FOR_GOOD);
    // The write reads block 4, too, for parity.
    world.ask(0, Op::Write, 0, 1);
    world.ask(1, Op::Read, 4, 1);
    let is_users = |io: &Io| matches!(io.op, IoOp::Read(Mem::Payload { .. }));
    assert!(world.ios.iter().any(|p| is_users(&p.io)), "it reads beside the write");
    world.end_all(|io| !is_users(io));
    assert!(world.requests.iter().flatten().count() == 2, "the write waits");
    world.drain();
    assert_eq!(world.read_one(4), versions[4]);
}

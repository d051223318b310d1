//! What is staged is kept in memory, and not read from the log. After each step it is compared with the log, and
//! memory that the engine calls free is spoilt.

use super::*;

/// RAID5 of three with a staging log, of which so many blocks are kept in memory. Block 0 is at home on member 0.
fn world(staged_blocks: u32) -> World {
    let scenario = scenario(Level::Raid5, 3, Consistency::Bitmap);
    let mut world = play(1, Scenario { staging: 128, busy: 1, staged_blocks, ..scenario });
    world.machine.set_steering(ONLY, Some(Box::new(All)));
    world
}

/// Blocks that were found in memory, and those that were read from the log.
fn found(world: &World) -> (u64, u64) {
    let counters = world.engine().counters();
    (counters.kept_reads, counters.staged_reads)
}

fn kept(world: &World) -> u64 {
    world.engine().staging_status().expect("there is a log").kept
}

/// No member is busy, and all comes home.
fn calm(world: &mut World) {
    world.step(Input::Busy(Set::EMPTY));
    world.until(|world| world.dirty() == 0 && !world.is_busy());
}

#[test]
fn users_and_what_comes_home_find_in_memory_what_fits_there() {
    for (room, in_memory) in [(0, 0), (2, 2), (64, 4)] {
        let mut world = world(room);
        world.busy(0);
        world.ask(0, Op::Write, 0, 4);
        world.drain();
        assert_eq!((world.dirty(), kept(&world)), (4, in_memory));
        world.ask(1, Op::Read, 0, 4);
        world.drain();
        let read = (in_memory, 4 - in_memory);
        assert_eq!(found(&world), read, "by the user, with room for {room}");
        calm(&mut world);
        assert_eq!(found(&world), (2 * read.0, 2 * read.1), "on the way home");
        assert_eq!(kept(&world), 0, "what is at home needs no room");
        world.verify();
    }
}

#[test]
fn memory_is_free_when_all_is_at_home() {
    let mut world = world(64);
    let all = world.engine().free_scratch().count();
    assert_eq!(all, usize::from(world.engine().scratch_buffers()));
    world.busy(0);
    world.write_one(0);
    assert!(world.engine().free_scratch().count() < all);
    calm(&mut world);
    assert_eq!(world.engine().free_scratch().count(), all);
}

#[test]
fn what_is_staged_again_is_kept_once_and_a_read_under_way_has_what_it_has_found() {
    let mut world = world(2);
    world.busy(0);
    world.write_one(0);
    let first = world.read_one(0);
    world.ask(1, Op::Read, 0, 1);
    // The read has not copied it yet when another is staged in its place.
    world.ask(2, Op::Write, 0, 1);
    assert_eq!(world.work.computes.len(), 2, "the copies of the read and of the write");
    world.end_compute(1);
    while world.end_one(|io| io.op == IoOp::Journal) {}
    assert!(world.requests[2].is_none() && world.requests[1].is_some());
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[1][0]), first, "it began before");
    let version = world.write_one(0);
    assert_eq!((world.dirty(), kept(&world)), (1, 1));
    assert_eq!(world.read_one(0), version);
    calm(&mut world);
    world.verify();
}

#[test]
fn what_a_crash_leaves_is_read_from_the_log() {
    let mut world = world(64);
    world.busy(0);
    let version = world.write_one(0);
    assert_eq!(kept(&world), 1);
    world.restart();
    assert_eq!((kept(&world), found(&world)), (0, (0, 1)), "it came home from the log");
    assert_eq!(world.read_one(0), version);
}

#[test]
fn what_is_in_memory_comes_home_though_no_member_has_it() {
    let mut world = world(64);
    world.busy(0);
    let version = world.write_one(0);
    for disk in 1..3 {
        let staged = world.areas.staging().0.0..world.areas.data_start().0;
        world.disks[disk].bad.extend(staged.map(|at| (at, FOR_GOOD)));
    }
    calm(&mut world);
    assert_eq!(world.read_one(0), version);
    world.verify();
}

#[test]
fn a_write_that_fails_keeps_nothing() {
    let mut world = world(64);
    world.busy(0);
    world.ask(0, Op::Write, 0, 1);
    world.command(Command::Fail(MemberId(1)));
    world.disks[2].gone = true;
    world.beyond = true;
    world.step(Input::DeviceGone(DeviceId(2)));
    world.drain();
    assert_eq!(kept(&world), 0);
}

#[test]
fn an_array_without_a_log_has_no_memory_for_it() {
    let buffers = |blocks| {
        let mut plain = scenario(Level::Raid5, 3, Consistency::Journal);
        plain.staged_blocks = blocks;
        play(1, plain).engine().scratch_buffers()
    };
    assert_eq!(buffers(4096), buffers(0));
}

#[test]
fn a_clean_stop_leaves_nothing_staged() {
    for room in [0, 64] {
        let mut world = world(room);
        world.busy(0);
        let version = world.write_one(0);
        assert_eq!(world.dirty(), 1);
        let number = world.command(Command::Stop);
        world.until(|world| world.answers.contains(&(number, Ok(()))));
        assert_eq!((world.dirty(), kept(&world)), (0, 0));
        world.restart();
        assert_eq!(world.read_one(0), version);
    }
}

//! A write or a flush that fails in exactly one phase, and the power failure that shows whether the
//! failure was reported and recorded in time.

use raidcore::engine::IoError;
use raidcore::meta::MetaPage;
use raidcore::units::Pba;

use super::*;
use crate::disk::Sick;

/// Seeds: chance decides which of the unflushed writes survive a power failure.
const SEEDS: std::ops::Range<u64> = 0..12;

pub(super) fn is_flush(io: &Io) -> bool {
    io.op == IoOp::Flush
}

pub(super) fn is_record(io: &Io) -> bool {
    matches!(io.op, IoOp::Store(MetaPage::Superblock { .. }))
}

impl World {
    /// Begins a write that only a flush makes durable; returns its version.
    pub(super) fn begin_unflushed(&mut self, lba: u64, blocks: u32) -> u64 {
        let request = Request { tag: Tag(0), op: Op::Write, lba: Lba(lba), blocks, fua: false };
        self.begin_request(request);
        version_of(lba, &self.memory.payload[0][0])
    }

    /// Runs until members are flushed, and fails the flush of one of them.
    fn fail_flush(&mut self, disk: usize) {
        self.end_all(|io| !is_flush(io));
        assert!(self.ios.iter().any(|p| is_flush(&p.io)), "a flush is under way");
        self.disks[disk].sick = Some(Sick::next(IoError::Medium));
        assert!(self.end_one(|io| is_flush(io) && io.device.0 as usize == disk));
    }
}

#[test]
fn a_flush_is_answered_when_it_is_on_record_who_has_failed_it() {
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid1, 3, Consistency::Bitmap));
        world.write_one(0);
        let version = world.begin_unflushed(0, 1);
        world.drain();
        world.ask(0, Op::Flush, 0, 0);
        world.fail_flush(1);
        world.end_all(|io| !is_record(io));
        while world.requests[0].is_some() {
            world.proceed();
        }
        // The failed member is back, and would be read first.
        world.disks[0].gone = true;
        world.cut_power();
        world.drain();
        assert_eq!(world.read_one(0), version, "seed {seed}");
    }
}

/// Writes that a member has lost by an internal flush's failure are not made durable by the next
/// flush either.
#[test]
fn a_flush_does_not_make_up_for_one_that_failed_before_it() {
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid0, 2, Consistency::Resync));
        world.beyond = true;
        world.begin_unflushed(0, 8);
        world.drain();
        // Of another user, which gets the error.
        world.ask(1, Op::Flush, 0, 0);
        world.fail_flush(0);
        world.drain();
        assert_eq!(world.last(), Err(RequestError::Io), "seed {seed}");
        world.ask(0, Op::Flush, 0, 0);
        world.drain();
        assert_eq!(world.last(), Err(RequestError::Io), "seed {seed}");
        let number = world.command(Command::Stop);
        while !world.answers.iter().any(|(answered, _)| *answered == number) {
            world.proceed();
        }
        assert!(world.superblocks().all(|(_, superblock)| !superblock.record.clean));
    }
}

/// Each copy of the record under way is torn, on all members, none of which can be missing.
#[test]
fn a_record_that_is_being_stored_leaves_enough_copies_of_one() {
    for second in [false, true] {
        let mut world = world(Level::Raid0, 2, Consistency::Resync);
        world.command(Command::SetPolicy(PolicyName::new("new").expect("a name")));
        let begun = world.ios.len();
        (0..begun).filter(|_| second).for_each(|_| assert!(world.end_one(is_record)));
        assert!(world.tear(is_record) > 0);
        world.cut_power();
        world.drain();
        world.write_one(0);
    }
}

/// A degraded stripe is half at home: its journal entry stays until the stripe is durably at home.
#[test]
fn an_entry_outlives_a_flush_that_failed() {
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid5, 3, Consistency::Journal));
        let geometry = *world.engine.geometry();
        world.write_one(0);
        let neighbour = world.write_one(4);
        world.command(Command::Fail(geometry.member(Stripe(0), Role(1))));
        world.drain();
        world.begin_unflushed(0, 1);
        world.end_all(|io| !is_flush(io));
        world.beyond = true;
        // These are internal flushes.
        for fails in [true, false, false] {
            world.now = world.now + Duration::from_secs(6);
            world.step(Input::Tick);
            if fails {
                world.fail_flush(geometry.member(Stripe(0), Role(2)).index());
            }
            world.drain();
        }
        world.cut_power();
        world.drain();
        assert_eq!(world.read_one(4), neighbour, "seed {seed}: nobody has written there");
    }
}

/// A member is lost during a write, and returns with the power, before the others have recorded its
/// loss.
#[test]
fn a_write_is_answered_when_it_is_on_record_who_has_missed_it() {
    let mut world = world(Level::Raid1, 3, Consistency::Bitmap);
    world.write_one(0);
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| !matches!(io.op, IoOp::Write { .. }));
    world.disks[1].gone = true;
    world.step(Input::DeviceGone(DeviceId(1)));
    world.end_all(|io| !is_record(io));
    world.disks[1].gone = false;
    world.disks[0].gone = true;
    world.cut_power();
    world.drain();
    world.verify();
}

#[test]
fn a_stripe_is_real_when_it_is_on_record_who_lacks_it() {
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid1, 3, Consistency::Bitmap));
        let (lba, blocks) = (20, 4);
        world.ask(0, Op::Write, lba, blocks);
        world.drain();
        world.ask(0, Op::WriteZeroes, lba, blocks);
        world.drain();
        let version = world.begin_unflushed(lba, blocks);
        world.fail_flush(1);
        world.end_all(|io| !is_record(io));
        world.disks[0].gone = true;
        world.cut_power();
        world.drain();
        let found = world.read_one(lba);
        assert!([0, version].contains(&found), "seed {seed}: {found} was there before the zeroes");
    }
}

#[test]
fn a_stripe_does_not_become_real_if_its_flush_fails() {
    let mut world = world(Level::Raid0, 2, Consistency::Bitmap);
    world.ask(0, Op::WriteZeroes, 40, 8);
    world.drain();
    world.beyond = true;
    world.begin_unflushed(40, 8);
    world.fail_flush(0);
    world.drain();
    assert_eq!(world.last(), Err(RequestError::Io), "it may not be there after a crash");
}

#[test]
fn a_stop_whose_flush_fails_is_not_clean() {
    let mut world = world(Level::Raid0, 2, Consistency::Bitmap);
    world.begin_unflushed(0, 8);
    world.drain();
    world.beyond = true;
    let number = world.command(Command::Stop);
    world.fail_flush(0);
    while !world.answers.iter().any(|(answered, _)| *answered == number) {
        world.proceed();
    }
    assert!(world.superblocks().all(|(_, superblock)| !superblock.record.clean));
}

#[test]
fn the_entry_of_a_write_that_failed_is_carried_out_by_the_next_start() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    let geometry = *world.engine.geometry();
    let stripe = Stripe(0);
    let neighbour = world.write_one(0);
    world.write_one(4);
    let lost = geometry.member(stripe, Role(0));
    world.disks[lost.index()].gone = true;
    world.step(Input::DeviceGone(DeviceId(lost.index() as u32)));
    world.drain();
    // The parity can't be written, so the write fails when its data is at home.
    let (parity, Pba(at)) = world.engine.layout().place(stripe, Role(2));
    world.beyond = true;
    world.disks[parity.index()].unwritable.insert(at);
    world.write_one(4);
    assert_eq!(world.last(), Err(RequestError::Io));
    // The failed write is not at home, however often it is flushed.
    for _ in 0..3 {
        world.now = world.now + Duration::from_secs(6);
        world.step(Input::Tick);
        world.drain();
        world.ask(0, Op::Flush, 0, 0);
        world.drain();
    }
    world.disks[parity.index()].unwritable.clear();
    world.restart();
    assert_eq!(world.read_one(0), neighbour, "nobody has written there");
}

#[test]
fn a_start_that_a_full_member_keeps_from_its_journal_serves_reads_and_loses_no_entry() {
    for refusing in [Role(0), Role(2), Role(3)] {
        let mut world = world(Level::Raid5, 4, Consistency::Journal);
        let geometry = *world.engine.geometry();
        let (stripe, lost) = (Stripe(0), Role(1));
        let (full, Pba(at)) = world.engine.layout().place(stripe, refusing);
        let full = full.index();
        let kept = world.write_one(3);
        let elsewhere = world.write_one(u64::from(geometry.stripe_blocks()));
        world.command(Command::Fail(geometry.member(stripe, lost)));
        world.drain();
        // Acknowledged, and durable in the journal only: they are in row 0 of roles 0 and 2.
        let row = [0, 8].map(|lba| world.write_one(lba));
        for _ in 0..2 {
            world.ios.clear();
            world.power_off();
            world.disks[full].unwritable.insert(at);
            world.power_on(Outage::Quiet);
            world.drain();
            world.beyond = true;
            assert!(world.engine.is_serving(), "{refusing:?} refuses");
            assert_eq!(world.read_one(u64::from(geometry.stripe_blocks())), elsewhere);
            for (lba, version) in [(3, kept), (4, 0), (0, row[0]), (8, row[1])] {
                let found = world.read_one(lba);
                let role = Role(lba as u8 / 4);
                let is_there = ![refusing, lost].contains(&role);
                let expected = if is_there { Ok(()) } else { Err(RequestError::Io) };
                assert_eq!(world.last(), expected, "{refusing:?} refuses, {lba} is read");
                assert!(!is_there || found == version);
            }
            world.write_one(20);
            assert_eq!(world.last(), Err(RequestError::Io), "no writes are taken");
        }
        world.restart();
        assert_eq!([0, 8].map(|lba| world.read_one(lba)), row);
        assert_eq!(world.read_one(3), kept);
        // Nor does this end with an error.
        world.write_one(20);
    }
}

#[test]
fn nothing_is_made_of_redundancy_that_a_failed_write_has_left_out_of_step() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let geometry = *world.engine.geometry();
    let stripe = Stripe(0);
    world.write_one(0);
    let neighbour = world.write_one(4);
    let lost = geometry.member(stripe, Role(1));
    world.command(Command::Fail(lost));
    world.drain();
    assert_eq!(world.read_one(4), neighbour);
    // The write reaches its block and not the parity.
    let (parity, Pba(at)) = world.engine.layout().place(stripe, Role(2));
    world.beyond = true;
    world.disks[parity.index()].unwritable.insert(at);
    world.write_one(0);
    assert_eq!(world.last(), Err(RequestError::Io));
    world.read_one(4);
    assert_eq!(world.last(), Err(RequestError::Io), "nothing tells what was there");
    // Nor does a start after a clean stop.
    for _ in 0..3 {
        world.now = world.now + Duration::from_secs(6);
        world.step(Input::Tick);
        world.drain();
    }
    assert!(world.engine.status().dirty_regions.0 > 0);
    let number = world.command(Command::Stop);
    while !world.answers.iter().any(|(answered, _)| *answered == number) {
        world.proceed();
    }
    assert!(world.superblocks().all(|(_, superblock)| !superblock.record.clean));
}

/// A degraded stripe whose write is in the journal and not at home: the start replays it, and the
/// flush after that fails on a member that can't be missing.
#[test]
fn what_was_carried_out_and_not_flushed_is_carried_out_by_the_next_start() {
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid5, 3, Consistency::Journal));
        let geometry = *world.engine.geometry();
        let (stripe, lost) = (Stripe(0), Role(1));
        world.write_one(0);
        let neighbour = world.write_one(4);
        world.command(Command::Fail(geometry.member(stripe, lost)));
        world.drain();
        world.ask(0, Op::Write, 0, 1);
        world.end_all(|io| !matches!(io.op, IoOp::Write { .. }));
        world.cut_power();
        world.beyond = true;
        world.fail_flush(geometry.member(stripe, Role(2)).index());
        world.drain();
        assert!(!world.engine.is_serving(), "seed {seed}");
        world.cut_power();
        world.drain();
        assert_eq!(world.read_one(4), neighbour, "seed {seed}: nobody has written there");
    }
}

//! Faults of the staging log that take a failure at one exact moment.

mod beside;
mod chosen;
mod elsewhere;
mod kept;
mod together;
mod twins;

use det::Instant;
use raidcore::engine::{ArrayHealth, Detour, HomeWaits, Redirect, SteeringPolicy};
use raidcore::meta::{MetaPage, SlotState};
use raidcore::units::{MemberId, Set};
use raidlog::ONLY;

pub(super) use self::beside::Log;
use super::*;
use crate::disk::Sick;

/// RAID5 of three with a staging log. Block 0 is at home on member 0, its parity on member 2.
pub(super) fn staging_world(seed: u64) -> World {
    let mut scenario = scenario(Level::Raid5, 3, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    play(seed, scenario)
}

impl World {
    pub(super) fn busy(&mut self, member: usize) {
        self.step(Input::Busy(Set::one(MemberId::at(member))));
    }

    /// The power fails and returns, and the first block's stripe lacks more than redundancy makes up for.
    pub(super) fn start_without_home(&mut self) {
        self.ios.clear();
        self.power_off();
        self.disks[0].gone = true;
        self.disks[1].bad.insert(self.areas.data_start().0, FOR_GOOD);
        self.power_on(Outage::Quiet);
        self.beyond = true;
    }

    pub(super) fn dirty(&self) -> u64 {
        self.engine().staging_status().expect("there is a log").dirty
    }

    /// Fails a member, and fills a spare in its place. Writes to the log end only when there is
    /// nothing else to wait for.
    pub(super) fn replace(&mut self, member: u8) {
        self.command(Command::Fail(MemberId(member)));
        let spare = self.new_spare();
        self.command(spare);
        let is_up = |world: &Self| {
            let slot = world.engine().members().nth(member.into()).expect("a member");
            slot.device.is_some() && slot.state == SlotState::Up
        };
        for _ in 0..100_000 {
            if is_up(self) {
                return;
            }
            if !self.end_but_for_the_log() {
                match self.ios.is_empty() {
                    true => self.pass_time(),
                    false => self.end_io(0),
                }
            }
        }
        panic!("the member is not filled");
    }

    pub(super) fn end_but_for_the_log(&mut self) -> bool {
        self.end_first_compute() || self.end_one(|io| io.op != IoOp::Journal)
    }

    /// A disk is lost with the power, which returns at once.
    fn restart_without(&mut self, disk: usize) {
        self.disks[disk].gone = true;
        self.restart();
    }
}

/// Everything that can go around busy members does.
struct All;

impl SteeringPolicy for All {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        true
    }
}

#[test]
fn what_is_staged_at_once_is_spread_over_all_who_are_calm() {
    for busy in 0..5 {
        let mut scenario = scenario(Level::Raid5, 5, Consistency::Resync);
        (scenario.staging, scenario.busy) = (128, 1);
        let mut world = play(1, scenario);
        world.machine.set_steering(ONLY, Some(Box::new(All)));
        world.busy(busy);
        // Four whole stripes, each with a part on a busy member.
        (0..4).for_each(|tag| world.ask(tag, Op::Write, u64::from(tag) * 16, 12));
        let copies = |disk: usize| {
            let of_disk = |io: &Io| io.op == IoOp::Journal && io.device.0 as usize == disk;
            world.ios.iter().filter(|pending| of_disk(&pending.io)).count()
        };
        let counts: Vec<_> = (0..5).filter(|&disk| disk != busy).map(copies).collect();
        assert_eq!(counts, [2; 4], "member {busy} is busy");
        world.drain();
    }
}

#[test]
fn what_is_staged_comes_home_when_users_want_nothing_or_it_was_long_ago() {
    for long_ago in [false, true] {
        let mut world = staging_world(1);
        world.busy(0);
        let version = world.write_one(0);
        world.ask(1, Op::Read, 100, 1);
        world.step(Input::Busy(Set::EMPTY));
        assert!(world.ios.len() == 1 && world.dirty() == 1, "there is but the read");
        if long_ago {
            world.now = world.now + Duration::from_secs(60);
            world.step(Input::Tick);
            assert!(world.ios.len() > 1 && world.requests[1].is_some(), "users still wait");
        }
        world.drain();
        assert_eq!(world.dirty(), 0);
        assert_eq!(world.read_one(0), version);
    }
}

#[test]
fn a_new_member_does_not_make_up_for_what_it_does_not_hold() {
    let mut world = staging_world(1);
    world.busy(0);
    let version = world.write_one(0);
    assert_eq!(world.dirty(), 1, "it is on members 1 and 2");
    world.replace(1);
    world.disks[2].gone = true;
    world.step(Input::DeviceGone(DeviceId(2)));
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_new_member_does_not_make_up_for_the_tail_that_it_does_not_know() {
    let mut world = staging_world(1);
    world.busy(0);
    world.write_one(0);
    // It comes home, and members 0 and 1 record that.
    world.step(Input::Busy(Set::EMPTY));
    world.drain();
    assert!(!world.engine().is_staged(Lba(0)));
    world.replace(0);
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    while world.requests[0].is_some() {
        assert!(world.end_but_for_the_log(), "a write waits for nothing else");
    }
    world.restart_without(1);
    assert_eq!(world.read_one(0), version, "member 2 does not bring the past back");
}

#[test]
fn what_is_about_to_be_void_is_not_read() {
    let mut world = staging_world(1);
    world.busy(0);
    let version = world.write_one(0);
    world.step(Input::Busy(Set::EMPTY));
    world.end_all(|io| io.op != IoOp::Journal);
    assert!(world.engine().is_staged(Lba(0)) && !world.ios.is_empty(), "the tail is being told");
    world.busy(0);
    world.ask(0, Op::Read, 0, 1);
    // Then the log is void before the read of it has ended.
    world.end_all(|io| io.op == IoOp::Journal);
    assert!(!world.engine().is_staged(Lba(0)));
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

#[test]
fn a_marker_waits_until_it_is_on_record_who_lacks_what_it_stands_for() {
    for seed in 0..20 {
        let mut world = staging_world(seed);
        world.busy(0);
        let staged = world.write_one(0);
        world.machine.set_steering(ONLY, None);
        let write = Request { tag: Tag(0), op: Op::Write, lba: Lba(0), blocks: 1, fua: false };
        world.begin_request(write);
        let version = version_of(0, &world.memory.payload[0][0]);
        let home = world.areas.data_start().0;
        let is_home = |world: &World| version_of(0, world.disks[0].data(home)) == version;
        let flushes = |world: &World| world.ios.iter().any(|p| p.io.op == IoOp::Flush);
        while !is_home(&world) || !flushes(&world) {
            world.proceed();
        }
        // Member 0, which has it in its cache, fails; the power fails before that is on record.
        world.disks[0].sick = Some(Sick::next(raidcore::engine::IoError::Medium));
        while world.end_one(|io| io.op == IoOp::Flush) {}
        while world.end_one(|io| io.op == IoOp::Journal) {}
        world.cut_power();
        world.drain();
        let found = world.read_one(0);
        assert!(found == staged || found == version, "{found} is older");
    }
}

#[test]
fn users_are_served_when_what_was_staged_is_void() {
    let mut world = staging_world(1);
    world.busy(0);
    world.write_one(0);
    world.cut_power();
    let records = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::Superblock { .. }));
    while !world.engine().is_serving() {
        world.proceed();
    }
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    while world.requests[0].is_some() {
        let ended = world.end_first_compute() || world.end_one(|io| !records(io));
        assert!(ended, "a write waits for nothing else");
    }
    // The member with the newest record that the log is void is lost with the power.
    let pending = |disk: &usize| {
        let of_disk = |io: &Io| records(io) && io.device.0 as usize == *disk;
        world.ios.iter().filter(|p| of_disk(&p.io)).count()
    };
    let lost = (0..3).min_by_key(pending).expect("there are three");
    world.disks[lost].gone = true;
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), version, "nothing older is brought home");
}

#[test]
fn what_was_staged_is_void_when_it_is_at_home_for_good() {
    for seed in 0..20 {
        let mut world = staging_world(seed);
        world.busy(0);
        let version = world.write_one(0);
        world.cut_power();
        // No flush ends, unless there is nothing else to wait for.
        for _ in 0..10_000 {
            let flushes = |io: &Io| io.op == IoOp::Flush;
            let ended = world.end_first_compute() || world.end_one(|io| !flushes(io));
            if world.engine().is_serving() {
                break;
            }
            if !ended {
                world.proceed();
            }
        }
        world.cut_power();
        world.drain();
        assert_eq!(world.read_one(0), version);
    }
}

/// A staged block can't be read from either of its holders. Then one of these is replaced, which
/// can't end before the log is empty.
fn with_a_lost_block() -> (World, u64) {
    let mut world = staging_world(1);
    world.beyond = true;
    world.busy(0);
    world.write_one(0);
    let beside = world.write_one(1);
    let (start, _) = world.areas.staging();
    for disk in 1..3 {
        // The first entry's header is before it.
        world.disks[disk].bad.insert(start.0 + 1, FOR_GOOD);
    }
    world.command(Command::Fail(MemberId(1)));
    let spare = world.new_spare();
    world.command(spare);
    world.turns(20_000);
    assert_ne!(world.engine().array_health(), ArrayHealth::Online, "the log is not empty");
    (world, beside)
}

#[test]
fn blocks_that_are_lost_are_told_and_others_of_their_stripe_are_read() {
    let (mut world, beside) = with_a_lost_block();
    assert_eq!(world.engine().status().lost, [(Lba(0), 1)]);
    world.read_one(0);
    assert_eq!(world.last(), Err(RequestError::Io));
    assert_eq!(world.read_one(1), beside);
}

/// It is tried when that is asked for, and then given up.
#[test]
fn what_can_not_come_home_is_told_once_it_was_tried() {
    let (mut world, _) = with_a_lost_block();
    world.ask(0, Op::Write, 40, 1);
    world.command(Command::BringHome);
    let staging = |world: &World| world.engine().status().staging.expect("there is a log");
    assert!(staging(&world).hurried);
    while staging(&world).hurried {
        world.proceed();
    }
    assert_eq!((staging(&world).dirty, staging(&world).waits), (2, Some(HomeWaits::Stuck)));
}

#[test]
fn a_mark_does_not_wait_for_a_member_that_it_can_do_without() {
    for (busy, staged) in [(1, 0), (4, 1)] {
        let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
        (scenario.staging, scenario.busy) = (128, 1);
        let mut world = play(1, scenario);
        world.write_one(0);
        world.rest();
        world.busy(busy);
        world.write_one(0);
        assert_eq!(world.dirty(), staged, "{busy}");
    }
}

/// A mark is being stored on a member that becomes busy: writes that need the same page are staged, and
/// end without it.
#[test]
fn a_write_does_not_wait_for_a_mark_that_is_under_way_on_a_busy_member() {
    let is_mark = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }));
    for lba in (96..400).step_by(4) {
        let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
        (scenario.staging, scenario.busy) = (128, 1);
        let mut world = play(1, scenario);
        world.ask(0, Op::Write, 0, 1);
        world.end_all(|io| !is_mark(io));
        let mark = world.ios.iter().map(|p| p.io).find(is_mark).expect("a mark is being stored");
        world.busy(mark.device.0 as usize);
        world.ask(1, Op::Write, lba, 1);
        world.end_all(|io| io.id != mark.id);
        assert!(world.requests[1].is_none(), "block {lba}");
    }
}

/// What a member misses that may return is noted on all others before a write goes home.
#[test]
fn a_write_does_not_wait_for_a_busy_member_to_note_what_another_one_misses() {
    for lba in (0..400).step_by(4) {
        let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
        (scenario.staging, scenario.busy) = (128, 1);
        let mut world = play(1, scenario);
        world.command(Command::Fail(MemberId(3)));
        world.drain();
        world.busy(1);
        world.ask(0, Op::Write, lba, 1);
        world.end_all(|io| io.device != DeviceId(1));
        assert!(world.requests[0].is_none(), "block {lba}");
    }
}

#[test]
fn holders_that_lack_different_blocks_have_all_of_them_together() {
    let mut world = staging_world(1);
    world.busy(0);
    world.ask(0, Op::Write, 0, 4);
    let versions: Vec<u64> =
        (0..4).map(|at| version_of(at, &world.memory.payload[0][at as usize])).collect();
    world.drain();
    assert_eq!(world.dirty(), 4);
    let (log, _) = world.areas.staging();
    for (member, block) in [(1, 0), (1, 1), (2, 2)] {
        world.disks[member].bad.insert(log.0 + 1 + block, FOR_GOOD);
    }
    world.ask(0, Op::Read, 0, 4);
    world.drain();
    let read: Vec<u64> =
        (0..4).map(|at| version_of(at, &world.memory.payload[0][at as usize])).collect();
    assert_eq!(read, versions);
    world.step(Input::Busy(Set::EMPTY));
    world.drain();
    assert_eq!((world.dirty(), world.engine().status().lost), (0, vec![]));
    assert_eq!(world.read_one(2), versions[2]);
}

#[test]
fn a_rebuild_ends_when_lost_blocks_are_written_or_discarded() {
    for op in [Op::Write, Op::WriteZeroes, Op::Discard] {
        let (mut world, beside) = with_a_lost_block();
        world.ask(0, op, 0, 1);
        let version = version_of(0, &world.memory.payload[0][0]);
        world.drain();
        assert_eq!(world.last(), Ok(()));
        assert_eq!(world.engine().status().lost, []);
        world.turns(20_000);
        assert_eq!(world.engine().array_health(), ArrayHealth::Online, "{op:?}");
        assert_eq!(world.dirty(), 0);
        let expected = if op == Op::Write { version } else { 0 };
        assert_eq!((world.read_one(0), world.read_one(1)), (expected, beside));
    }
}

#[test]
fn what_a_start_brings_home_is_told() {
    let mut world = staging_world(1);
    world.busy(0);
    world.write_one(0);
    world.write_one(1);
    world.cut_power();
    world.drain();
    let told = Note::StagedReclaimed { blocks: 2 };
    assert!(world.notes.contains(&told), "{:?}", world.notes);
    world.restart();
    assert!(!world.notes.contains(&told), "it is at home: {:?}", world.notes);
}

#[test]
fn who_is_gone_around_is_counted() {
    let mut world = staging_world(1);
    let avoided = |world: &World| -> Vec<(u64, u64)> {
        world.engine().members().map(|m| (m.avoided.reads, m.avoided.writes)).collect()
    };
    world.write_one(0);
    assert_eq!(avoided(&world), [(0, 0); 3]);
    world.busy(0);
    world.read_one(0);
    assert_eq!(avoided(&world), [(1, 0), (0, 0), (0, 0)]);
    world.write_one(0);
    assert_eq!(avoided(&world), [(1, 1), (0, 0), (0, 0)]);
    // Its parity is on member 2.
    world.busy(2);
    world.write_one(2);
    assert_eq!(avoided(&world), [(1, 1), (0, 0), (0, 1)]);
}

#[test]
fn what_can_not_come_home_before_a_stop_is_there_after_the_next_start() {
    let mut world = staging_world(1);
    world.beyond = true;
    world.busy(0);
    let version = world.write_one(0);
    let (log, _) = world.areas.staging();
    for disk in 1..3 {
        // The entry's header is before it.
        world.disks[disk].bad.insert(log.0 + 1, FOR_GOOD);
    }
    let number = world.command(Command::Stop);
    while !world.answers.iter().any(|(answered, _)| *answered == number) {
        world.proceed();
    }
    assert_eq!(world.dirty(), 1, "it could not be read");
    world.disks.iter_mut().for_each(|disk| disk.bad.clear());
    world.restart();
    assert_eq!(world.read_one(0), version);
}

/// A block is being staged again when the power fails. One holder has the new entry, but can't read
/// it any more.
#[test]
fn what_was_not_acknowledged_and_can_not_be_read_hides_nothing() {
    let mut world = staging_world(1);
    world.busy(0);
    let version = world.write_one(0);
    world.ask(0, Op::Write, 0, 1);
    let entry = world.ios.iter().map(|p| p.io).find(|io| io.op == IoOp::Journal);
    let entry = entry.expect("it is staged");
    assert!(world.end_one(|io| *io == entry));
    world.ios.clear();
    world.power_off();
    // The header is before it.
    world.disks[entry.device.0 as usize].bad.insert(entry.at.0 + 1, FOR_GOOD);
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!(world.read_one(0), version);
}

/// A start lacks a member, and can't read a block of another one in a stripe with blocks to be
/// brought home. Everything else can be read, and nothing is written.
#[test]
fn a_start_that_can_not_bring_a_block_home_serves_reads() {
    let mut world = staging_world(1);
    let elsewhere = world.write_one(16);
    world.rest();
    world.busy(0);
    let staged = world.write_one(0);
    world.start_without_home();
    world.drain();
    assert_eq!((world.read_one(0), world.read_one(16)), (staged, elsewhere));
    world.write_one(16);
    assert_eq!(world.last(), Err(RequestError::Io));
    world.disks[1].bad.clear();
    world.cut_power();
    world.drain();
    assert_eq!((world.read_one(0), world.read_one(16)), (staged, elsewhere));
    let newer = world.write_one(16);
    assert_eq!(world.read_one(16), newer);
}

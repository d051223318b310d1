//! Hedged reads: the late one must have no effect.

use std::sync::{Arc, Mutex};

use det::Instant;
use raidcore::engine::{Detour, Outcome, Redirect, SteeringPolicy, Way, Why};
use raidcore::units::{Mem, MemberId, Set};
use raidlog::ONLY;

use super::*;

/// Reads that take longer than this are hedged.
const PATIENCE: Duration = Duration::from_millis(1);

/// What a policy was told.
#[derive(Default)]
struct Told {
    /// Where the latest read went that has ended, if any has.
    way: Option<Way>,
    /// After which times reads have ended both ways.
    hedged: Vec<(Duration, Duration)>,
    /// How often it was asked whether a read is worth trying elsewhere.
    asked: u32,
}

type Shared = Arc<Mutex<Told>>;

fn told(shared: &Shared) -> std::sync::MutexGuard<'_, Told> {
    shared.lock().expect("no test has failed here")
}

/// Hedges what takes long.
#[derive(Default)]
struct Impatient {
    told: Shared,
    /// Whether it stages what it can.
    stages: bool,
    /// Whether no read is worth trying elsewhere.
    refuses: bool,
}

impl SteeringPolicy for Impatient {
    fn ended(&mut self, outcome: Outcome) {
        told(&self.told).way = Some(outcome.way);
    }

    fn hedged(&mut self, _: u32, took: Duration, home: Duration) {
        told(&self.told).hedged.push((took, home));
    }

    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        told(&self.told).asked += 1;
        !self.refuses
    }

    fn patience(&mut self, _: Instant, _: u32) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        self.stages
    }
}

/// Blocks 0 and 1 were written, and a read of them waits for member 0, which is slow; the others
/// have answered. Returns the version.
fn stalled(level: Level) -> (World, u64) {
    let (world, version, _) = watched(level);
    (world, version)
}

/// The same, with what the policy is told.
fn watched(level: Level) -> (World, u64, Shared) {
    let mut world = world(level, 3, Consistency::Bitmap);
    let version = world.write_one(0);
    let shared = Shared::default();
    let policy = Impatient { told: shared.clone(), ..Impatient::default() };
    world.machine.set_steering(ONLY, Some(Box::new(policy)));
    world.ask(0, Op::Read, 0, 1);
    assert_eq!((world.ios.len(), world.ios[0].io.device), (1, DeviceId(0)));
    patience_ends(&mut world);
    (world, version, shared)
}

fn others(io: &Io) -> bool {
    io.device != DeviceId(0)
}

/// The devices with I/O under way, the first asked first.
fn devices(world: &World) -> Vec<u32> {
    world.ios.iter().map(|p| p.io.device.0).collect()
}

/// A read to a user's memory.
fn into_users(io: &Io) -> bool {
    matches!(io.op, IoOp::Read(Mem::Payload { .. }))
}

/// A read that is under way has taken long.
fn patience_ends(world: &mut World) {
    world.now = world.now + PATIENCE;
    world.step(Input::Tick);
}

#[test]
fn the_others_answer_for_who_takes_long() {
    for level in [Level::Raid1, Level::Raid4, Level::Raid5] {
        let (mut world, version) = stalled(level);
        while world.requests[0].is_some() {
            let ended = world.end_first_compute() || world.end_one(others);
            assert!(ended, "{level:?} waits for member 0");
        }
        assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
        let counters = world.engine().counters();
        assert_eq!((counters.hedged_reads, counters.hedges_won), (1, 1));
        // The late read does not write to memory that is reused by now.
        world.ask(0, Op::Write, 5, 1);
        let other = version_of(5, &world.memory.payload[0][0]);
        world.drain();
        assert_eq!((world.read_one(0), world.read_one(5)), (version, other));
    }
}

/// A read of two members waits for both, which redundancy can't stand in for. Once one has answered, it can for the
/// other.
#[test]
fn a_read_that_waits_for_too_many_is_tried_again_once_it_waits_for_fewer() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let versions = [0, 4].map(|lba| world.write_one(lba));
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    world.ask(0, Op::Read, 0, 5);
    assert_eq!(devices(&world), [0, 1]);
    // After as long again each time.
    for waits in [PATIENCE, PATIENCE, 2 * PATIENCE] {
        assert_eq!(world.engine().deadline(), Some((world.now + waits, Why::Patience)));
        world.now = world.now + waits;
        world.step(Input::Tick);
        assert_eq!(devices(&world), [0, 1], "there is no way around both");
    }
    assert!(world.end_one(others));
    world.now = world.now + 4 * PATIENCE;
    world.step(Input::Tick);
    assert_eq!(devices(&world), [0, 1, 2], "there is one around member 0");
    while world.requests[0].is_some() {
        let ended = world.end_first_compute() || world.end_one(others);
        assert!(ended, "it waits for member 0");
    }
    let read = [0, 4].map(|lba| version_of(lba, &world.memory.payload[0][lba as usize]));
    assert_eq!(read, versions);
    world.drain();
}

/// A read takes long while there is room for no other job.
#[test]
fn a_read_is_tried_again_once_there_is_room() {
    let mut little = scenario(Level::Raid5, 3, Consistency::Bitmap);
    little.jobs = little.background_jobs + 2;
    let mut world = play(1, little);
    let version = world.write_one(0);
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    world.ask(0, Op::Read, 0, 1);
    world.ask(1, Op::Read, 20, 1);
    let before = devices(&world);
    patience_ends(&mut world);
    assert_eq!(devices(&world), before, "there is no room");
    assert!(world.end_one(others));
    assert!(world.end_first_compute());
    assert_eq!((world.requests[1].is_none(), devices(&world)), (true, vec![0]));
    patience_ends(&mut world);
    assert_eq!(devices(&world), [0, 1, 2]);
    while world.requests[0].is_some() {
        let ended = world.end_first_compute() || world.end_one(others);
        assert!(ended, "it waits for member 0");
    }
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
    world.drain();
}

/// The last of some reads has no scratch memory yet when its patience ends.
#[test]
fn a_read_is_tried_again_that_had_not_begun_when_its_patience_ended() {
    let mut little = scenario(Level::Raid5, 3, Consistency::Bitmap);
    little.scratch_blocks = 40;
    let tags = little.tags;
    let mut world = play(1, little);
    let start = world.areas.data_start();
    let stripes = 0..u64::from(tags);
    let versions: Vec<_> = stripes.map(|stripe| world.write_one(8 * stripe)).collect();
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    for tag in 0..tags {
        world.ask(tag, Op::Read, 8 * u64::from(tag), 1);
    }
    let last = usize::from(tags) - 1;
    let home = |io: &Io| matches!(io.op, IoOp::Read(_)) && io.at.0 == start.0 + 4 * last as u64;
    assert!(!world.ios.iter().any(|p| home(&p.io)), "it has no memory yet");
    patience_ends(&mut world);
    world.end_all(|io| !home(io));
    let home = devices(&world);
    assert_eq!(home.len(), 1, "the last waits for one member");
    patience_ends(&mut world);
    world.end_all(|io| io.device.0 != home[0]);
    assert!(world.requests[last].is_none(), "the others have answered");
    let version = version_of(8 * last as u64, &world.memory.payload[last][0]);
    assert_eq!(version, versions[last]);
    world.drain();
}

/// A read's member is lost, so there are two deadlines by which it is tried another way.
#[test]
fn a_read_that_is_not_worth_trying_again_is_not_asked_about_again() {
    let mut world = world(Level::Raid1, 3, Consistency::Bitmap);
    world.write_one(0);
    let shared = Shared::default();
    let policy = Impatient { told: shared.clone(), refuses: true, ..Impatient::default() };
    world.machine.set_steering(ONLY, Some(Box::new(policy)));
    world.ask(0, Op::Read, 0, 1);
    world.now = world.now + PATIENCE / 2;
    world.disks[0].gone = true;
    assert!(world.end_one(|io| !others(io)));
    for _ in 0..4 {
        world.now = world.now + PATIENCE / 2;
        world.step(Input::Tick);
    }
    assert!(world.requests[0].is_some());
    assert_eq!(told(&shared).asked, 1);
    assert!(world.engine().deadline().is_none_or(|(_, why)| why != Why::Patience));
    world.drain();
}

/// A read's member is lost, so the read's hedge deadline starts again. The read is answered before
/// that deadline, and its memory is reused. Meanwhile the hedge deadline of another read passes.
#[test]
fn a_read_that_was_answered_is_not_tried_again() {
    let mut world = world(Level::Raid1, 3, Consistency::Bitmap);
    for lba in [0, 4] {
        world.write_one(lba);
    }
    let start = world.areas.data_start();
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    world.ask(0, Op::Read, 0, 1);
    world.now = world.now + PATIENCE / 4;
    world.ask(1, Op::Read, 4, 1);
    world.now = world.now + PATIENCE / 4;
    world.disks[0].gone = true;
    assert!(world.end_one(|io| !others(io)));
    let is_read = |io: &Io| matches!(io.op, IoOp::Read(_)) && io.at == start;
    let reads = |world: &World| -> Vec<_> {
        world.ios.iter().map(|p| p.io).filter(is_read).map(|io| io.device).collect()
    };
    let first = reads(&world);
    world.now = world.now + PATIENCE / 2;
    world.step(Input::Tick);
    assert_eq!((first.len(), reads(&world).len()), (1, 2), "the third member is asked");
    assert!(world.end_one(|io| is_read(io) && io.device != first[0]));
    assert!(world.end_first_compute());
    assert!(world.requests[0].is_none(), "it has answered");
    world.now = world.now + PATIENCE / 2;
    world.step(Input::Tick);
    // This waits for the read of the stripe.
    world.ask(0, Op::Write, 1, 1);
    let version = version_of(1, &world.memory.payload[0][0]);
    world.end_all(|io| io.device != first[0]);
    world.drain();
    assert_eq!(world.read_one(1), version);
}

#[test]
fn who_took_long_answers_if_the_others_take_longer_or_fail() {
    for fails in [false, true] {
        let (mut world, version, shared) = watched(Level::Raid5);
        world.disks[1].unreadable = fails;
        if fails {
            world.end_one(others);
            world.end_one(others);
        }
        assert!(world.requests[0].is_some());
        world.end_one(|io| !others(io));
        while world.requests[0].is_some() {
            assert!(world.end_first_compute());
        }
        assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
        // A read that was tried elsewhere says nothing about what waiting alone takes, whichever way answered.
        assert_eq!(told(&shared).way, Some(Way::Around));
        let both = (!fails).then_some((PATIENCE, PATIENCE));
        assert_eq!(told(&shared).hedged, Vec::from_iter(both), "it was spared nothing");
        world.drain();
        assert_eq!(world.engine().counters().hedges_won, 0);
    }
}

#[test]
fn what_a_read_was_spared_is_told_once_it_has_ended_well_at_home_too() {
    for trouble in ["none", "unreadable", "gone", "failed since"] {
        let (mut world, _, shared) = watched(Level::Raid5);
        while world.requests[0].is_some() {
            assert!(world.end_first_compute() || world.end_one(others));
        }
        assert_eq!(told(&shared).hedged, [], "nobody knows yet");
        match trouble {
            "unreadable" => world.disks[0].unreadable = true,
            "gone" => world.disks[0].gone = true,
            "failed since" => {
                world.command(Command::Fail(MemberId(0)));
            }
            _ => {}
        }
        world.now = world.now + 8 * PATIENCE;
        world.end_one(|io| !others(io) && matches!(io.op, IoOp::Read(_)));
        let both = (trouble == "none").then_some((PATIENCE, 9 * PATIENCE));
        assert_eq!(told(&shared).hedged, Vec::from_iter(both), "{trouble}");
        world.drain();
    }
}

#[test]
fn the_others_answer_if_who_took_long_fails() {
    let (mut world, version) = stalled(Level::Raid5);
    world.disks[0].gone = true;
    world.end_one(|io| !others(io));
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
    assert_eq!(world.last_errors(), 0);
}

#[test]
fn who_tries_again_leaves_alone_what_is_staged_too() {
    let mut world = staging::staging_world(1);
    world.step(Input::Busy(Set::one(MemberId(0))));
    let version = world.write_one(0);
    // It comes home, but may not stay there.
    world.step(Input::Busy(Set::EMPTY));
    world.end_all(|io| io.op != IoOp::Flush);
    assert!(world.engine().is_staged(Lba(0)), "it is in the log, too");
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    world.ask(0, Op::Read, 0, 1);
    world.step(Input::Busy(Set::one(MemberId(0))));
    patience_ends(&mut world);
    let is_first = |io: &Io| io.device == DeviceId(0) && io.op != IoOp::Flush;
    assert!(world.end_one(is_first), "the first to be asked answers after all");
    world.end_first_compute();
    assert!(world.requests[0].is_none());
    // The late one writes into memory that is not reused.
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

#[test]
fn a_dying_disk_is_read_block_by_block_for_longer_than_patience_lasts() {
    let mut large = scenario(Level::Raid5, 3, Consistency::Bitmap);
    (large.chunk, large.load.blocks, large.scratch_blocks) = (256, 256, 256 * 100);
    let mut world = play(1, large);
    let version = world.write_one(0);
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    world.disks[0].unreadable = true;
    world.ask(0, Op::Read, 0, 256);
    for _ in 0..100 {
        assert!(world.end_one(|io| !others(io)), "blocks are tried one by one");
    }
    patience_ends(&mut world);
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

/// Hedges once.
#[derive(Default)]
struct Once {
    asked: bool,
}

impl SteeringPolicy for Once {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        true
    }

    fn patience(&mut self, _: Instant, _: u32) -> Option<Duration> {
        (!std::mem::replace(&mut self.asked, true)).then_some(PATIENCE)
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        false
    }
}

#[test]
fn what_is_read_to_a_users_memory_is_not_tried_twice() {
    let mut world = world(Level::Raid1, 3, Consistency::Bitmap);
    let version = world.write_one(0);
    world.machine.set_steering(ONLY, Some(Box::new(Once::default())));
    world.ask(0, Op::Read, 0, 1);
    world.disks[0].gone = true;
    // It reads from another member now, without a deadline.
    world.end_one(|io| !others(io));
    assert!(world.ios.iter().any(|p| into_users(&p.io)));
    patience_ends(&mut world);
    while world.end_one(|io| !into_users(io)) || world.end_first_compute() {}
    world.drain();
    assert_eq!(version_of(0, &world.memory.payload[0][0]), version);
}

/// A read of blocks 0 and 1 waits for member 1, and block 1 is staged. Then the member is lost: one is read from
/// the log, and the other from three members, of which one takes long.
fn staged_meanwhile(is_hedged: bool) {
    let mut scenario = scenario(Level::Raid6, 5, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    let mut world = play(1, scenario);
    for lba in 0..2 {
        world.write_one(lba);
    }
    let policy = Impatient { stages: true, ..Impatient::default() };
    world.machine.set_steering(ONLY, Some(Box::new(policy)));
    world.ask(0, Op::Read, 0, 2);
    let home = |io: &Io| io.device == DeviceId(1);
    assert!(world.ios.iter().all(|p| home(&p.io)));
    if is_hedged {
        patience_ends(&mut world);
    }
    world.busy(1);
    world.ask(1, Op::Write, 1, 1);
    world.end_all(|io| io.op == IoOp::Journal);
    assert!(world.requests[0].is_some() && world.requests[1].is_none(), "it is staged");
    world.disks[1].gone = true;
    assert!(world.end_one(home));
    // Who is tried twice leaves it to the other.
    assert_eq!(world.ios.iter().any(|p| into_users(&p.io)), !is_hedged);
    let takes_long = |io: &Io| into_users(io) || io.device == DeviceId(2) && !is_hedged;
    while world.end_one(|io| !takes_long(io)) || world.end_first_compute() {}
    patience_ends(&mut world);
    while world.end_one(|io| !takes_long(io)) || world.end_first_compute() {}
    assert_eq!(world.requests[0].is_some(), !is_hedged);
    world.drain();
}

#[test]
fn what_is_read_from_the_log_as_well_is_not_tried_twice() {
    staged_meanwhile(false);
}

#[test]
fn what_is_tried_twice_is_not_read_from_the_log_as_well() {
    staged_meanwhile(true);
}

/// RAID5 of three: a stripe was written as a whole, and a crash has left block 0 new, as a user has
/// seen, and the rest old. It can't be repaired, since two members can't be read in another row.
fn in_doubt() -> World {
    let is_write = |io: &Io| matches!(io.op, IoOp::Write { .. });
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    world.ask(0, Op::Write, 0, 8);
    world.rest();
    world.ask(0, Op::Write, 0, 8);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|io| !is_write(io));
    assert!(world.end_one(|io| is_write(io) && !others(io)));
    world.ios.clear();
    world.power_off();
    let at = world.areas.data_start().0 + 2;
    for disk in [1, 2] {
        world.disks[disk].bad.insert(at, FOR_GOOD);
    }
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!((world.read_one(0), world.engine().is_in_doubt(0, 1)), (version, true));
    world.machine.set_steering(ONLY, Some(Box::new(Impatient::default())));
    world
}

#[test]
fn what_is_in_doubt_is_read_at_home_though_that_is_busy() {
    let mut world = in_doubt();
    world.step(Input::Busy(Set::one(MemberId(0))));
    world.read_one(0);
}

#[test]
fn what_is_in_doubt_is_read_at_home_though_that_takes_long() {
    let mut world = in_doubt();
    let takes_long = |io: &Io| !others(io) && matches!(io.op, IoOp::Read(_)) && io.blocks == 1;
    world.ask(0, Op::Read, 0, 1);
    world.end_all(|io| !takes_long(io));
    assert!(world.ios.iter().any(|p| takes_long(&p.io)));
    patience_ends(&mut world);
    world.end_all(|io| !takes_long(io));
    world.drain();
}

impl World {
    fn last_errors(&self) -> usize {
        self.results.iter().filter(|result| result.is_err()).count()
    }
}

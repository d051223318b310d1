//! Writes go to the staging log beside what brings their stripe home, and beside reads of it.

use det::Instant;
use raidcore::engine::{Detour, Redirect, SteeringPolicy};
use raidcore::units::MemberId;
use raidlog::ONLY;

use super::super::*;

/// Stages all writes, those that no member would delay, too.
pub(in super::super) struct Log {
    /// How long entries wait before other members get them, too; for ever if none.
    pub(in super::super) patience: Option<Duration>,
}

impl SteeringPolicy for Log {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        true
    }

    fn stages_calm(&self) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        true
    }

    fn write_patience(&mut self, _: Instant, _: u32) -> Option<Duration> {
        self.patience
    }
}

fn is_entry(io: &Io) -> bool {
    io.op == IoOp::Journal
}

/// What goes to the stripes of the data.
fn is_home(world: &World) -> impl Fn(&Io) -> bool + use<> {
    let start = world.areas.data_start();
    move |io: &Io| io.at >= start && !matches!(io.op, IoOp::Flush | IoOp::Discard)
}

/// RAID5 of four. Block 0 was staged, and is on its way home, where writes take long.
fn coming_home() -> World {
    let mut scenario = scenario(Level::Raid5, 4, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    let mut world = play(1, scenario);
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    world.ask(0, Op::Write, 0, 1);
    world.end_all(is_entry);
    assert!(world.requests[0].is_none() && world.dirty() == 1);
    wait_at_home(&mut world);
    world
}

/// All ends but writes at home, of which there are some.
fn wait_at_home(world: &mut World) {
    let is_home = is_home(world);
    let waits = |io: &Io| is_home(io) && matches!(io.op, IoOp::Write { .. });
    world.end_all(|io| !waits(io));
    assert!(world.ios.iter().any(|pending| waits(&pending.io)), "it is on its way home");
}

/// A write of block 0 is answered although nothing ends at home. Returns its version.
fn write_beside(world: &mut World, tag: u16) -> u64 {
    world.ask(tag, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[usize::from(tag)][0]);
    world.end_all(is_entry);
    assert!(world.requests[usize::from(tag)].is_none(), "it does not wait for home");
    version
}

/// Block 0 is read as this version, also after a restart, and so it is when it has come home.
fn stays(mut world: World, version: u64, restarts: bool) {
    if restarts {
        world.restart();
    }
    assert_eq!(world.read_one(0), version);
    world.drain();
    assert_eq!((world.dirty(), world.read_one(0)), (0, version));
}

#[test]
fn what_is_written_while_it_comes_home_comes_home_again() {
    for restarts in [false, true] {
        let mut world = coming_home();
        let version = write_beside(&mut world, 0);
        let is_home = is_home(&world);
        world.end_all(&is_home);
        assert_eq!(world.dirty(), 1, "what is at home is older");
        stays(world, version, restarts);
    }
}

#[test]
fn of_two_at_once_the_one_that_began_later_counts_whichever_is_faster() {
    for restarts in [false, true] {
        let mut world = coming_home();
        let before: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
        world.ask(0, Op::Write, 0, 1);
        let first: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
        world.ask(1, Op::Write, 0, 1);
        let version = version_of(0, &world.memory.payload[1][0]);
        world.end_all(|io| is_entry(io) && !first.contains(&io.id));
        assert!(world.requests[1].is_none() && world.requests[0].is_some());
        world.end_all(|io| is_entry(io) && !before.contains(&io.id));
        assert!(world.requests[0].is_none());
        stays(world, version, restarts);
    }
}

#[test]
fn who_writes_at_home_waits_for_what_is_being_staged() {
    let mut world = coming_home();
    world.ask(0, Op::Write, 0, 1);
    world.machine.set_steering(ONLY, None);
    world.ask(1, Op::Write, 0, 1);
    world.end_all(|io| !is_entry(io));
    assert!(world.requests[0].is_some() && world.requests[1].is_some());
    let version = version_of(0, &world.memory.payload[1][0]);
    world.drain();
    world.restart();
    assert_eq!(world.read_one(0), version, "it was written later");
}

#[test]
fn a_write_does_not_wait_for_reads_of_its_stripe() {
    let mut world = coming_home();
    world.drain();
    world.ask(1, Op::Read, 0, 1);
    let version = write_beside(&mut world, 0);
    world.drain();
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_write_past_the_log_waits_for_what_comes_home() {
    let mut world = coming_home();
    world.machine.set_steering(ONLY, None);
    world.ask(0, Op::Write, 1, 1);
    let version = version_of(1, &world.memory.payload[0][0]);
    let is_home = is_home(&world);
    world.end_all(|io| !is_home(io));
    assert!(world.requests[0].is_some());
    world.drain();
    assert_eq!(world.read_one(1), version);
}

/// Block 0 is staged, and stays there while a read of another stripe is under way. A write of it at home waits
/// only for its entry, which says that home counts. Returns what that writes.
fn home_counts_soon() -> (World, u64) {
    let mut scenario = scenario(Level::Raid5, 4, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    let mut world = play(1, scenario);
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    world.ask(3, Op::Read, 100, 1);
    let users = world.ios[0].io.id;
    world.ask(0, Op::Write, 0, 1);
    world.end_all(is_entry);
    world.machine.set_steering(ONLY, None);
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|io| io.id != users && !is_entry(io));
    assert!(world.ios.iter().any(|pending| is_entry(&pending.io)), "it waits for its entry");
    (world, version)
}

#[test]
fn a_write_does_not_go_to_the_log_beside_one_that_goes_home() {
    let (mut world, _) = home_counts_soon();
    let before: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    world.ask(1, Op::Write, 0, 1);
    world.end_all(|io| !before.contains(&io.id));
    world.end_all(|io| is_entry(io) && before.contains(&io.id));
    // Not what tells the tail, which has no payload.
    world.end_all(|io| is_entry(io) && io.blocks > 1);
    assert!(world.requests[0].is_none() && world.requests[1].is_none());
    world.ask(2, Op::Read, 0, 1);
    world.end_all(|io| matches!(io.op, IoOp::Read(_)) && !before.contains(&io.id));
    assert!(world.requests[2].is_none());
    let found = version_of(0, &world.memory.payload[2][0]);
    world.restart();
    assert_eq!(world.read_one(0), found, "what was read does not become older");
}

/// What brings block 0 home is planned anew, as a member is lost. A read of block 1 at home is under way
/// meanwhile, and block 1 was staged since.
#[test]
fn what_is_being_read_at_home_is_not_written_there_since_it_was_staged() {
    let mut scenario = scenario(Level::Raid5, 4, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    let mut world = play(1, scenario);
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    let first = world.areas.data_start();
    world.ask(0, Op::Write, 0, 1);
    world.end_all(is_entry);
    let reclaims = |io: &Io| io.at == first && matches!(io.op, IoOp::Read(_));
    let parity = world.ios.iter().map(|pending| pending.io).rfind(reclaims);
    let parity = parity.expect("old data and parity are read").device;
    assert_ne!(parity, DeviceId(0));
    world.ask(1, Op::Read, 1, 1);
    let reads = |io: &Io| io.at.0 == first.0 + 1 && io.device == DeviceId(0);
    assert!(world.ios.iter().any(|pending| reads(&pending.io)), "it is read at home");
    world.ask(2, Op::Write, 1, 1);
    let version = version_of(1, &world.memory.payload[2][0]);
    world.end_all(is_entry);
    assert!(world.requests[2].is_none());
    world.disks[parity.0 as usize].gone = true;
    world.end_all(|io| !reads(io));
    assert!(world.requests[1].is_some(), "it is still under way");
    world.drain();
    assert_eq!(world.read_one(1), version);
}

/// Member 1 is missing. What brings block 0 home is refused by block 0's own, after parity was written, so what
/// member 1 had can't be told any more.
#[test]
fn what_is_staged_beside_does_not_make_redundancy_agree() {
    let mut scenario = scenario(Level::Raid5, 4, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    let mut world = play(1, scenario);
    world.machine.set_steering(ONLY, None);
    for lba in 0..12 {
        world.write_one(lba);
    }
    world.command(Command::Fail(MemberId(1)));
    world.drain();
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    world.ask(0, Op::Write, 0, 1);
    world.end_all(is_entry);
    wait_at_home(&mut world);
    let is_home = is_home(&world);
    world.ask(1, Op::Write, 1, 1);
    assert!(world.end_one(|io| is_home(io) && io.device == DeviceId(3)), "parity");
    world.disks[0].unwritable.insert(world.areas.data_start().0);
    world.beyond = true;
    assert!(world.end_one(|io| is_home(io) && io.device == DeviceId(0)), "it is refused");
    world.end_all(is_entry);
    assert!(world.requests[1].is_none(), "it is in the log");
    world.read_one(4);
    assert_eq!(world.last(), Err(RequestError::Io));
}

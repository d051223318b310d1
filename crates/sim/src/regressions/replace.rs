//! A member that serves is copied to a spare, which then takes its place.

use raidcore::engine::{ArrayHealth, CommandError, SuccessorStatus};
use raidcore::meta::{SlotState, Successor, Superblock};

use super::phases::is_record;
use super::*;
use crate::checks;
use crate::checks::progress::Bound;
use crate::under_way::Payload;

const REPLACED: MemberId = MemberId(1);

/// An array that is completely written.
fn written(seed: u64, scenario: Scenario) -> (World, Vec<u64>) {
    let mut world = play(seed, scenario);
    let capacity = world.engine().geometry().capacity();
    let versions = (0..capacity).map(|lba| world.write_one(lba)).collect();
    (world, versions)
}

fn small(level: Level, members: usize) -> Scenario {
    let mut scenario = scenario(level, members, Consistency::Journal);
    scenario.stripes = 12;
    if matches!(level, Level::Raid0 | Level::Raid1) {
        scenario.consistency = Consistency::Bitmap;
    }
    scenario
}

fn levels() -> [Scenario; 5] {
    let levels = [
        (Level::Raid0, 2),
        (Level::Raid1, 2),
        (Level::Raid4, 3),
        (Level::Raid5, 4),
        (Level::Raid6, 4),
    ];
    levels.map(|(level, members)| small(level, members))
}

impl World {
    /// Begins to replace a member by a new device.
    fn succeed(&mut self, member: MemberId) -> DeviceId {
        let spare = self.new_spare();
        let Command::AddSpare { device, .. } = spare else { unreachable!() };
        self.command(spare);
        self.drain();
        let number = self.command(Command::Replace { member, spare: device });
        self.drain();
        assert!(self.answers.contains(&(number, Ok(()))), "{:?}", self.answers.last());
        device
    }

    /// The same, and `stripes` stripes are copied.
    pub(super) fn replace_a_little(&mut self, stripes: u64) -> DeviceId {
        self.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
        let device = self.succeed(REPLACED);
        while self.engine().successor().is_some_and(|s| s.done < stripes) {
            self.proceed();
        }
        device
    }

    pub(super) fn copy_on(&mut self) {
        self.command(Command::SetPace(Pace::default()));
        let mut bound = Bound::new("all passes are over", 100_000);
        while self.is_busy() || self.engine().pass().is_some() {
            self.proceed();
            bound.spend(self);
        }
    }

    fn is_all(&mut self, versions: &[u64]) {
        for (lba, &version) in (0..).zip(versions) {
            assert_eq!(self.read_one(lba), version, "block {lba}");
        }
    }

    /// Whether a record is being stored on a device in which the device is already the member.
    pub(super) fn succeeds(&self, device: DeviceId) -> bool {
        self.ios.iter().filter(|p| is_record(&p.io) && p.io.device == device).any(|pending| {
            let Payload::Meta(blocks) = &pending.payload else { return false };
            let superblock = Superblock::decode(&blocks[0][..]).expect("a superblock");
            superblock.record.slots[REPLACED.index()].device == self.uuids[device.0 as usize]
        })
    }

    pub(super) fn device_of(&self, member: MemberId) -> Option<DeviceId> {
        self.engine().members().nth(member.index()).and_then(|m| m.device)
    }

    fn refused(&mut self, command: Command) -> CommandError {
        let number = self.command(command);
        self.drain();
        let answer = self.answers.iter().find(|(answered, _)| *answered == number);
        answer.and_then(|&(_, result)| result.err()).expect("it is refused")
    }
}

#[test]
fn a_member_is_replaced_and_redundancy_is_there_all_the_time() {
    for scenario in levels() {
        let (mut world, mut versions) = written(1, scenario);
        let old = world.device_of(REPLACED).expect("it serves");
        let device = world.replace_a_little(3);
        assert_eq!(world.engine().array_health(), ArrayHealth::Online);
        for lba in [0, 1, 17, 40] {
            versions[lba as usize] = world.write_one(lba);
        }
        assert!(world.engine().successor().is_some(), "it was being copied meanwhile");
        while world.is_busy() || world.engine().pass().is_some() {
            assert_eq!(world.engine().array_health(), ArrayHealth::Online);
            world.command(Command::SetPace(Pace::default()));
            world.proceed();
        }
        assert_eq!(world.device_of(REPLACED), Some(device));
        assert_eq!(world.engine().successor(), None);
        let replaced = Note::MemberReplaced { member: REPLACED, device, old };
        assert!(world.notes.contains(&replaced), "{:?}", world.notes);
        world.disks[old.0 as usize].gone = true;
        checks::metadata::agrees(&world);
        checks::parity::agrees(&world);
        world.is_all(&versions);
        world.restart();
        assert_eq!(world.device_of(REPLACED), Some(device));
        world.is_all(&versions);
    }
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_or_the_new_one() {
    let (mut old_ones, mut new_ones, mut went_on) = (0, 0, 0);
    for seed in 0..250 {
        let scenario = levels()[seed as usize % 5].clone();
        let (mut world, _) = written(seed, scenario);
        let device = world.succeed(REPLACED);
        for at in 0..6 {
            world.ask(at, Op::Write, u64::from(at) * 7, 1);
        }
        world.turns(seed as u32 * 3 % 460);
        world.cut_power();
        world.drain();
        world.verify_after_crash();
        checks::metadata::agrees(&world);
        match world.engine().successor() {
            Some(SuccessorStatus { done, .. }) => {
                assert_ne!(world.device_of(REPLACED), Some(device));
                old_ones += 1;
                went_on += u32::from(done > 0);
            }
            None => {
                assert_eq!(world.device_of(REPLACED), Some(device));
                new_ones += 1;
            }
        }
        world.copy_on();
        assert_eq!(world.device_of(REPLACED), Some(device));
        world.verify();
        checks::parity::agrees(&world);
    }
    assert!(old_ones > 20 && new_ones > 20 && went_on > 5, "{old_ones}, {new_ones}, {went_on}");
}

#[test]
fn the_copying_goes_on_after_a_clean_stop() {
    for scenario in levels() {
        let (mut world, versions) = written(1, scenario);
        let device = world.replace_a_little(4);
        let number = world.command(Command::Stop);
        while !world.answers.contains(&(number, Ok(()))) {
            world.proceed();
        }
        let recorded: Vec<_> = world.superblocks().map(|(_, s)| s.record.successor).collect();
        let known = |successor: &Option<Successor>| successor.is_some_and(|s| s.watermark >= 4);
        assert!(!recorded.is_empty() && recorded.iter().all(known), "{recorded:?}");
        world.restart();
        world.copy_on();
        assert_eq!(world.device_of(REPLACED), Some(device));
        world.is_all(&versions);
        checks::parity::agrees(&world);
    }
}

#[test]
fn without_redundancy_the_copying_begins_anew_after_a_crash() {
    let (mut world, _) = written(1, small(Level::Raid0, 3));
    world.replace_a_little(4);
    // One of the two has it, and nothing records where they differ.
    world.ask(0, Op::Write, 4, 1);
    let device = world.device_of(REPLACED);
    while world.end_one(|io| matches!(io.op, IoOp::Write { .. }) && Some(io.device) == device) {}
    world.cut_power();
    assert!(world.engine().successor().is_some_and(|s| s.done == 0));
    world.drain();
    world.verify_after_crash();
    world.copy_on();
    world.verify();
}

#[test]
fn a_new_device_that_fails_leaves_the_old_one_where_it_is() {
    for scenario in levels() {
        let (mut world, mut versions) = written(1, scenario);
        let old = world.device_of(REPLACED);
        let device = world.replace_a_little(12);
        world.disks[device.0 as usize].gone = true;
        for (lba, version) in (0..8).zip(&mut versions) {
            *version = world.write_one(lba);
        }
        world.copy_on();
        assert_eq!((world.device_of(REPLACED), world.engine().successor()), (old, None));
        assert_eq!(world.engine().array_health(), ArrayHealth::Online);
        let failed = |note: &Note| matches!(note, Note::CopyFailed { member: REPLACED, .. });
        assert!(world.notes.iter().any(failed), "{:?}", world.notes);
        world.is_all(&versions);
        // It must not return with what it has missed.
        world.disks[device.0 as usize].gone = false;
        world.restart();
        assert_eq!((world.device_of(REPLACED), world.engine().successor()), (old, None));
        world.is_all(&versions);
    }
}

#[test]
fn what_a_new_device_has_missed_is_on_record_before_a_write_is_acknowledged() {
    for seed in 0..60 {
        let (mut world, _) = written(seed, small(Level::Raid5, 3));
        let device = world.replace_a_little(6);
        world.disks[device.0 as usize].gone = true;
        (0..6).for_each(|at| world.ask(at, Op::Write, u64::from(at) * 7, 1));
        world.turns(seed as u32 * 2);
        world.disks[device.0 as usize].gone = false;
        world.cut_power();
        world.drain();
        world.verify_after_crash();
        world.copy_on();
        world.verify();
        checks::parity::agrees(&world);
    }
}

#[test]
fn if_the_old_one_fails_the_new_one_is_rebuilt_from_where_it_is() {
    for scenario in levels().into_iter().skip(1) {
        let (mut world, mut versions) = written(1, scenario);
        let device = world.replace_a_little(6);
        world.command(Command::Fail(REPLACED));
        let rebuild =
            |world: &World| world.engine().pass().filter(|p| p.kind == PassKind::Rebuild(REPLACED));
        while rebuild(&world).is_none() {
            world.proceed();
        }
        assert!(rebuild(&world).is_some_and(|pass| pass.done >= 6), "{:?}", world.engine().pass());
        assert_eq!(world.engine().successor(), None);
        versions[3] = world.write_one(3);
        world.is_all(&versions);
        world.restart();
        world.is_all(&versions);
        world.copy_on();
        assert_eq!(world.device_of(REPLACED), Some(device));
        checks::parity::agrees(&world);
        world.is_all(&versions);
    }
}

#[test]
fn the_old_one_may_go_with_the_power() {
    for seed in 0..100 {
        let scenario = levels()[1 + seed as usize % 4].clone();
        let (mut world, _) = written(seed, scenario);
        let old = world.device_of(REPLACED).expect("it serves");
        let device = world.succeed(REPLACED);
        if seed % 2 == 0 {
            for at in 0..4 {
                world.ask(at, Op::Write, u64::from(at) * 7, 1);
            }
        }
        world.turns(seed as u32 * 4);
        if world.requests.iter().all(Option::is_none) {
            world.disks[old.0 as usize].gone = true;
        }
        world.cut_power();
        world.drain();
        world.verify_after_crash();
        world.copy_on();
        assert_eq!(world.device_of(REPLACED), Some(device));
        world.verify();
        checks::parity::agrees(&world);
    }
}

#[test]
fn only_what_the_old_one_can_not_be_read_is_made_anew() {
    let (mut world, versions) = written(1, small(Level::Raid5, 3));
    let start = world.areas.data_start().0;
    // Another member has a bad block in the same stripe, but not in the same row.
    world.disks[REPLACED.index()].bad.insert(start + 2, FOR_GOOD);
    world.disks[0].bad.insert(start + 3, FOR_GOOD);
    let device = world.succeed(REPLACED);
    world.copy_on();
    assert_eq!(world.device_of(REPLACED), Some(device));
    world.is_all(&versions);
    checks::parity::agrees(&world);
}

#[test]
fn what_can_not_be_copied_is_waited_at_and_the_rest_is_as_it_was() {
    let (mut world, versions) = written(1, small(Level::Raid0, 2));
    let start = world.areas.data_start().0;
    world.disks[REPLACED.index()].bad.insert(start + 2, FOR_GOOD);
    let device = world.succeed(REPLACED);
    world.turns(300);
    assert!(world.engine().pass().is_some_and(|pass| pass.stuck == Some(Stripe(0))));
    // It is written by a user, and can be copied then.
    world.disks[REPLACED.index()].bad.clear();
    world.command(Command::Resume);
    world.copy_on();
    assert_eq!(world.device_of(REPLACED), Some(device));
    world.is_all(&versions);
}

#[test]
fn what_was_discarded_is_not_copied() {
    let (mut world, _) = written(1, small(Level::Raid0, 2));
    world.ask(0, Op::Discard, 0, 12 * 8);
    world.drain();
    let device = world.succeed(REPLACED);
    let mut copied = 0;
    while world.is_busy() || world.engine().pass().is_some() {
        copied += world.ios.iter().filter(|p| matches!(p.io.op, IoOp::Read(_))).count();
        world.proceed();
    }
    assert_eq!((copied, world.device_of(REPLACED)), (0, Some(device)));
    assert_eq!(world.read_one(5), 0);
}

#[test]
fn redundancy_comes_first_if_another_member_fails() {
    for distributed in [false, true] {
        let mut scenario = small(Level::Raid5, 4);
        scenario.distributed_spare = distributed;
        let (mut world, mut versions) = written(1, scenario);
        let old = world.device_of(REPLACED);
        let device = world.replace_a_little(4);
        world.command(Command::Fail(MemberId(3)));
        versions[3] = world.write_one(3);
        world.copy_on();
        assert_eq!(world.device_of(MemberId(3)), Some(device));
        assert_eq!((world.device_of(REPLACED), world.engine().successor()), (old, None));
        assert!(world.is_whole());
        checks::parity::agrees(&world);
        world.is_all(&versions);
        world.restart();
        world.is_all(&versions);
    }
}

#[test]
fn a_spare_that_is_there_is_taken_and_the_copying_goes_on_afterwards() {
    let (mut world, versions) = written(1, small(Level::Raid5, 4));
    let device = world.replace_a_little(4);
    let spare = world.new_spare();
    let Command::AddSpare { device: other, .. } = spare else { unreachable!() };
    world.command(spare);
    world.drain();
    world.command(Command::Fail(MemberId(3)));
    world.copy_on();
    assert_eq!(world.device_of(MemberId(3)), Some(other));
    assert_eq!(world.device_of(REPLACED), Some(device));
    world.is_all(&versions);
    checks::parity::agrees(&world);
}

#[test]
fn it_is_one_at_a_time_and_can_be_called_off() {
    let (mut world, versions) = written(1, small(Level::Raid6, 4));
    let old = world.device_of(REPLACED);
    let device = world.replace_a_little(4);
    let spare = world.new_spare();
    let Command::AddSpare { device: other, .. } = spare else { unreachable!() };
    world.command(spare);
    let again = Command::Replace { member: MemberId(0), spare: other };
    assert_eq!(world.refused(again), CommandError::AlreadyCopying);
    let same = Command::Replace { member: MemberId(0), spare: device };
    assert_eq!(world.refused(same), CommandError::AlreadyCopying);
    assert_eq!(world.engine().status().spares, [other]);
    world.command(Command::Remove(device));
    world.copy_on();
    assert_eq!((world.device_of(REPLACED), world.engine().successor()), (old, None));
    checks::metadata::agrees(&world);
    world.is_all(&versions);
}

#[test]
fn a_member_is_not_copied_while_the_distributed_spare_is_in_use() {
    let mut scenario = small(Level::Raid5, 4);
    scenario.distributed_spare = true;
    let (mut world, _) = written(1, scenario);
    world.command(Command::Fail(MemberId(0)));
    world.copy_on();
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    let spares = [world.new_spare(), world.new_spare()];
    spares.into_iter().for_each(|spare| {
        world.command(spare);
    });
    let Command::AddSpare { device: spare, .. } = spares[1] else { unreachable!() };
    world.drain();
    let replace = Command::Replace { member: REPLACED, spare };
    assert_eq!(world.refused(replace), CommandError::SpareInUse);
}

#[test]
fn what_is_staged_comes_home_before_the_new_one_is_the_member() {
    for seed in 0..40 {
        let mut scenario = small(Level::Raid5, 3);
        (scenario.staging, scenario.busy) = (64, 1);
        let (mut world, mut versions) = written(seed, scenario);
        let old = world.device_of(REPLACED).expect("it serves");
        world.step(Input::Busy(raidcore::units::Set::one(MemberId(2))));
        let device = world.replace_a_little(2);
        for (lba, version) in (0..24).zip(&mut versions) {
            *version = world.write_one(lba);
        }
        world.step(Input::Busy(raidcore::units::Set::EMPTY));
        world.copy_on();
        assert_eq!(world.device_of(REPLACED), Some(device));
        // Another member is lost with the power, and old content of the log is not taken for new.
        for (lba, version) in (0..24).zip(&mut versions) {
            *version = world.write_one(lba);
        }
        let lost = [0, 2][seed as usize % 2];
        world.disks[old.0 as usize].gone = true;
        world.disks[lost].gone = true;
        world.restart();
        world.is_all(&versions);
    }
}

#[test]
fn a_staging_device_is_replaced_as_a_member_is() {
    let mut scenario = small(Level::Raid5, 3);
    (scenario.staging, scenario.staging_devices, scenario.staging_device) = (64, 2, 64);
    scenario.busy = 1;
    let (mut world, mut versions) = written(1, scenario);
    world.step(Input::Busy(raidcore::units::Set::one(MemberId(2))));
    let device = world.succeed(MemberId(4));
    for (lba, version) in (0..24).zip(&mut versions) {
        *version = world.write_one(lba);
    }
    world.copy_on();
    assert_eq!(world.device_of(MemberId(4)), Some(device));
    let state = world.engine().members().nth(4).map(|m| m.state);
    assert_eq!(state, Some(SlotState::Up));
    world.is_all(&versions);
    world.restart();
    world.is_all(&versions);
}

#[test]
fn a_record_that_only_the_successor_has_counts_as_soon_as_it_is_the_member() {
    let (mut world, versions) = written(1, small(Level::Raid1, 2));
    let device = world.replace_a_little(1);
    let old = world.device_of(REPLACED).expect("it serves");
    world.command(Command::SetPace(Pace::default()));
    // Everything is copied, and the change is being recorded.
    while !world.succeeds(device) {
        world.proceed();
    }
    while world.end_one(|io| is_record(io) && io.device == device) {}
    for gone in [old, DeviceId(0)] {
        world.disks[gone.0 as usize].gone = true;
        world.step(Input::DeviceGone(gone));
    }
    world.drain();
    assert_eq!(world.device_of(REPLACED), Some(device));
    world.is_all(&versions);
    world.write_one(0);
    assert_eq!(world.results, [], "no request has failed");
}

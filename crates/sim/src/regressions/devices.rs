//! Staging devices: a staged block is on one of them and on one member, so the log's content
//! decides what may be lost.

use raidcore::engine::CommandError;
use raidcore::meta::{AssembleError, AssembleOptions, Assembled, SlotState, assemble};
use raidcore::units::{MemberId, Set};

use super::phases::is_record;
use super::*;

/// The place of the staging device.
const DEVICE: MemberId = MemberId(3);

/// RAID5 of three with a staging device. Block 0 is at home on member 0, which is busy, its parity
/// on member 2. Writes to it are staged on the device and on member 1.
fn staged() -> (World, u64) {
    let mut scenario = scenario(Level::Raid5, 3, Consistency::Journal);
    (scenario.staging, scenario.busy) = (128, 1);
    (scenario.staging_devices, scenario.staging_device) = (1, 64);
    let mut world = play(1, scenario);
    world.step(Input::Busy(Set::one(MemberId(0)).with(MemberId(2))));
    let version = world.write_one(0);
    assert!(world.engine().is_staged(Lba(0)));
    (world, version)
}

impl World {
    fn fails(&mut self, member: MemberId) -> Option<Result<(), CommandError>> {
        let number = self.command(Command::Fail(member));
        let answer = self.answers.iter().find(|(answered, _)| *answered == number);
        answer.map(|&(_, result)| result)
    }

    /// Ends everything that is no work on blocks.
    fn record(&mut self) {
        self.end_all(|io| matches!(io.op, IoOp::Store(_) | IoOp::Flush));
    }

    /// The devices on record as lacking entries, on all devices in service.
    fn thin(&self) -> Vec<bool> {
        let used = self.disks_in_use();
        let records = self.superblocks().filter(|(disk, _)| used.contains(disk));
        records.map(|(_, found)| found.record.staging_thin.has(DEVICE)).collect()
    }

    fn assemble_without(&self, without: &[usize]) -> Result<Assembled, AssembleError> {
        let disks = self.superblocks().map(|(disk, _)| disk);
        let there = disks.filter(|disk| !without.contains(disk));
        let images: Vec<_> = there.map(|disk| &self.disks[disk]).collect();
        assemble(&images, AssembleOptions { degraded: true, force: false })
    }
}

#[test]
fn a_member_is_needed_that_alone_has_what_a_staging_device_took_with_it() {
    let (mut world, version) = staged();
    world.fails(DEVICE);
    world.record();
    assert_eq!(world.fails(MemberId(1)), Some(Err(CommandError::NoRedundancy)));
    assert_eq!(world.read_one(0), version);
    // It is brought home, even to busy members; then the member is no longer needed.
    world.drain();
    assert!(!world.engine().is_staged(Lba(0)));
    world.fails(MemberId(1));
    world.drain();
    assert_eq!(world.engine().members().filter(|member| member.device.is_none()).count(), 2);
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_staging_device_is_needed_that_alone_has_what_a_member_took_with_it() {
    let (mut world, version) = staged();
    world.fails(MemberId(1));
    world.record();
    assert_eq!(world.fails(DEVICE), Some(Err(CommandError::NoRedundancy)));
    world.drain();
    assert_eq!(world.read_one(0), version);
}

#[test]
fn nobody_starts_without_both_who_may_have_what_was_staged() {
    let (world, _) = staged();
    assert!(world.assemble_without(&[3]).is_ok() && world.assemble_without(&[1]).is_ok());
    let neither = world.assemble_without(&[1, 3]);
    assert_eq!(neither.err(), Some(AssembleError::StagedMissing));
}

#[test]
fn it_is_on_record_that_a_staging_device_may_be_missed_as_long_as_it_may() {
    let (mut world, version) = staged();
    world.fails(DEVICE);
    world.record();
    assert_eq!(world.thin(), [true; 3]);
    assert_eq!(world.assemble_without(&[1]).err(), Some(AssembleError::StagedMissing));
    world.drain();
    assert_eq!(world.thin(), [false; 3]);
    assert!(world.assemble_without(&[1]).is_ok());
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_start_without_a_staging_device_records_that_it_may_be_missed() {
    let (mut world, version) = staged();
    world.disks[DEVICE.index()].gone = true;
    world.cut_power();
    world.record();
    assert_eq!(world.thin(), [true; 3]);
    world.drain();
    assert_eq!(world.thin(), [false; 3]);
    assert_eq!(world.read_one(0), version);
}

/// A device that is being filled is not one that the array has lost. Without it, and without a
/// member that was already missing, the staged block is on the other member.
#[test]
fn a_start_without_a_device_that_is_being_filled_misses_none() {
    let (mut world, version) = staged();
    world.fails(DEVICE);
    world.record();
    let spare = world.new_spare();
    world.command(spare);
    world.fails(MemberId(2));
    world.end_all(is_record);
    let state = world.engine().members().nth(DEVICE.index()).expect("its place").state;
    assert!(matches!(state, SlotState::Rebuilding { .. }), "{state:?}");
    assert_eq!(world.thin(), [true; 3], "it is staged on member 1 only");
    let device = world.disks.len() - 1;
    assert_eq!(world.assemble_without(&[2, device]).err(), None);
    world.disks[device].gone = true;
    world.restart();
    assert_eq!(world.read_one(0), version);
}

#[test]
fn another_staging_device_takes_the_place_of_one_that_failed() {
    let (mut world, version) = staged();
    world.fails(DEVICE);
    let spare = world.new_spare();
    world.command(spare);
    world.drain();
    let device = world.engine().members().nth(DEVICE.index()).expect("its place");
    assert!(device.device.is_some(), "{device:?}");
    // The blocks that it gets from now on count.
    world.step(Input::Busy(Set::one(MemberId(0)).with(MemberId(2))));
    let newer = world.write_one(0);
    assert!(newer != version && world.engine().is_staged(Lba(0)));
    world.disks[1].gone = true;
    world.restart();
    assert_eq!(world.read_one(0), newer);
}

/// A staging device takes entries as soon as its promotion is being recorded.
#[test]
fn what_a_new_staging_device_takes_is_acknowledged_when_it_is_on_record() {
    let (mut world, _) = staged();
    world.fails(DEVICE);
    world.drain();
    let spare = world.new_spare();
    world.command(spare);
    let is_up = |world: &World| {
        let device = world.engine().members().nth(DEVICE.index()).expect("its place");
        device.state == SlotState::Up
    };
    while !is_up(&world) {
        world.proceed();
    }
    world.step(Input::Busy(Set::one(MemberId(0)).with(MemberId(2))));
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|io| !is_record(io));
    assert!(world.requests[0].is_some(), "a start would not look for it on the device");
    world.drain();
    assert!(world.engine().is_staged(Lba(0)));
    world.disks[1].gone = true;
    world.restart();
    assert_eq!(world.read_one(0), version);
}

/// A staging device that is being filled holds nothing that counts: without it, and without a
/// member, the array starts as if there were none.
#[test]
fn a_staging_device_that_is_not_one_yet_is_not_missed() {
    let (mut world, _) = staged();
    world.fails(DEVICE);
    world.drain();
    let version = world.read_one(0);
    let spare = world.new_spare();
    world.command(spare);
    // It is being filled as long as only this is stored.
    world.end_all(is_record);
    let state = world.engine().members().nth(DEVICE.index()).expect("its place").state;
    assert!(matches!(state, SlotState::Rebuilding { .. }), "{state:?}");
    let device = world.disks.len() - 1;
    assert!(world.assemble_without(&[1, device]).is_ok());
    // Nor once its failure is on record.
    world.disks[device].gone = true;
    world.cut_power();
    world.record();
    assert_eq!(world.thin(), [false; 3]);
    world.drain();
    assert_eq!(world.read_one(0), version);
}

/// RAID5 of five with a staging device. Block 0 was staged there and on member 1, has come home,
/// and was overwritten there. Only the device and member 4 have a marker that it is no longer
/// staged. The device has failed, and the new marker has not been written.
fn known_to_one_member() -> (World, u64) {
    let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
    (scenario.staging, scenario.busy) = (128, 1);
    (scenario.staging_devices, scenario.staging_device) = (1, 64);
    let mut world = play(1, scenario);
    let device = MemberId(5);
    // It is at home on member 0, its parity on member 4.
    world.step(Input::Busy(Set::first(5).without(MemberId(1))));
    world.write_one(0);
    assert!(world.engine().is_staged(Lba(0)), "on the device and member 1");
    world.step(Input::Busy(Set::one(MemberId(1))));
    world.now = world.now + Duration::from_secs(60);
    world.pass_time();
    world.end_all(|io| io.op != IoOp::Flush);
    // It is at home, but for the flush; the marker goes to members that are not busy.
    world.step(Input::Busy(Set::first(4)));
    world.drain();
    assert!(!world.engine().is_staged(Lba(0)), "it is at home, and that was told");
    world.step(Input::Busy(Set::EMPTY));
    let newer = world.write_one(0);
    assert!(!world.engine().is_staged(Lba(0)));
    world.fails(device);
    world.end_all(|io| io.op != IoOp::Journal);
    (world, newer)
}

#[test]
fn who_alone_knows_that_nothing_is_staged_can_be_spared() {
    let (mut world, newer) = known_to_one_member();
    assert_eq!(world.fails(MemberId(4)), None, "it is not refused");
    world.drain();
    assert!(world.answers.iter().all(|(_, answer)| answer.is_ok()), "{:?}", world.answers);
    assert_eq!(world.read_one(0), newer);
    let newest = world.write_one(0);
    assert_eq!(world.read_one(0), newest);
}

#[test]
fn what_nobody_knows_to_be_void_any_more_is_void_all_the_same() {
    let (mut world, newer) = known_to_one_member();
    world.fails(MemberId(4));
    world.record();
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), newer, "member 1 does not bring the past back");
}

/// A device that alone has what is staged refuses an entry, which a member has. A start would find it
/// there, over what was written later: so nothing is.
#[test]
fn nothing_is_written_over_an_entry_that_a_needed_device_refused() {
    let (mut world, version) = staged();
    world.fails(MemberId(1));
    world.record();
    world.step(Input::Busy(Set::one(MemberId(0))));
    let entry = |io: &Io| io.op == IoOp::Journal && io.device == DeviceId(3);
    world.beyond = true;
    // A block of another stripe whose home is the busy member.
    let lba = 20;
    world.ask(0, Op::Write, lba, 1);
    world.end_all(|io| matches!(io.op, IoOp::Journal) && !entry(io));
    let at = world.ios.iter().map(|p| p.io).find(entry).expect("it is staged").at;
    world.disks[DEVICE.index()].unwritable.insert(at.0);
    world.end_all(|io| io.op == IoOp::Journal);
    assert_eq!(world.last(), Err(RequestError::Io));
    world.disks[DEVICE.index()].unwritable.clear();
    world.step(Input::Busy(Set::EMPTY));
    world.write_one(lba);
    assert_eq!(world.last(), Err(RequestError::Io), "it is not taken");
    world.restart();
    assert_eq!(world.read_one(0), version);
    let version = world.write_one(lba);
    world.restart();
    assert_eq!(world.read_one(lba), version);
}

#[test]
fn a_device_joins_once() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    let Command::AddSpare { device, uuid, blocks } = world.new_spare() else { unreachable!() };
    let Command::AddSpare { device: other, .. } = world.new_spare() else { unreachable!() };
    for device in [device, device, other] {
        world.command(Command::AddSpare { device, uuid, blocks });
        world.drain();
    }
    assert_eq!(world.engine().status().spares, [device]);
    assert!(world.superblocks().count() > 0, "superblocks name every device once");
}

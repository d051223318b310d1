//! Members that hang.

use raidcore::engine::{ArrayHealth, Command, Note};
use raidcore::meta::SlotState;
use raidcore::units::{MemberId, Set};

use super::phases::is_record;
use super::*;

/// A write waits for members 0 and 1, which hang. Returns its version.
fn hanging_write(level: Level, members: usize) -> (World, u64) {
    let mut world = world(level, members, Consistency::Journal);
    world.ask(0, Op::Write, 0, 8);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|io| io.device.0 > 1);
    assert!(world.requests[0].is_some(), "the write is under way");
    (world, version)
}

fn hangs(world: &World) -> Vec<bool> {
    world.engine().members().map(|m| m.hangs).collect()
}

#[test]
fn members_that_hang_are_given_up_together_and_come_back_stale() {
    let (mut world, version) = hanging_write(Level::Raid6, 4);
    world.step(Input::Hung(Set::first(2)));
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    assert_eq!(hangs(&world), [false; 4]);
    for disk in 0..2 {
        world.disks[disk].gone = true;
    }
    world.drain();
    assert_eq!(world.results, []);
    assert_eq!(world.read_one(0), version);
    for disk in 0..2 {
        world.disks[disk].gone = false;
    }
    world.restart();
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    assert_eq!(world.read_one(0), version);
}

#[test]
fn members_that_can_not_all_be_spared_are_waited_for() {
    let (mut world, version) = hanging_write(Level::Raid5, 3);
    world.step(Input::Hung(Set::first(2)));
    world.end_all(|io| io.device.0 > 1);
    assert!(world.requests[0].is_some(), "nothing has failed");
    assert_eq!(world.engine().array_health(), ArrayHealth::Online);
    assert_eq!(hangs(&world), [true, true, false]);
    // One of them answers; the other one alone can be missing.
    world.step(Input::Hung(Set::one(MemberId(1))));
    assert_eq!(hangs(&world), [false; 3]);
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    let (member, device) = (MemberId(0), DeviceId(0));
    assert!(world.notes.contains(&Note::MemberHangs { member, device }));
    assert!(world.notes.contains(&Note::MemberAnswers { member, device }));
    world.disks[1].gone = true;
    world.drain();
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_member_that_hangs_is_given_up_as_soon_as_it_can_be_spared() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    let version = world.write_one(0);
    world.command(Command::Fail(MemberId(2)));
    world.drain();
    world.step(Input::Hung(Set::one(MemberId(0))));
    assert_eq!(hangs(&world), [true, false, false]);
    // Though slow, it answers the reads of the rebuild.
    let spare = world.new_spare();
    world.command(spare);
    while !world.engine().members().any(|m| m.member == MemberId(2) && m.state == SlotState::Up) {
        world.turns(1);
    }
    assert_eq!(hangs(&world), [false; 3]);
    let down: Vec<_> = world.engine().members().map(|m| m.device.is_none()).collect();
    assert_eq!(down, [true, false, false]);
    assert_eq!(world.read_one(0), version);
}

#[test]
fn who_is_not_told_to_hang_any_more_is_not_given_up() {
    let mut world = world(Level::Raid0, 2, Consistency::Resync);
    let version = world.write_one(0);
    world.step(Input::Hung(Set::one(MemberId(1))));
    assert_eq!(hangs(&world), [false, true]);
    world.step(Input::Hung(Set::EMPTY));
    assert_eq!(hangs(&world), [false, false]);
    assert_eq!(world.engine().array_health(), ArrayHealth::Online);
    assert_eq!(world.read_one(0), version);
}

#[test]
fn a_record_that_hangs_on_a_member_until_that_has_failed_is_stored_by_its_heir() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    let version = world.write_one(0);
    world.command(Command::Fail(MemberId(1)));
    world.drain();
    let name = PolicyName::new("new").expect("a name");
    let number = world.command(Command::SetPolicy(name));
    assert!(world.ios.iter().any(|p| is_record(&p.io)), "it is being recorded");
    world.step(Input::Hung(Set::one(MemberId(0))));
    let spare = world.new_spare();
    world.command(spare);
    let fails = |note: &Note| matches!(note, Note::MemberFailed { member: MemberId(0), .. });
    for _ in 0..10_000 {
        world.end_all(|io| !(is_record(io) && io.device == DeviceId(0)));
        if world.notes.iter().any(fails) {
            break;
        }
        world.pass_time();
    }
    world.disks[0].gone = true;
    world.drain();
    assert!(world.answers.contains(&(number, Ok(()))), "{:?}", world.answers);
    assert_eq!(world.read_one(0), version);
    world.write_one(0);
    assert_eq!(world.results, [], "no request has failed");
}

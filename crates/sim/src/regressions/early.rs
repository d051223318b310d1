//! A write to a device that is being filled, which ends when the device is a member in service, and
//! the only one left.

use raidcore::meta::SlotState;
use raidcore::units::{MemberId, Set};

use super::*;

/// The other half of the mirror, which is filled from member 0.
const HEIR: MemberId = MemberId(1);

/// A mirror whose member 1 has been filled while a write to it was under way. Member 0 has gone, or
/// it hangs and was given up as soon as there was another one. Returns the acknowledged version of
/// block 0.
fn last_one_left(hangs: bool) -> (World, DeviceId, u64) {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    let version = world.write_one(0);
    world.command(Command::Fail(HEIR));
    let spare = world.new_spare();
    let Command::AddSpare { device, .. } = spare else { unreachable!() };
    world.command(spare);
    let is_write = |io: &Io| io.device == device && matches!(io.op, IoOp::Write { .. });
    while world.engine().pass().is_none_or(|pass| pass.done < pass.total) {
        world.turns(1);
    }
    world.ask(0, Op::Write, 40, 1);
    world.end_all(|io| !is_write(io));
    if hangs {
        world.step(Input::Hung(Set::one(MemberId(0))));
    }
    let is_up = |world: &World| {
        let slot = world.engine().members().nth(HEIR.index()).expect("a member");
        slot.device == Some(device) && slot.state == SlotState::Up
    };
    for _ in 0..10_000 {
        if is_up(&world) {
            break;
        }
        if !world.end_first_compute() && !world.end_one(|io| !is_write(io)) {
            world.pass_time();
        }
    }
    assert!(is_up(&world) && world.requests[0].is_some(), "the write is under way");
    if !hangs {
        world.step(Input::DeviceGone(DeviceId(0)));
    }
    world.disks[0].gone = true;
    (world, device, version)
}

/// More has failed than redundancy can make up for, so an error is right; nothing else is lost.
#[test]
fn the_last_one_that_refuses_a_write_is_kept_with_all_that_was_acknowledged() {
    for hangs in [false, true] {
        let (mut world, device, version) = last_one_left(hangs);
        world.beyond = true;
        let at = world.areas.data_start().0 + 40;
        world.disks[device.0 as usize].unwritable.insert(at);
        world.drain();
        assert_eq!(world.last(), Err(RequestError::Io), "{hangs}");
        assert_eq!(world.read_one(0), version, "{hangs}");
        world.disks[device.0 as usize].unwritable.clear();
        world.restart();
        assert_eq!(world.read_one(0), version, "{hangs}");
        assert_eq!(world.last(), Ok(()), "{hangs}");
    }
}

/// A member that takes the write is enough.
#[test]
fn the_last_one_that_takes_a_write_is_enough() {
    for hangs in [false, true] {
        let (mut world, _, version) = last_one_left(hangs);
        world.drain();
        assert_eq!(world.results, [], "{hangs}: no request has failed");
        assert_eq!(world.read_one(0), version, "{hangs}");
    }
}

//! Passes end when there is nothing left to do, and not with a timer.

use raidcore::engine::{Command, Input, Note, PassEnd, PassKind};
use raidcore::geometry::Level;
use raidcore::meta::DeviceUuid;
use raidcore::units::{DeviceId, MemberId};

use crate::array::{Array, CHUNK};

const MEMBER: MemberId = MemberId(1);

fn mirrors_and_a_device() -> (Array, DeviceId) {
    let mut array = Array::new(Level::Raid1, 2, CHUNK);
    array.disks.push(Vec::new());
    (array, DeviceId(2))
}

pub(crate) fn tell(array: &mut Array, command: Command) {
    array.tell(Input::Command { number: 0, command });
}

pub(crate) fn add(array: &mut Array, device: DeviceId) {
    let uuid = DeviceUuid([9; 16]);
    tell(array, Command::AddSpare { device, uuid, blocks: 1 << 16 });
}

#[test]
fn a_rebuild_ends_though_the_clock_stands_still() {
    let (mut array, device) = mirrors_and_a_device();
    tell(&mut array, Command::Fail(MEMBER));
    add(&mut array, device);
    let ended = Note::PassEnded(PassKind::Rebuild(MEMBER), PassEnd::Done);
    assert!(array.notes.contains(&ended), "{:?}", array.notes);
    assert!(array.disks[0] == array.disks[2][..array.disks[0].len()]);
}

#[test]
fn a_copy_ends_though_the_clock_stands_still() {
    let (mut array, device) = mirrors_and_a_device();
    add(&mut array, device);
    tell(&mut array, Command::Replace { member: MEMBER, spare: device });
    let ended = Note::PassEnded(PassKind::Copy(MEMBER), PassEnd::Done);
    assert!(array.notes.contains(&ended), "{:?}", array.notes);
    assert!(array.disks[0] == array.disks[2][..array.disks[0].len()]);
}

//! The progress of a pass, from which a host computes its rate and the remaining time.

use std::time::Duration;

use raidcore::engine::{Command, Input, Op, PassKind, PassStatus, Request};
use raidcore::geometry::Level;
use raidcore::meta::SlotState;
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, MemberId, Tag};

use crate::array::{Array, CHUNK};
use crate::ends::{add, tell};

const MEMBER: MemberId = MemberId(1);

/// A stripe in a second.
const SLOW: u64 = CHUNK as u64 * BLOCK_BYTES as u64;

/// The progress of the rebuild after some more seconds: stripes done, and stripes worked on.
fn after(array: &mut Array, seconds: u64) -> (u64, u64) {
    for _ in 0..seconds {
        array.wait(Duration::from_secs(1));
    }
    let PassStatus { kind, done, worked, .. } = array.engine.pass().expect("it is under way");
    assert_eq!(kind, PassKind::Rebuild(MEMBER));
    (done, worked)
}

#[test]
fn stripes_of_zeros_are_no_work() {
    let mut array = Array::found(Level::Raid1, 2, CHUNK, SLOW, |_| {});
    array.disks.push(Vec::new());
    let (tag, op, lba, blocks) = (Tag(0), Op::Discard, Lba(u64::from(CHUNK)), 2 * CHUNK);
    array.tell(Input::Request(Request { tag, op, lba, blocks, fua: false }));
    tell(&mut array, Command::Fail(MEMBER));
    add(&mut array, DeviceId(2));
    let told: Vec<_> = (0..5).map(|second| after(&mut array, second.min(1))).collect();
    assert_eq!(told, [(1, 1), (2, 1), (3, 1), (4, 2), (5, 3)]);
}

#[test]
fn what_was_done_before_a_start_is_none_of_the_pass() {
    let mut array = Array::found(Level::Raid1, 2, CHUNK, SLOW, |record| {
        record.slots[MEMBER.index()].state = SlotState::Rebuilding { watermark: 3 };
    });
    assert_eq!(after(&mut array, 0), (4, 1));
    assert_eq!(after(&mut array, 1), (5, 2));
    assert_eq!(array.engine.pass().map(|pass| pass.from), Some(3));
}

//! Entries of the staging log that take long to store, and are put on others: the late copy is none.

use raidcore::units::{MemberId, Set};
use raidlog::ONLY;

use super::super::*;
use super::beside::Log;
use crate::disk::{Data, Kept};

/// Entries that take longer than this are written to others, too.
const PATIENCE: Duration = Duration::from_millis(1);

/// A write of block 0 is being staged. One of its holders takes long.
struct Late {
    world: World,
    version: u64,
    /// The disk that takes long.
    late: DeviceId,
    /// The others that have it, once that is so.
    holders: Vec<DeviceId>,
}

fn writes(world: &World) -> Vec<DeviceId> {
    let entries = world.ios.iter().filter(|pending| pending.io.op == IoOp::Journal);
    entries.map(|pending| pending.io.device).collect()
}

impl Late {
    /// One I/O of the array's is held back, all others have ended when patience does.
    fn begin(level: Level, members: usize, staging: u64) -> Self {
        let mut scenario = scenario(level, members, Consistency::Bitmap);
        (scenario.staging, scenario.busy) = (staging, 1);
        let mut world = play(1, scenario);
        world.machine.set_steering(ONLY, Some(Box::new(Log { patience: Some(PATIENCE) })));
        world.ask(0, Op::Write, 0, 1);
        let version = version_of(0, &world.memory.payload[0][0]);
        let holders = writes(&world);
        let late = holders[0];
        world.end_all(|io| io.device != late);
        assert_eq!(writes(&world), [late]);
        Self { world, version, late, holders: holders[1..].to_vec() }
    }

    /// Patience ends: another gets it.
    fn wait(&mut self) {
        assert!(self.world.requests[0].is_some(), "it waits");
        self.world.now = self.world.now + PATIENCE;
        self.world.step(Input::Tick);
        let others = writes(&self.world);
        assert_eq!(others.len(), 2, "{others:?}");
        let other = others.into_iter().find(|&other| other != self.late);
        self.holders.push(other.expect("another than the one that is waited for"));
    }

    /// It is there, and the request's memory is another's.
    fn answered(level: Level, members: usize, staging: u64) -> Self {
        let mut late = Self::begin(level, members, staging);
        late.wait();
        let DeviceId(slow) = late.late;
        assert!(late.world.end_one(|io| io.device.0 != slow));
        assert!(late.world.requests[0].is_none(), "as many have it as it takes");
        assert_eq!(late.world.engine().counters().hedged_writes, 1);
        late.world.memory.payload[0][0] = Data::ZERO;
        late
    }

    fn lands(&mut self) {
        let slow = self.late;
        assert!(self.world.end_one(|io| io.device == slow && io.op == IoOp::Journal));
    }
}

#[test]
fn a_write_is_answered_when_enough_have_it_whichever_these_are() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
        let mut late = Late::answered(level, members, 128);
        late.lands();
        // None but the last of those that have it is left, as far as redundancy allows it.
        for &DeviceId(gone) in &late.holders[1..] {
            late.world.disks[gone as usize].gone = true;
        }
        late.world.restart();
        assert_eq!(late.world.read_one(0), late.version, "{level:?}");
    }
}

#[test]
fn what_comes_late_is_not_read() {
    for first in [true, false] {
        let mut late = Late::answered(Level::Raid5, 4, 128);
        if first {
            late.lands();
        }
        let gone = late.holders[0];
        late.world.disks[gone.0 as usize].gone = true;
        late.world.step(Input::DeviceGone(gone));
        assert_eq!(late.world.read_one(0), late.version);
        late.world.drain();
        assert_eq!(late.world.read_one(0), late.version);
    }
}

#[test]
fn it_counts_if_it_comes_before_the_one_in_its_place() {
    let mut late = Late::begin(Level::Raid5, 4, 128);
    late.wait();
    late.lands();
    assert!(late.world.requests[0].is_none());
    // The other is the late one now.
    late.world.memory.payload[0][0] = Data::ZERO;
    let other = *late.holders.last().expect("there is one");
    assert!(late.world.end_one(|io| io.device == other && io.op == IoOp::Journal));
    late.world.disks[late.holders[0].0 as usize].gone = true;
    late.world.restart();
    assert_eq!(late.world.read_one(0), late.version);
}

#[test]
fn another_that_fails_is_one_less_that_may() {
    let mut late = Late::begin(Level::Raid6, 5, 128);
    late.wait();
    let other = late.holders.pop().expect("there is one");
    late.world.disks[other.0 as usize].gone = true;
    assert!(late.world.end_one(|io| io.device == other && io.op == IoOp::Journal));
    let slow = late.late;
    late.world.end_all(|io| io.device != slow || io.op != IoOp::Journal);
    assert!(late.world.requests[0].is_none(), "two have it, and one more may be lost");
    late.world.memory.payload[0][0] = Data::ZERO;
    late.lands();
    late.world.disks[late.holders[0].0 as usize].gone = true;
    late.world.restart();
    assert_eq!(late.world.read_one(0), late.version);
}

/// The log is small: its rings come round several times while the late copy is under way, as far as they can.
#[test]
fn the_room_of_what_comes_late_is_its_own_until_it_has() {
    let mut late = Late::answered(Level::Raid5, 4, 64);
    let slow = late.late;
    let (mut written, mut waits) = (0, 0);
    while written < 100 && waits < 100 {
        if late.world.requests[1].is_none() {
            late.world.ask(1, Op::Write, 16 + written % 8, 1);
            written += 1;
        }
        let ended = late.world.end_first_compute()
            || late.world.end_one(|io| io.device != slow || io.op != IoOp::Journal);
        if !ended {
            waits += 1;
            late.world.now = late.world.now + PATIENCE;
            late.world.step(Input::Tick);
        }
    }
    assert!(writes(&late.world).contains(&slow), "it is still under way");
    late.lands();
    late.world.drain();
    assert_eq!((late.world.dirty(), late.world.read_one(0)), (0, late.version));
}

#[test]
fn who_has_no_room_or_is_busy_is_not_asked_instead() {
    let mut late = Late::begin(Level::Raid5, 3, 128);
    let third = (0..3).map(DeviceId).find(|id| *id != late.late && *id != late.holders[0]);
    let third = third.expect("there are three");
    late.world.step(Input::Busy(Set::one(MemberId(third.0 as u8))));
    late.world.now = late.world.now + PATIENCE;
    late.world.step(Input::Tick);
    assert_eq!(writes(&late.world), [late.late]);
    late.lands();
    assert!(late.world.requests[0].is_none());
    late.world.drain();
    assert_eq!(late.world.engine().counters().hedged_writes, 0);
}

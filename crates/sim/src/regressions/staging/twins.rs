//! Writes that take long at home are staged as well.

use std::sync::{Arc, Mutex};

use det::Instant;
use raidcore::engine::{
    Counters, Detour, HedgedWrite, IoId, Outcome, Redirect, SteeringPolicy, Way,
};
use raidlog::ONLY;

use super::super::*;
use super::beside::Log;
use crate::disk::{Data, FOR_GOOD, Kept};

/// Writes that take longer than this at home are staged, too.
const PATIENCE: Duration = Duration::from_millis(1);

/// What a policy was told.
#[derive(Default)]
struct Told {
    ended: Vec<Outcome>,
    hedged: Vec<HedgedWrite>,
}

type Shared = Arc<Mutex<Told>>;

/// Stages what takes long at home if it `hedges`, and what is staged already.
struct Hurried {
    hedges: bool,
    told: Shared,
}

impl Hurried {
    fn told(told: Shared) -> Box<Self> {
        Box::new(Self { hedges: true, told })
    }
}

impl SteeringPolicy for Hurried {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        false
    }

    fn stages_calm(&self) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, redirect: Redirect) -> bool {
        redirect.staged
    }

    fn home_patience(&mut self, _: Instant, _: u32) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn hedges_write(&mut self, _: Instant, _: Redirect) -> bool {
        self.hedges
    }

    fn ended(&mut self, outcome: Outcome) {
        self.told.lock().expect("no test has failed here").ended.push(outcome);
    }

    fn hedged_write(&mut self, hedged: HedgedWrite) {
        self.told.lock().expect("no test has failed here").hedged.push(hedged);
    }
}

/// What a write at home waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    /// Old data or parity.
    Read,
    /// Its entry in the journal.
    Entry,
    /// A member that is to change.
    Write,
}

const ALL: [Waits; 3] = [Waits::Read, Waits::Entry, Waits::Write];

impl Waits {
    fn is_for(self, io: &Io) -> bool {
        match self {
            Self::Read => matches!(io.op, IoOp::Read(_)),
            Self::Entry => io.op == IoOp::Journal,
            Self::Write => matches!(io.op, IoOp::Write { .. }),
        }
    }
}

/// A write of block 0 that waits at home for one I/O.
struct Late {
    world: World,
    shared: Shared,
    version: u64,
    waits: Waits,
    /// What it waits for.
    io: IoId,
}

impl Late {
    fn begin(waits: Waits, whole_entries: bool) -> Self {
        let mut scenario = scenario(Level::Raid5, 4, Consistency::Journal);
        (scenario.staging, scenario.busy, scenario.whole_entries) = (128, 1, whole_entries);
        let mut world = play(1, scenario);
        world.write_one(0);
        let shared = Shared::default();
        world.machine.set_steering(ONLY, Some(Hurried::told(shared.clone())));
        world.ask(0, Op::Write, 0, 1);
        let version = version_of(0, &world.memory.payload[0][0]);
        world.until(|world| world.ios.iter().any(|pending| waits.is_for(&pending.io)));
        let late = world.ios.iter().find(|pending| waits.is_for(&pending.io));
        let io = late.expect("it waits for it").io.id;
        Self { world, shared, version, waits, io }
    }

    /// The log has it, and the request's memory is another's.
    fn answered(waits: Waits, whole_entries: bool) -> Self {
        let mut late = Self::begin(waits, whole_entries);
        let id = late.io;
        late.world.end_all(|io| io.id != id);
        assert!(late.world.requests[0].is_some(), "{waits:?}");
        late.waits_long();
        late.world.end_all(|io| io.id != id);
        assert!(late.world.requests[0].is_none(), "{waits:?}: the log has it");
        assert_eq!(late.world.engine().counters().hedged_home_writes, 1);
        assert_eq!(late.world.dirty(), 1);
        late.world.memory.payload[0][0] = Data::ZERO;
        late
    }

    /// Patience ends.
    fn waits_long(&mut self) {
        self.world.now = self.world.now + PATIENCE;
        self.world.step(Input::Tick);
    }

    fn lands(&mut self) {
        let id = self.io;
        assert!(self.world.end_one(|io| io.id == id));
        while self.world.end_first_compute() {}
    }

    /// Block 0 is read as this version, also after a restart, and once all is at home.
    fn stays(mut self, version: u64, restarts: bool) {
        if restarts {
            self.world.restart();
        }
        assert_eq!(self.world.read_one(0), version, "{:?}", self.waits);
        self.world.drain();
        assert_eq!((self.world.dirty(), self.world.read_one(0)), (0, version), "{:?}", self.waits);
    }
}

#[test]
fn it_is_answered_by_the_log_whatever_it_waits_for() {
    for waits in ALL {
        for [whole_entries, lands, restarts] in
            [[true, true, true], [true, false, true], [false, true, false], [false, false, true]]
        {
            let mut late = Late::answered(waits, whole_entries);
            if lands {
                late.lands();
            }
            let version = late.version;
            late.stays(version, restarts);
        }
    }
}

#[test]
fn one_that_still_reads_leaves_home_as_it_is() {
    let mut late = Late::answered(Waits::Read, false);
    // So that nothing comes home.
    late.world.ask(1, Op::Read, 20, 1);
    late.lands();
    assert!(!late.world.ios.iter().any(|pending| Waits::Write.is_for(&pending.io)));
    assert_eq!((late.world.dirty(), late.world.engine().counters().home_meanwhile), (1, 0));
    let version = late.version;
    late.stays(version, true);
}

/// The next write of the stripe counts on it: its parity is made of what is home then.
#[test]
fn one_whose_entry_is_in_the_journal_goes_home() {
    for whole_entries in [false, true] {
        let mut late = Late::answered(Waits::Entry, whole_entries);
        late.lands();
        late.world.end_all(|io| Waits::Write.is_for(io));
        assert_eq!((late.world.dirty(), late.world.engine().counters().home_meanwhile), (0, 1));
        late.world.machine.set_steering(ONLY, None);
        late.world.ask(1, Op::Write, 1, 1);
        late.world.end_all(|io| !Waits::Write.is_for(io));
        let version = late.version;
        // What was to be written is lost with a member's content.
        late.world.restart_without(0);
        assert_eq!(late.world.read_one(0), version);
    }
}

#[test]
fn what_it_goes_on_to_write_need_not_come_home_again() {
    for first in [false, true] {
        let mut late = Late::begin(Waits::Write, false);
        late.waits_long();
        let is_home = |io: &Io| Waits::Write.is_for(io);
        // Whichever ends first.
        if first {
            late.world.end_all(is_home);
            assert!(
                late.world.requests[0].is_some(),
                "the log may still read what is to be staged"
            );
        }
        late.world.end_all(|io| !is_home(io));
        assert!(late.world.requests[0].is_none());
        late.world.memory.payload[0][0] = Data::ZERO;
        late.world.end_all(is_home);
        assert_eq!((late.world.dirty(), late.world.engine().counters().home_meanwhile), (0, 1));
        let version = late.version;
        late.world.drain();
        assert_eq!(late.world.engine().counters().reclaimed_blocks, 0);
        late.stays(version, true);
    }
}

#[test]
fn one_that_can_not_read_leaves_home_as_it_is() {
    let mut late = Late::answered(Waits::Read, false);
    // So that nothing comes home.
    late.world.ask(1, Op::Read, 20, 1);
    let io = late.world.ios.iter().find(|pending| pending.io.id == late.io);
    let at = io.expect("it is under way").io.at.0;
    for disk in &mut late.world.disks {
        disk.bad.insert(at, FOR_GOOD);
    }
    late.lands();
    late.world.end_all(|io| io.op != IoOp::Journal);
    assert_eq!((late.world.dirty(), late.world.engine().counters().home_meanwhile), (1, 0));
    assert_eq!(late.world.read_one(0), late.version);
}

#[test]
fn what_is_written_meanwhile_counts_and_comes_home() {
    for waits in ALL {
        for restarts in [false, true] {
            let mut late = Late::answered(waits, false);
            let id = late.io;
            late.world.ask(1, Op::Write, 0, 1);
            let version = version_of(0, &late.world.memory.payload[1][0]);
            late.world.step(Input::Tick);
            late.world.end_all(|io| io.id != id);
            assert!(late.world.requests[1].is_none(), "{waits:?}: it does not wait for home");
            late.lands();
            assert_eq!(late.world.dirty(), 1, "{waits:?}: what is at home is older");
            late.stays(version, restarts);
        }
    }
}

#[test]
fn what_is_written_meanwhile_at_home_waits_for_both() {
    for waits in ALL {
        let mut late = Late::answered(waits, false);
        late.world.machine.set_steering(ONLY, None);
        let id = late.io;
        // Another block of the same stripe, which is not staged.
        late.world.ask(1, Op::Write, 1, 1);
        late.world.end_all(|io| io.id != id);
        assert!(late.world.requests[1].is_some(), "{waits:?}");
        let (version, other) = (late.version, version_of(1, &late.world.memory.payload[1][0]));
        late.world.drain();
        assert_eq!(late.world.read_one(1), other, "{waits:?}");
        late.stays(version, true);
    }
}

#[test]
fn a_member_that_is_lost_meanwhile_does_no_harm() {
    for waits in ALL {
        for lands in [false, true] {
            for disk in 0..4_u32 {
                let mut late = Late::answered(waits, false);
                if lands {
                    late.lands();
                }
                late.world.disks[disk as usize].gone = true;
                late.world.step(Input::DeviceGone(DeviceId(disk)));
                let version = late.version;
                late.world.drain();
                late.stays(version, true);
            }
        }
    }
}

#[test]
fn the_policy_is_told_what_it_would_have_taken() {
    const MORE: Duration = Duration::from_millis(30);
    for waits in ALL {
        let mut late = Late::answered(waits, false);
        let answered =
            *late.shared.lock().expect("no test has failed here").ended.last().expect("it has");
        assert!(answered.hedged && answered.way == Way::Around, "{waits:?}");
        late.world.now = late.world.now + MORE;
        late.lands();
        late.world.end_all(|io| Waits::Write.is_for(io));
        let told = late.shared.lock().expect("no test has failed here");
        let [HedgedWrite { blocks: 1, way: Way::Calm, took, home, late: None }] = told.hedged[..]
        else {
            panic!("{waits:?}: {:?}", told.hedged)
        };
        assert_eq!(took, answered.took);
        assert!(took >= PATIENCE && home >= took + MORE, "{waits:?}: {took:?}, {home:?}");
    }
}

/// It goes home before the log has it: what it would have taken is less than what it took, unless it has only read.
#[test]
fn the_policy_is_told_what_it_lost() {
    const MORE: Duration = Duration::from_millis(30);
    for waits in ALL {
        let mut late = Late::begin(waits, false);
        late.waits_long();
        let is_homes = |io: &Io| !matches!(io.op, IoOp::Journal);
        let id = late.io;
        let is_mine = |io: &Io| io.id == id || waits != Waits::Read && is_homes(io);
        late.world.end_all(is_mine);
        assert!(late.world.requests[0].is_some(), "{waits:?}");
        late.world.now = late.world.now + MORE;
        late.world.drain();
        let told = late.shared.lock().expect("no test has failed here");
        let [HedgedWrite { took, home, .. }] = told.hedged[..] else {
            panic!("{waits:?}: {:?}", told.hedged)
        };
        assert!(took >= PATIENCE + MORE, "{waits:?}: {took:?}");
        match waits {
            Waits::Read => assert!(home >= took, "{took:?}, {home:?}"),
            Waits::Entry | Waits::Write => assert!(home + MORE <= took, "{took:?}, {home:?}"),
        }
    }
}

/// Redundancy of what users have not written does not depend on how they write beside it.
#[test]
fn its_entry_has_the_parity_of_the_others() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
        let mut scenario = scenario(level, members, Consistency::Journal);
        (scenario.staging, scenario.busy, scenario.whole_entries) = (128, 1, false);
        let mut world = play(1, scenario);
        // One block of each chunk of a row.
        let other = world.write_one(4);
        world.write_one(0);
        let policy = Hurried { hedges: false, told: Shared::default() };
        world.machine.set_steering(ONLY, Some(Box::new(policy)));
        world.ask(0, Op::Write, 0, 1);
        let version = version_of(0, &world.memory.payload[0][0]);
        world.end_all(|_| true);
        assert!(world.requests[0].is_none(), "{level:?}");
        let lost = world.home_of(4);
        world.restart_without(lost);
        assert_eq!((world.read_one(0), world.read_one(4)), (version, other), "{level:?}");
    }
}

/// A world with so many entries in its log, where nothing comes home; none if there is no room for so many.
fn filled(entries: u64) -> Option<World> {
    let mut scenario = scenario(Level::Raid5, 3, Consistency::Journal);
    (scenario.staging, scenario.busy) = (64, 1);
    let mut world = play(1, scenario);
    (0..80).for_each(|lba| {
        world.write_one(lba);
    });
    world.ask(2, Op::Read, 63, 1);
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    (0..entries)
        .all(|lba| {
            world.ask(0, Op::Write, lba, 1);
            world.step(Input::Tick);
            world.end_all(|io| io.op == IoOp::Journal);
            world.requests[0].is_none()
        })
        .then_some(world)
}

/// Two take long at once, and there may be room in the log for one of them.
#[test]
fn one_for_which_there_is_no_room_is_answered_at_home() {
    for waits in [Waits::Read, Waits::Write] {
        let mut without_room = 0;
        for mut world in (0..60).map_while(filled) {
            world.machine.set_steering(ONLY, Some(Hurried::told(Shared::default())));
            let counters = |world: &World| world.engine().counters();
            let before = counters(&world);
            let reads: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
            [(0, 64), (1, 72)].into_iter().for_each(|(tag, lba)| world.ask(tag, Op::Write, lba, 1));
            let versions =
                [(0, 64), (1, 72)].map(|(tag, lba)| version_of(lba, &world.memory.payload[tag][0]));
            world.end_all(|io| {
                waits == Waits::Write && !waits.is_for(io) && !reads.contains(&io.id)
            });
            world.now = world.now + PATIENCE;
            world.step(Input::Tick);
            let staged = counters(&world).staged_writes - before.staged_writes;
            let tried = counters(&world).hedged_home_writes - before.hedged_home_writes;
            without_room += u32::from(staged < tried);
            world.drain();
            // What is staged while it reads leaves home as it is; all else is written once.
            let written = |of: Counters| of.delta_writes + of.reconstruct_writes;
            let left = if waits == Waits::Read { staged } else { 0 };
            assert_eq!(written(counters(&world)) - written(before), 2 - left, "{waits:?}");
            assert_eq!([world.read_one(64), world.read_one(72)], versions, "{waits:?}");
            world.restart();
            assert_eq!([world.read_one(64), world.read_one(72)], versions, "{waits:?}");
        }
        assert!(without_room > 0, "{waits:?}: it was not tried");
    }
}

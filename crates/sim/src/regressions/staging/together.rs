//! Writes that come at one moment share a header in the staging log.

use raidlog::ONLY;

use super::super::*;
use super::beside::Log;
use crate::disk::{Data, Kept};

/// Entries that take longer than this are written to others, too.
const PATIENCE: Duration = Duration::from_millis(1);

/// Writes of the first blocks of stripes 0, 1, 2 ...: the first goes to the log by itself, the others share an
/// entry's header.
struct Shared {
    world: World,
    versions: Vec<u64>,
    /// The first block of each.
    lbas: Vec<u64>,
}

fn entries(world: &World) -> Vec<Io> {
    let ios = world.ios.iter().map(|pending| pending.io);
    ios.filter(|io| io.op == IoOp::Journal).collect()
}

impl Shared {
    fn begin(level: Level, members: usize, writes: u16) -> Self {
        let mut scenario = scenario(level, members, Consistency::Bitmap);
        (scenario.staging, scenario.busy, scenario.whole_entries) = (128, 1, false);
        let mut world = play(1, scenario);
        world.machine.set_steering(ONLY, Some(Box::new(Log { patience: Some(PATIENCE) })));
        let blocks = u64::from(world.engine().geometry().stripe_blocks());
        let lbas: Vec<_> = (0..u64::from(writes)).map(|write| write * blocks).collect();
        for (tag, &lba) in (0..).zip(&lbas) {
            world.ask(tag, Op::Write, lba, 1);
        }
        let version = |(tag, &lba): (usize, &u64)| version_of(lba, &world.memory.payload[tag][0]);
        let versions = lbas.iter().enumerate().map(version).collect();
        Self { world, versions, lbas }
    }

    /// What was gathered is under way, and the first write has ended.
    fn stored(level: Level, members: usize, writes: u16) -> Self {
        let mut shared = Self::begin(level, members, writes);
        let copies = entries(&shared.world).len();
        assert_eq!(copies, shared.world.redundancy() + 1, "one is not gathered");
        while shared.world.end_one(|io| io.op == IoOp::Journal) {}
        shared.world.step(Input::Tick);
        let blocks: Vec<_> = entries(&shared.world).iter().map(|io| io.blocks).collect();
        assert_eq!(blocks, vec![u32::from(writes); copies], "one header for all but the first");
        assert_eq!(shared.world.engine().counters().staged_together, u64::from(writes) - 2);
        shared
    }

    fn is_there(&mut self) {
        for (&lba, &version) in self.lbas.iter().zip(&self.versions) {
            assert_eq!(self.world.read_one(lba), version, "{lba}");
        }
    }

    fn lose(&mut self, device: DeviceId) {
        self.world.disks[device.0 as usize].gone = true;
    }

    /// The users' memory is theirs again.
    fn forget(&mut self) {
        assert!(self.world.requests.iter().all(Option::is_none), "all were answered");
        self.world.memory.payload.iter_mut().for_each(|blocks| blocks[0] = Data::ZERO);
    }
}

#[test]
fn each_is_found_by_itself() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
        for gone in 0..members as u32 {
            let mut shared = Shared::stored(level, members, 5);
            shared.world.end_all(|io| io.op == IoOp::Journal);
            shared.forget();
            shared.is_there();
            // Before they have come home, and with one of those gone that may have them.
            shared.lose(DeviceId(gone));
            shared.world.restart();
            shared.is_there();
        }
    }
}

#[test]
fn they_are_numbered_on_from_those_before_them() {
    let mut shared = Shared::stored(Level::Raid5, 4, 4);
    shared.world.end_all(|io| io.op == IoOp::Journal);
    // Each is written again, by itself and last to first.
    for at in (0..shared.lbas.len()).rev() {
        let lba = shared.lbas[at];
        shared.world.ask(0, Op::Write, lba, 1);
        shared.versions[at] = version_of(lba, &shared.world.memory.payload[0][0]);
        shared.world.end_all(|io| io.op == IoOp::Journal);
    }
    shared.world.restart();
    shared.is_there();
}

/// The block that is torn is the second of three under a header.
#[test]
fn what_is_torn_of_one_says_nothing_of_the_others() {
    let mut shared = Shared::stored(Level::Raid5, 4, 4);
    for io in entries(&shared.world) {
        while shared.world.end_one(|other| *other == io) {}
        let garbage = Rc::new([0xa5; BLOCK_BYTES]);
        shared.world.disks[io.device.0 as usize].write_meta(io.at.0 + 2, garbage, true);
    }
    shared.versions.remove(2);
    shared.lbas.remove(2);
    shared.world.cut_power();
    shared.world.drain();
    shared.is_there();
}

#[test]
fn they_go_to_others_together_when_one_takes_long() {
    for lands_first in [true, false] {
        let mut shared = Shared::stored(Level::Raid5, 4, 4);
        let [late, first] = [0, 1].map(|at| entries(&shared.world)[at].device);
        shared.world.end_all(|io| io.device != late);
        shared.world.now = shared.world.now + PATIENCE;
        shared.world.step(Input::Tick);
        let other = entries(&shared.world).into_iter().find(|io| io.device != late);
        let other = other.expect("another gets it");
        assert_eq!(other.blocks, 4, "all of it");
        assert!(shared.world.end_one(|io| *io == other));
        shared.forget();
        if lands_first {
            assert!(shared.world.end_one(|io| io.device == late));
        }
        shared.lose(first);
        if lands_first {
            shared.world.restart();
        } else {
            shared.world.step(Input::DeviceGone(first));
        }
        shared.is_there();
    }
}

/// One of those that are to have it can't, and none can be spared.
#[test]
fn all_fail_that_are_on_too_few() {
    let mut shared = Shared::begin(Level::Raid5, 4, 4);
    shared.world.end_all(|io| io.op == IoOp::Journal);
    shared.world.step(Input::Tick);
    let [bad, other] = [0, 1].map(|at| entries(&shared.world)[at]);
    let gone = (0..4).map(DeviceId).find(|gone| ![bad.device, other.device].contains(gone));
    let gone = gone.expect("two hold it");
    shared.lose(gone);
    shared.world.step(Input::DeviceGone(gone));
    shared.world.beyond = true;
    shared.world.disks[bad.device.0 as usize].unwritable.insert(bad.at.0);
    shared.world.drain();
    let failed = shared.world.results.iter().filter(|result| result.is_err()).count();
    assert_eq!((failed, shared.world.results.len()), (3, 3), "the first had ended");
}

#[test]
fn what_was_gathered_when_a_stop_begins_goes_home() {
    let mut shared = Shared::begin(Level::Raid5, 4, 4);
    let number = shared.world.command(Command::Stop);
    while !shared.world.answers.iter().any(|(answered, _)| *answered == number) {
        shared.world.proceed();
    }
    assert!(shared.world.results.iter().all(Result::is_ok), "they were asked before");
    shared.world.restart();
    shared.is_there();
}

//! What a rebuild fills in whatever order is filled, and nothing else, whatever happens.

use raidcore::engine::{REBUILD_ORDERS, RebuildOrder};
use raidcore::meta::{ArrayRecord, SlotState};

use super::phases::is_flush;
use super::*;
use crate::checks;
use crate::checks::progress::Bound;

const FILLED: MemberId = MemberId(1);

fn order(name: &str) -> &'static RebuildOrder {
    RebuildOrder::named(name).expect("there is such an order")
}

/// RAID5 of three, with something everywhere.
fn full(consistency: Consistency) -> World {
    let mut world = world(Level::Raid5, 3, consistency);
    world.write_all();
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    world
}

impl World {
    /// A spare with noise on it is added.
    fn add_noise(&mut self) -> DeviceId {
        let (spare, device) = self.noisy_spare();
        self.command(spare);
        device
    }

    fn rebuilds(&self) -> bool {
        self.engine().pass().is_some_and(|pass| matches!(pass.kind, PassKind::Rebuild(_)))
    }

    fn done(&self) -> u64 {
        self.engine().pass().map_or(0, |pass| pass.done)
    }

    /// The ranges of stripes that are filled on the records of all that serve or are being filled.
    fn on_record(&self) -> Vec<u64> {
        let records = self.superblocks().map(|(_, superblock)| superblock.record);
        let current = records.filter(|r| r.slots[FILLED.index()].state != SlotState::Up);
        let filled = |record: ArrayRecord| {
            record.filled.map_or(Vec::new(), |filled| filled.ranges.iter().collect())
        };
        let both = |all: Vec<u64>, other: Vec<u64>| {
            all.into_iter().filter(|range| other.contains(range)).collect()
        };
        current.map(filled).reduce(both).unwrap_or_default()
    }

    /// The first block of the member's data in this stripe, if it has data there.
    fn block_of(&self, stripe: u64) -> Option<Lba> {
        let geometry = self.engine().geometry();
        let role = geometry.role(Stripe(stripe), FILLED).filter(|role| role.index() < 2)?;
        let first = stripe * u64::from(geometry.stripe_blocks());
        Some(Lba(first + role.index() as u64 * u64::from(geometry.chunk())))
    }
}

#[test]
fn what_is_filled_in_any_order_is_there_after_a_power_failure_and_is_not_filled_again() {
    for order in &REBUILD_ORDERS {
        let mut world = full(Consistency::Journal);
        world.command(Command::SetRebuildOrder(order));
        (0..50).for_each(|_| {
            world.read_one(20 * 8);
        });
        world.command(Command::Fail(FILLED));
        world.add_noise();
        let mut bound = Bound::new("twelve ranges are on record", 100_000);
        while world.on_record().len() < 12 {
            bound.spend(&world);
            if world.requests[3].is_none() && world.source.chance(1, 4) {
                let stripe = 25 + world.source.below(10);
                if let Some(at) = world.block_of(stripe) {
                    world.ask(3, Op::Read, at.0, 1);
                }
            }
            world.proceed();
        }
        let filled = world.on_record();
        let ahead = filled.last().is_some_and(|&last| last >= 20);
        assert_eq!(ahead, order.name != "sequential", "{}: {filled:?}", order.name);
        world.cut_power();
        world.until(World::rebuilds);
        let from = world.engine().pass().map_or(0, |pass| pass.from);
        assert!(from >= filled.len() as u64, "{}: {from} of {filled:?}", order.name);
        world.heal(World::is_whole);
        world.verify();
        checks::parity::agrees(&world);
    }
}

/// The member is replaced while a stripe of it is still being filled, and only then does a flush begin that
/// records what was filled. The power fails before anything is on the new device.
#[test]
fn what_a_pass_has_filled_is_not_on_record_of_the_device_that_replaces_its_own() {
    let mut world = full(Consistency::Journal);
    world.command(Command::Fail(FILLED));
    world.add_noise();
    world.until(|world| world.done() >= 6);
    let fills = |world: &World, io: &Io| {
        let device = world.engine().members().nth(FILLED.index()).and_then(|m| m.device);
        matches!(io.op, IoOp::Write { .. }) && Some(io.device) == device
    };
    world.until(|world| world.ios.iter().any(|p| fills(world, &p.io)));
    let held = world.ios.iter().find(|p| fills(&world, &p.io)).map(|p| p.io.id);
    let next = world.add_noise();
    world.command(Command::Replace { member: FILLED, spare: next });
    for _ in 0..20 {
        world.now = world.now + Duration::from_secs(6);
        world.step(Input::Tick);
        world.end_all(|io| Some(io.id) != held);
    }
    assert!(world.ios.iter().any(|p| Some(p.io.id) == held), "it is still under way");
    world.cut_power();
    world.drain();
    world.verify();
}

#[test]
fn a_device_is_discarded_before_it_is_filled_and_not_written_meanwhile() {
    let mut world = full(Consistency::Bitmap);
    world.command(Command::Fail(FILLED));
    let device = world.add_noise();
    let of_device = |io: &Io| io.device == device && !matches!(io.op, IoOp::Store(_));
    world.until(|world| world.ios.iter().any(|p| p.io.op == IoOp::Discard));
    let layout = *world.engine().layout();
    let discard = world.ios.iter().find(|p| of_device(&p.io)).expect("it is under way").io;
    let (start, blocks) = layout.data_of(FILLED);
    assert_eq!((discard.op, discard.at, u64::from(discard.blocks)), (IoOp::Discard, start, blocks));
    (0..4).for_each(|tag| world.ask(tag, Op::Write, u64::from(tag) * 8, 8));
    world.end_all(|io| !of_device(io) && !is_flush(io));
    assert_eq!(world.ios.iter().filter(|p| of_device(&p.io) && !is_flush(&p.io)).count(), 1);
    world.drain();
    world.heal(World::is_whole);
    world.verify();
    checks::parity::agrees(&world);
    assert!(world.engine().members().all(|m| m.state == SlotState::Up));
}

#[test]
fn what_reads_lack_comes_first() {
    let mut world = full(Consistency::Bitmap);
    world.command(Command::SetRebuildOrder(order("demand")));
    world.command(Command::Fail(FILLED));
    world.add_noise();
    world.until(|world| world.done() >= 2);
    let at = (30..40).find_map(|stripe| world.block_of(stripe)).expect("it has data there");
    world.ask(3, Op::Read, at.0, 1);
    world.until(|world| world.requests[3].is_none());
    let before = world.done();
    world.until(|world| world.engine().is_rebuilt(at) != Some(false));
    assert!(world.done() <= before + 6, "{before} to {}: it waits for its turn", world.done());
    world.drain();
    world.verify();
}

/// A member is copied to a device, which a write goes to, when another member fails and the device is all that
/// can take its place.
#[test]
fn a_device_is_not_discarded_while_it_is_written_as_a_successor() {
    let mut copied = scenario(Level::Raid6, 5, Consistency::Bitmap);
    copied.stripes = 12;
    let mut world = play(1, copied);
    let device = world.replace_a_little(4);
    let of_write = |io: &Io| io.device == device && matches!(io.op, IoOp::Write { .. });
    let blocks = world.engine().geometry().stripe_blocks();
    world.command(Command::Pause);
    world.drain();
    world.ask(0, Op::Write, 0, blocks);
    while !world.ios.iter().any(|p| of_write(&p.io)) {
        assert!(world.end_first_compute() || world.end_one(|io| !of_write(io)));
    }
    world.command(Command::Fail(MemberId(3)));
    world.command(Command::Resume);
    for _ in 0..50 {
        world.end_all(|io| !of_write(io));
        world.pass_time();
    }
    let rebuilds = world.engine().pass().map(|pass| pass.kind);
    assert_eq!(rebuilds, Some(PassKind::Rebuild(MemberId(3))));
    assert!(world.ios.iter().any(|p| of_write(&p.io)), "it is still under way");
    let discards = |world: &World| world.ios.iter().any(|p| p.io.op == IoOp::Discard);
    assert!(!discards(&world));
    while !discards(&world) {
        assert!(world.end_first_compute() || world.end_one(|_| true), "it is never discarded");
    }
    world.heal(World::is_whole);
    world.verify();
    checks::parity::agrees(&world);
}

/// RAID5 of three: what is popular is known after a clean stop, and after a crash in the life that follows.
#[test]
fn what_is_popular_is_known_after_a_stop() {
    let mut world = full(Consistency::Journal);
    (0..500).for_each(|_| {
        world.read_one(20 * 8);
    });
    let number = world.command(Command::Stop);
    world.until(|world| world.answers.contains(&(number, Ok(()))));
    for crash in [false, true] {
        world.restart();
        if crash {
            world.read_one(0);
            world.cut_power();
            world.drain();
        }
        assert_eq!(world.engine().status().half_in, Some((1, 40)));
    }
    world.command(Command::SetRebuildOrder(order("popular")));
    world.command(Command::Fail(FILLED));
    world.add_noise();
    world.until(|world| world.done() >= 1);
    let first = world.block_of(20).expect("it has data there");
    assert_eq!(world.engine().is_rebuilt(first), Some(true));
    world.heal(World::is_whole);
    world.verify();
}

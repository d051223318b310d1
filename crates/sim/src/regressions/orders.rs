//! What a rebuild fills in whatever order is filled, and nothing else, whatever happens.

use raidcore::engine::{REBUILD_ORDERS, RebuildOrder};
use raidcore::meta::{ArrayRecord, SlotState};

use super::phases::is_flush;
use super::*;
use crate::checks;

const FILLED: MemberId = MemberId(1);

fn order(name: &str) -> &'static RebuildOrder {
    RebuildOrder::named(name).expect("there is such an order")
}

/// RAID5 of three, with something everywhere.
fn full(consistency: Consistency) -> World {
    let mut world = world(Level::Raid5, 3, consistency);
    for lba in 0..world.engine().geometry().capacity() {
        world.write_one(lba);
    }
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    world
}

impl World {
    /// A spare with noise on it is added.
    fn add_noise(&mut self) -> DeviceId {
        let spare = self.new_spare();
        let Command::AddSpare { device, .. } = spare else { unreachable!() };
        self.disks[device.0 as usize].soil(&mut Source::seed(1));
        self.command(spare);
        device
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
        while world.on_record().len() < 12 {
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
        while world.engine().pass().is_none_or(|pass| !matches!(pass.kind, PassKind::Rebuild(_))) {
            world.proceed();
        }
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
    while world.done() < 6 {
        world.proceed();
    }
    let fills = |world: &World, io: &Io| {
        let device = world.engine().members().nth(FILLED.index()).and_then(|m| m.device);
        matches!(io.op, IoOp::Write { .. }) && Some(io.device) == device
    };
    while !world.ios.iter().any(|p| fills(&world, &p.io)) {
        world.proceed();
    }
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
    while !world.ios.iter().any(|p| p.io.op == IoOp::Discard) {
        world.proceed();
    }
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
    while world.done() < 2 {
        world.proceed();
    }
    let at = (30..40).find_map(|stripe| world.block_of(stripe)).expect("it has data there");
    world.ask(3, Op::Read, at.0, 1);
    while world.requests[3].is_some() {
        world.proceed();
    }
    let before = world.done();
    while world.engine().is_rebuilt(at) == Some(false) {
        world.proceed();
    }
    assert!(world.done() <= before + 6, "{before} to {}: it waits for its turn", world.done());
    world.drain();
    world.verify();
}

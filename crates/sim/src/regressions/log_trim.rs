//! The staging log is discarded behind itself.

use raidcore::engine::IoOp;
use raidcore::units::Set;

use super::staging::staging_world;
use super::*;

/// The ring of each member: its staging log but for the part of copies.
const RING: u64 = 112;

impl World {
    /// The pieces of rings that are being discarded: disk, and from where to where in the ring.
    fn pieces(&self) -> Vec<(usize, u64, u64)> {
        let start = self.areas.staging().0.0;
        let ios = self.ios.iter().map(|pending| &pending.io);
        let discards =
            ios.filter(|io| io.op == IoOp::Discard && (start..start + RING).contains(&io.at.0));
        let piece = |io: &Io| {
            let from = io.at.0 - start;
            (io.device.0 as usize, from, from + u64::from(io.blocks))
        };
        discards.map(piece).collect()
    }

    /// Runs until nothing is left to do but what is being written to the log.
    fn rest_but_for_the_log(&mut self) {
        for _ in 0..1000 {
            if !self.end_but_for_the_log() {
                self.pass_time();
            }
        }
    }

    /// Writes a block while its home is busy, so that it is staged, and lets it come home.
    fn stage_one(&mut self, lba: u64) -> u64 {
        self.busy(self.home_of(lba));
        let version = self.write_one(lba);
        self.step(Input::Busy(Set::EMPTY));
        self.drain();
        version
    }
}

#[test]
fn what_is_void_is_discarded_and_a_crash_amid_that_harms_nothing() {
    for seed in 0..20 {
        let mut world = staging_world(seed);
        let (mut versions, mut begun) = (vec![0; 8], 0);
        for round in 0..60 {
            let lba = round % 8;
            versions[lba as usize] = world.stage_one(lba);
            world.busy(0);
            world.ask(1, Op::Write, 0, 1);
            for _ in 0..4 {
                world.proceed();
                let pieces = world.pieces();
                assert!(pieces.len() <= 1, "one at a time: {pieces:?}");
                begun += pieces.len();
            }
            // What is under way happens in part.
            world.power_off();
            world.power_on(Outage::Quiet);
            world.drain();
            versions[0] = world.read_one(0);
            let held: Vec<_> = (0..8).map(|lba| world.read_one(lba)).collect();
            assert_eq!(held[1..], versions[1..], "seed {seed}, round {round}");
        }
        assert!(begun > 0, "seed {seed}");
    }
}

#[test]
fn a_log_that_stays_as_it_is_for_the_next_start_is_not_discarded() {
    let mut world = staging_world(1);
    world.busy(0);
    let staged = world.write_one(0);
    world.start_without_home();
    for _ in 0..10_000 {
        assert_eq!(world.pieces(), []);
        if !world.is_busy() {
            break;
        }
        world.proceed();
    }
    assert_eq!(world.read_one(0), staged);
}

#[test]
fn nothing_is_discarded_before_the_tail_that_has_passed_it_is_durable() {
    let mut world = staging_world(1);
    world.rest_but_for_the_log();
    world.busy(0);
    let lbas: Vec<u64> = (0..48).filter(|&lba| world.home_of(lba) == 0).take(12).collect();
    let versions: Vec<_> = lbas.iter().map(|&lba| world.write_one(lba)).collect();
    assert!(world.dirty() > 8, "more than a piece of each ring");
    let trimmed = |world: &World| world.engine().counters().trimmed_blocks;
    let before = trimmed(&world);
    world.step(Input::Busy(Set::EMPTY));
    // All comes home, and is void but for the entry that says so, which is being written.
    world.rest_but_for_the_log();
    assert_eq!(world.dirty(), 0);
    assert!(world.ios.iter().any(|pending| pending.io.op == IoOp::Journal));
    assert_eq!(trimmed(&world), before);
    world.drain();
    assert!(trimmed(&world) > before);
    let held = |world: &mut World| lbas.iter().map(|&lba| world.read_one(lba)).collect::<Vec<_>>();
    assert_eq!(held(&mut world), versions);
}

//! Content that was read after a crash does not become older: not when a member is lost, and after
//! a flush, not by the next crash either.

use super::*;
use crate::disk::Data;

/// Seeds: chance decides which of the unflushed writes survive a power failure.
const SEEDS: std::ops::Range<u64> = 0..8;

/// The events between one read and the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    /// A member is lost.
    Loss,
    /// A flush, a power failure, and a member is lost with it.
    FlushCrashLoss,
    /// A clean stop, and a member is missing at the next start.
    StopLoss,
}

/// Where users write: not where a resync begins.
fn place(world: &World) -> (u64, u32) {
    let stripe = world.engine.geometry().stripe_blocks();
    (u64::from(stripe) * 5, stripe.min(12))
}

/// What users see there.
fn seen(world: &mut World) -> Vec<Data> {
    let (lba, blocks) = place(world);
    world.ask(0, Op::Read, lba, blocks);
    world.drain();
    world.memory.payload[0][..blocks as usize].to_vec()
}

/// An array whose power fails after a stripe was written and not flushed, and that serves again
/// while its resync is paused.
fn in_doubt(seed: u64, level: Level, members: usize, consistency: Consistency) -> World {
    in_doubt_of(12, seed, level, members, consistency)
}

/// The same, with only `blocks` blocks of the stripe written.
fn in_doubt_of(
    most: u32,
    seed: u64,
    level: Level,
    members: usize,
    consistency: Consistency,
) -> World {
    let mut world = play(seed, scenario(level, members, consistency));
    let (lba, blocks) = place(&world);
    world.ask(0, Op::Write, lba, blocks);
    world.drain();
    for (lba, blocks) in [(0, 1), (lba, blocks.min(most))] {
        let request = Request { tag: Tag(0), op: Op::Write, lba: Lba(lba), blocks, fua: false };
        world.begin_request(request);
        world.drain();
    }
    world.cut_power();
    world.begin_pass_paused();
    world
}

impl World {
    /// Goes on until users are served, and the resync, if there is one, is paused.
    fn begin_pass_paused(&mut self) {
        self.command(Command::SetPace(Pace { min: 1, max: 1 }));
        while !self.engine.is_serving() {
            self.proceed();
        }
        if self.engine.pass().is_some() {
            self.command(Command::Pause);
        }
    }
}

fn does_not_age(level: Level, members: usize, consistency: Consistency, meanwhile: Meanwhile) {
    let mut in_doubts = 0;
    for seed in SEEDS {
        for lost in 0..members {
            let mut world = in_doubt(seed, level, members, consistency);
            let (lba, blocks) = place(&world);
            in_doubts += u32::from(world.engine.is_in_doubt(lba, blocks));
            let before = seen(&mut world);
            match meanwhile {
                Meanwhile::Loss => {
                    world.disks[lost].gone = true;
                    world.step(Input::DeviceGone(DeviceId(lost as u32)));
                }
                Meanwhile::FlushCrashLoss => {
                    world.ask(0, Op::Flush, 0, 0);
                    world.drain();
                    world.disks[lost].gone = true;
                    world.cut_power();
                }
                Meanwhile::StopLoss => {
                    let number = world.command(Command::Stop);
                    while !world.answers.contains(&(number, Ok(()))) {
                        world.proceed();
                    }
                    world.disks[lost].gone = true;
                    world.cut_power();
                }
            }
            world.drain();
            let after = seen(&mut world);
            assert!(
                before == after,
                "{level:?} {consistency:?} {meanwhile:?}: without {lost}, seed {seed}"
            );
        }
    }
    assert!(in_doubts > 0, "no seed leaves a stripe in doubt");
}

#[test]
fn a_mirror_shows_nothing_that_the_loss_of_a_copy_takes_back() {
    for consistency in [Consistency::Bitmap, Consistency::Resync] {
        for meanwhile in [Meanwhile::Loss, Meanwhile::FlushCrashLoss, Meanwhile::StopLoss] {
            does_not_age(Level::Raid1, 2, consistency, meanwhile);
            does_not_age(Level::Raid1, 3, consistency, meanwhile);
        }
    }
}

#[test]
fn parity_gives_back_what_a_read_has_shown() {
    for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
        for consistency in [Consistency::Journal, Consistency::Bitmap, Consistency::Resync] {
            does_not_age(level, 4, consistency, Meanwhile::Loss);
        }
        let journal = Consistency::Journal;
        does_not_age(level, 4, journal, Meanwhile::FlushCrashLoss);
        does_not_age(level, 4, journal, Meanwhile::StopLoss);
    }
}

/// The block of a member where the users' stripe begins.
fn home(world: &World) -> u64 {
    let (lba, _) = place(world);
    let layout = world.engine.layout();
    layout.place(layout.locate(Lba(lba)).0, Role(0)).1.0
}

#[test]
fn what_can_not_be_brought_in_step_is_read_from_the_same_copy() {
    for seed in SEEDS {
        let mut world = in_doubt(seed, Level::Raid1, 2, Consistency::Bitmap);
        // The last row has no copy any more.
        let at = home(&world) + 3;
        world.disks.iter_mut().for_each(|disk| _ = disk.bad.insert(at, FOR_GOOD));
        let (lba, _) = place(&world);
        (0..8).for_each(|tag| world.ask(tag, Op::Read, lba, 3));
        world.drain();
        let rows = |tag: usize| &world.memory.payload[tag][..3];
        assert!((1..8).all(|tag| rows(tag) == rows(0)), "seed {seed}");
    }
}

#[test]
fn a_copy_that_can_not_be_read_for_a_while_becomes_like_the_other() {
    for seed in SEEDS {
        let mut world = in_doubt_of(1, seed, Level::Raid1, 2, Consistency::Bitmap);
        // The chunk, and then the row by itself.
        let at = home(&world);
        world.disks[0].bad.insert(at, 2);
        let (lba, _) = place(&world);
        (0..8).for_each(|tag| world.ask(tag, Op::Read, lba, 1));
        world.drain();
        world.read_one(lba);
        let rows = |tag: usize| &world.memory.payload[tag][0];
        assert!((1..8).all(|tag| rows(tag) == rows(0)), "seed {seed}");
    }
}

#[test]
fn a_read_of_a_stripe_in_doubt_does_not_pass_a_write_to_it() {
    let writes = |io: &Io| matches!(io.op, IoOp::Write { .. });
    let mut waited = 0;
    for seed in SEEDS {
        let mut world = in_doubt(seed, Level::Raid1, 2, Consistency::Bitmap);
        let (lba, blocks) = place(&world);
        world.drain();
        world.ask(1, Op::Write, lba + 3, 1);
        world.end_all(|io| !writes(io));
        let doubt = world.engine.is_in_doubt(lba, blocks);
        (2..4).for_each(|tag| world.ask(tag, Op::Read, lba, 1));
        world.end_all(|io| !writes(io));
        for tag in 2..4 {
            let waits = world.requests[tag].is_some();
            assert_eq!(waits, doubt, "it was answered as the crash has left it");
        }
        waited += u32::from(doubt);
        world.drain();
    }
    assert!(waited > 0, "no seed leaves the stripe in doubt");
}

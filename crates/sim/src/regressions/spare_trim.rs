//! The distributed spare after use: its space is discarded, or used for the next member.

use std::collections::BTreeSet;

use raidcore::engine::SpareUse;
use raidcore::units::Pba;

use super::distributed::{FAILED, written, written_by};
use super::phases::is_record;
use super::*;
use crate::checks;

/// Replaces the failed member, and runs until the first part of the spare is being discarded.
fn copied_back(seed: u64) -> (World, Vec<u64>) {
    let (mut world, versions) = written_by(seed, 40);
    world.fail(FAILED);
    let device = world.new_spare();
    world.command(device);
    for _ in 0..100_000 {
        if !discarding(&world).is_empty() {
            world.spare_is(SpareUse::Free);
            return (world, versions);
        }
        world.proceed();
    }
    panic!("nothing is discarded");
}

/// The parts of the spare that are being discarded, by device.
fn discarding(world: &World) -> Vec<(DeviceId, Pba, u32)> {
    let start = world.spare_start();
    let ios = world.ios.iter().map(|p| &p.io);
    let discards = ios.filter(|io| io.op == IoOp::Discard && io.at >= start);
    discards.map(|io| (io.device, io.at, io.blocks)).collect()
}

#[test]
fn all_of_the_spare_is_discarded_once_when_it_is_free_again() {
    let (mut world, versions) = copied_back(1);
    world.command(Command::SetPace(Pace { min: u64::MAX, max: u64::MAX }));
    let mut parts = BTreeSet::new();
    while world.is_busy() {
        parts.extend(discarding(&world));
        world.proceed();
    }
    let (Pba(start), blocks) = (world.spare_start(), world.areas.distributed_spare_blocks());
    for device in world.engine().members().filter_map(|member| member.device) {
        let mut end = start;
        for &(_, Pba(at), blocks) in parts.iter().filter(|part| part.0 == device) {
            assert_eq!(at, end, "{device:?}: a gap, or twice the same");
            end += u64::from(blocks);
        }
        assert_eq!(end, start + blocks, "{device:?}");
    }
    assert!(parts.len() > 2 * 5, "it takes more than one part");
    checks::parity::agrees(&world);
    world.holds(&versions);
}

#[test]
fn what_a_crash_brings_back_was_not_discarded() {
    for seed in 0..40 {
        let (mut world, versions) = copied_back(seed);
        assert!(world.end_one(|io| io.op == IoOp::Discard));
        world.cut_power();
        world.drain();
        world.holds(&versions);
        world.finish();
        world.spare_is(SpareUse::Free);
        checks::parity::agrees(&world);
    }
}

#[test]
fn what_is_discarded_late_harms_nothing_that_is_on_the_spare_since() {
    let (mut world, versions) = copied_back(1);
    // Slowly, so that not everything is discarded when the next one fails.
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    let next = MemberId(0);
    world.command(Command::Fail(next));
    let late = discarding(&world);
    for _ in 0..400 {
        if !world.end_one(|io| io.op != IoOp::Discard) && !world.end_first_compute() {
            world.pass_time();
        }
        let spare = world.spare_start();
        assert!(world.ios.iter().all(|p| p.io.at < spare || p.io.op == IoOp::Discard));
    }
    assert_eq!(discarding(&world), late, "one part at a time");
    world.command(Command::SetPace(Pace::default()));
    world.finish();
    world.spare_is(SpareUse::StandsInFor(next));
    checks::parity::agrees(&world);
    world.holds(&versions);
}

#[test]
fn a_stop_waits_for_what_is_being_discarded_and_not_for_the_rest() {
    let (mut world, versions) = copied_back(1);
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    let begun = world.now;
    let number = world.command(Command::Stop);
    world.end_all(|io| io.op != IoOp::Discard);
    let stopped = |world: &World| world.answers.contains(&(number, Ok(())));
    assert!(!stopped(&world) && !discarding(&world).is_empty());
    world.end_all(|_| true);
    assert!(stopped(&world));
    assert_eq!(world.now, begun, "it takes seconds until the next part");
    world.cut_power();
    world.drain();
    world.holds(&versions);
}

/// RAID5 of five whose distributed spare is free again; that is being recorded.
fn freed() -> (World, Vec<u64>) {
    let (mut world, versions) = written();
    world.fail(FAILED);
    // So fast that no progress is recorded before the end.
    world.command(Command::SetPace(Pace { min: u64::MAX, max: u64::MAX }));
    let spare = world.new_spare();
    world.command(spare);
    while world.engine().distributed_spare() != Some(SpareUse::Free) {
        world.proceed();
    }
    (world, versions)
}

/// A start would read the copied-back member's block from the spare.
#[test]
fn what_the_spare_misses_is_acknowledged_when_it_is_free_on_record() {
    let (mut world, _) = freed();
    let mut blocks = 0..world.engine().geometry().capacity();
    let lba = blocks.rfind(|&lba| world.home_of(lba) == FAILED.index()).expect("there are some");
    world.ask(0, Op::Write, lba, 1);
    for _ in 0..100 {
        world.end_all(|io| !is_record(io));
        world.pass_time();
    }
    assert!(world.requests[0].is_some());
    world.end_all(|_| true);
    assert!(world.requests[0].is_none());
}

/// A member is copied back and the next one fails, while the former is being recorded. Returns this
/// world, in which everything else has ended, and the next one.
fn unrecorded() -> (World, Vec<u64>, MemberId) {
    let (mut world, versions) = freed();
    let next = MemberId(0);
    world.command(Command::Fail(next));
    for _ in 0..100 {
        world.end_all(|io| !is_record(io));
        world.pass_time();
    }
    (world, versions, next)
}

/// The power fails: the start reads the first one's chunks from the spare, as recorded.
#[test]
fn the_spare_is_not_used_for_the_next_one_before_it_is_on_record_that_it_is_free() {
    let (mut world, versions, _) = unrecorded();
    world.cut_power();
    world.drain();
    world.holds(&versions);
}

#[test]
fn the_spare_is_used_for_the_next_one_when_it_is_on_record_that_it_is_free() {
    let (mut world, versions, next) = unrecorded();
    world.end_all(|_| true);
    world.finish();
    world.spare_is(SpareUse::StandsInFor(next));
    world.holds(&versions);
}

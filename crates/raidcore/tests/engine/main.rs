//! The engine in a world of its own: disks in memory whose I/O ends in any order, that fail, and
//! whose power fails. What users see is checked against a model; a seed is a run.

mod create;
mod disk;
mod faults;
mod found;
mod host;
mod model;
mod verify;
mod world;

use det::Prng;
use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use world::{Scenario, World};

/// The scenario that a seed stands for.
fn scenario(seed: u64, level: Level, consistency: Consistency) -> Scenario {
    let mut prng = Prng::new(!seed);
    let least = match level {
        Level::Raid0 | Level::Raid1 => 2,
        Level::Raid4 | Level::Raid5 => 3,
        Level::Raid6 => 4,
    };
    let members = least + prng.below(4) as usize;
    // With large chunks the journal has room for only a few entries.
    let large = prng.chance(1, 8);
    let chunk = if large { 64 } else { 1 << prng.below(3) };
    Scenario {
        level,
        members,
        chunk,
        stripes: 1 + prng.below(if large { 6 } else { 40 }),
        consistency,
        request: match prng.below(3) {
            0 => 1,
            1 => chunk,
            _ => 3 * chunk * members as u32,
        },
        tags: 1 + prng.below(16) as u16,
        jobs: 6 + prng.below(30) as u16,
        background_jobs: 1 + prng.below(4) as u16,
        scratch_blocks: prng.below(400) as u32,
        used_disks: prng.chance(1, 4),
        faults: prng.chance(3, 4),
        requests: 150,
        lives: 1 + prng.below(4) as u32,
    }
}

/// Runs `count` seeds; `EVENKEEL_SEEDS=from..to` runs others.
fn seeds(count: u64, level: Level, consistency: Consistency) {
    let asked = std::env::var("EVENKEEL_SEEDS").ok().map(|range| {
        let (from, to) = range.split_once("..").expect("EVENKEEL_SEEDS is from..to");
        let number = |text: &str| text.parse::<u64>().expect("EVENKEEL_SEEDS has numbers");
        number(from)..number(to)
    });
    let range = asked.unwrap_or(0..count);
    for seed in range {
        let scenario = scenario(seed, level, consistency);
        let run = || World::new(seed, scenario.clone()).run();
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("EVENKEEL_SEEDS={seed}..{}: {scenario:?}", seed + 1);
            std::panic::resume_unwind(panic);
        }
    }
}

const SEEDS: u64 = 30;

#[test]
fn raid0() {
    seeds(SEEDS, Level::Raid0, Consistency::Resync);
}

#[test]
fn raid1_with_a_bitmap() {
    seeds(SEEDS, Level::Raid1, Consistency::Bitmap);
}

#[test]
fn raid4_with_a_journal() {
    seeds(SEEDS, Level::Raid4, Consistency::Journal);
}

#[test]
fn raid5_with_a_journal() {
    seeds(2 * SEEDS, Level::Raid5, Consistency::Journal);
}

#[test]
fn raid5_with_a_bitmap() {
    seeds(SEEDS, Level::Raid5, Consistency::Bitmap);
}

#[test]
fn raid6_with_a_journal() {
    seeds(2 * SEEDS, Level::Raid6, Consistency::Journal);
}

#[test]
fn raid6_that_resyncs_everything() {
    seeds(SEEDS, Level::Raid6, Consistency::Resync);
}

//! Seeds of every kind of array; `EVENKEEL_SEEDS=from..to` plays others.

use std::cell::RefCell;
use std::rc::Rc;

use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use sim::{Scenario, run, trace};

const SEEDS: u64 = 30;

fn seeds(count: u64, level: Level, consistency: Consistency) {
    let asked = std::env::var("EVENKEEL_SEEDS").ok().map(|range| {
        let (from, to) = range.split_once("..").expect("EVENKEEL_SEEDS is from..to");
        let number = |text: &str| text.parse::<u64>().expect("EVENKEEL_SEEDS has numbers");
        number(from)..number(to)
    });
    for seed in asked.unwrap_or(0..count) {
        if let Err(failure) = run(seed, &Scenario::of(level, consistency, seed)) {
            panic!("{failure}");
        }
    }
}

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
fn raid6_with_a_bitmap() {
    seeds(SEEDS, Level::Raid6, Consistency::Bitmap);
}

#[test]
fn raid6_that_resyncs_everything() {
    seeds(SEEDS, Level::Raid6, Consistency::Resync);
}

/// A seed for each bug that a seed has found since seeds are drawn like this.
#[test]
fn seeds_that_once_failed() {
    // 113: a replay wrote to a rebuilt member what its predecessor had held.
    for seed in [113] {
        if let Err(failure) = run(seed, &Scenario::draw(seed)) {
            panic!("{failure}");
        }
    }
}

/// All that happens in a run, as text.
fn story(seed: u64) -> String {
    let told = Rc::new(RefCell::new(String::new()));
    let to = Rc::clone(&told);
    let line = move |line: &str| {
        let mut told = to.borrow_mut();
        told.push_str(line);
        told.push('\n');
    };
    trace(seed, &Scenario::draw(seed), line).unwrap_or_else(|failure| panic!("{failure}"));
    told.take()
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (story(seed), story(seed));
        let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert!(first.len() > 1000 && first.len() == second.len(), "seed {seed}");
    }
}

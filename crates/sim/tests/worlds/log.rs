//! Worlds of log volumes: seeds, each played twice and compared, and worlds that bytes decide.

use proptest::prelude::*;
use sim::log::{LogScenario, LogSummary};
use sim::{Playable, run, run_bytes};

/// Plays a seed twice: both runs are the same.
fn play(seed: u64) -> LogSummary {
    let scenario = LogScenario::draw(seed);
    let played = || run(seed, &scenario).unwrap_or_else(|f| panic!("{f}\n{:?}", f.scenario));
    let (first, second) = (played(), played());
    assert_eq!(first, second, "seed {seed} is two different runs");
    first
}

fn play_all(seeds: std::ops::Range<u64>) -> LogSummary {
    seeds.map(play).fold(LogSummary::default(), |mut total, summary| {
        total += summary;
        total
    })
}

#[test]
fn seeds_from_0_on() {
    let total = play_all(crate::range(0, 150));
    let happened = [
        total.replayed,
        total.checkpoints,
        total.cleaned,
        total.moved,
        total.rotations,
        total.stalls,
        total.errors,
    ];
    assert!(happened.iter().all(|&count| count > 100), "not everything happens: {total:?}");
}

#[test]
fn seeds_from_1_000_000_on() {
    play_all(crate::range(1_000_000, 150));
}

/// Deadlocks: cleaners used up the segments that a checkpoint had freed, until the next one.
#[test]
fn seeds_that_once_failed() {
    for seed in [10, 1_145, 5_554, 1_000_107, 1_000_247, 1_000_567] {
        play(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn worlds_that_bytes_decide(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Err(message) = run_bytes::<LogScenario>(&bytes) {
            return Err(TestCaseError::fail(message));
        }
    }
}

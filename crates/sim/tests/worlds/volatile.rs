//! Worlds with a write cache in memory: what was flushed survives, and what was not is old or new.

use sim::{Playable, Scenario, Summary, run};

#[test]
fn what_was_flushed_is_there_and_flushes_that_can_not_be_fail() {
    let mut total = Summary::default();
    for seed in crate::range(0, 1_500) {
        let scenario = Scenario::draw(seed).cached(seed);
        match run(seed, &scenario) {
            Ok(summary) => total += summary,
            Err(failure) => panic!("{failure}\n{:?}", failure.scenario),
        }
    }
    assert!(total.cached > 50_000, "{total:?}");
}

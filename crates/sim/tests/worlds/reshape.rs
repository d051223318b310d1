//! Worlds in which the array becomes another under load: other levels, more members, other placements.

use sim::{Playable, Scenario, run};

#[test]
fn nothing_is_lost_while_an_array_becomes_another() {
    let mut reshaped = 0;
    for seed in crate::range(0, 2_000) {
        let Some(scenario) = Scenario::draw(seed).reshaped(seed) else { continue };
        match run(seed, &scenario) {
            Ok(summary) => reshaped += summary.reshaped,
            Err(failure) => panic!("{failure}\n{:?}", failure.scenario),
        }
    }
    assert!(reshaped > 1_000, "{reshaped}");
}

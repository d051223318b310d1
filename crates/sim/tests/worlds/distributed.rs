//! Worlds with a distributed spare in which members fail all the time.

use raidcore::geometry::Level;
use sim::{Playable, Scenario, run};

fn scenario(seed: u64) -> Option<Scenario> {
    let mut scenario = Scenario::draw(seed);
    if !matches!(scenario.level, Level::Raid4 | Level::Raid5 | Level::Raid6) {
        return None;
    }
    scenario.distributed_spare = true;
    let faults = &mut scenario.faults;
    faults.rate = faults.rate.max(6);
    (faults.gone, faults.operator) = (faults.gone.max(2), faults.operator.max(2));
    Some(scenario)
}

#[test]
fn members_fail_and_come_back() {
    for seed in crate::range(0, 1_000) {
        let Some(scenario) = scenario(seed) else { continue };
        if let Err(failure) = run(seed, &scenario) {
            panic!("{failure}\n{:?}", failure.scenario);
        }
    }
}

/// Seeds that once failed, with the bugs that they found.
#[test]
fn seeds_that_once_failed() {
    for seed in [
        4_566, // A rebuild waited for ever for a copy that no member had any more.
        4_753, // The same, as all copies could not be read.
    ] {
        let scenario = scenario(seed).expect("it has parity");
        if let Err(failure) = run(seed, &scenario) {
            panic!("{failure}\n{:?}", failure.scenario);
        }
    }
}

//! Worlds with placements that are not their levels' defaults.

use raidcore::geometry::Level;
use sim::{Playable, Scenario, run};

/// How many placements a level has besides its default.
fn others(level: Level) -> usize {
    match level {
        Level::Raid0 | Level::Raid1 | Level::Raid4 | Level::Raid10 => 0,
        Level::Raid5 => 6,
        Level::Raid6 => 4,
    }
}

#[test]
fn nothing_is_lost_wherever_chunks_lie() {
    let mut played = [0; 7];
    for seed in crate::range(0, 2_000) {
        let mut scenario = Scenario::draw(seed);
        let others = others(scenario.level);
        if others == 0 {
            continue;
        }
        scenario.placement = 1 + seed as usize % others;
        played[scenario.placement] += 1;
        if let Err(failure) = run(seed, &scenario) {
            panic!("{failure}\n{:?}", failure.scenario);
        }
    }
    assert!(played[1..].iter().all(|&worlds| worlds > 50), "{played:?}");
}

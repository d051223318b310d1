//! Worlds in which any members are said to be young, whichever they are: it is advice, and nothing depends on it.

use sim::{Playable, Scenario, run};

#[test]
fn nothing_is_lost_whichever_members_are_young() {
    let mut staged = 0;
    for seed in crate::range(0, 3_000) {
        let mut scenario = Scenario::draw(seed);
        if scenario.staging == 0 && !scenario.distributed_spare || scenario.busy == 0 {
            continue;
        }
        scenario.young = true;
        match run(seed, &scenario) {
            Ok(summary) => staged += summary.staged,
            Err(failure) => panic!("{failure}\n{:?}", failure.scenario),
        }
    }
    assert!(staged > 10_000, "{staged}");
}

//! Two hosts that both want the array: one runs it at a time, nothing that was acknowledged is lost, and who is
//! alone serves at last.

use sim::lease::{LeaseScenario, LeaseSummary};
use sim::{Playable, run};

#[test]
fn one_host_at_a_time_runs_the_array_and_the_last_one_does() {
    let mut total = LeaseSummary::default();
    for seed in crate::range(0, 2_000) {
        let scenario = LeaseScenario::draw(seed);
        match run(seed, &scenario) {
            Ok(summary) => total += summary,
            Err(failure) => panic!("{failure}\n{:?}", failure.scenario),
        }
    }
    let LeaseSummary { held, moved, continued, fenced, given_up, writes, reads, .. } = total;
    assert!(held > 6_000 && moved > 2_000 && continued > 300, "{total:?}");
    assert!(fenced > 1_500 && given_up > 1_000 && writes > 25_000 && reads > 12_000, "{total:?}");
    assert!(total.dropped > 400 && total.returned > 50, "{total:?}");
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..20 {
        let scenario = LeaseScenario::draw(seed);
        let summaries = [0; 2].map(|_| run(seed, &scenario).expect("all is well"));
        assert_eq!(summaries[0], summaries[1], "seed {seed}");
    }
}

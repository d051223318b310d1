//! Worlds of log volumes over arrays: seeds, each played twice and compared, and kinds of faults by
//! name.

use sim::stack::{StackScenario, StackSummary};
use sim::{Playable, run};

/// Plays a seed's scenario twice, changed a little: both runs are the same.
fn play(seed: u64, change: impl Fn(&mut StackScenario)) -> StackSummary {
    let mut scenario = StackScenario::draw(seed);
    change(&mut scenario);
    let played = || run(seed, &scenario).unwrap_or_else(|f| panic!("{f}\n{:?}", f.scenario));
    let (first, second) = (played(), played());
    assert_eq!(first, second, "seed {seed} is two different runs");
    first
}

fn play_all(seeds: std::ops::Range<u64>, change: impl Fn(&mut StackScenario)) -> StackSummary {
    seeds.map(|seed| play(seed, &change)).fold(StackSummary::default(), |mut total, summary| {
        total += summary;
        total
    })
}

#[test]
fn seeds_from_0_on() {
    let total = play_all(crate::range(0, 200), |_| ());
    let happened = [
        total.crashes,
        total.gone,
        total.gone_with_power,
        total.gone_after_start,
        total.hangs,
        total.returned,
        total.unreadable,
        total.commands,
        total.detours,
        total.hedges,
        total.proven,
        total.checkpoints,
        total.moved,
        total.rotations,
    ];
    assert!(happened.iter().all(|&count| count > 10), "not everything happens: {total:?}");
}

#[test]
fn what_was_flushed_is_there_after_a_crash() {
    let total = play_all(1000..1040, |scenario| {
        scenario.faults = 0;
        scenario.array.faults.lossy = false;
    });
    assert_eq!(total.gone, 0);
}

#[test]
fn what_was_flushed_is_there_after_a_crash_that_took_a_member_of_each_group() {
    let total = play_all(2000..2080, |scenario| {
        scenario.faults = 0;
        scenario.array.faults.lossy = true;
        scenario.log.flush = 20;
    });
    assert!(total.gone_with_power > 10, "{total:?}");
}

#[test]
fn what_a_start_has_found_outlives_a_member_that_is_lost_before_parity_was_checked() {
    let total = play_all(3000..3080, |scenario| {
        scenario.faults = 0;
        scenario.array.faults.lossy = true;
        scenario.log.flush = 0;
    });
    assert!(total.gone_after_start > 10, "{total:?}");
}

#[test]
fn members_that_hang_are_given_up_or_waited_for() {
    let total = play_all(5000..5040, |scenario| {
        scenario.faults = 20;
        scenario.array.faults.hang = 1;
        scenario.array.faults.lossy = false;
    });
    assert!(total.hangs > 100, "{total:?}");
}

#[test]
fn members_that_come_back_stale_are_not_believed() {
    let total = play_all(6000..6060, |scenario| {
        scenario.faults = 20;
        scenario.array.faults.stale = true;
        scenario.log.flush = 20;
    });
    assert!(total.returned > 50, "{total:?}");
}

#[test]
fn a_stopped_array_has_all_that_was_written() {
    // Each run ends with a volume that is filled, stopped and started.
    play_all(4000..4020, |scenario| (scenario.log.requests, scenario.log.lives) = (10, 1));
}

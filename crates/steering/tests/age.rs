//! Age-aware pre-emptive garbage collection: thresholds by age, and members that collect together.

use det::Instant;
use raidcore::units::Set;
use steering::Members;
use steering::collect::age::{Age, Law};
use steering::collect::modes::{Forcing, Modes};
use steering::collect::{Collect, Flash, Limits, Order, Rotate, Thresholds, Windows};
use steering::scheme::Scheme;

const LIMITS: Limits = Limits { start: 0.1, stop: 0.101, hard: 0.03, spare: 0.15 };

fn flash(free: f64, age: f64) -> Flash {
    Flash { free, collecting: false, at_work: false, dirtiest: 0.5, age, in_flight: 0 }
}

fn assert_close(found: &[f64], expected: &[f64]) {
    let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(close && found.len() == expected.len(), "{found:?}, not {expected:?}");
}

/// By Eq 1, with the paper's shares of parity: 5, 10, 15 and 70%.
const OPTIMAL: [f64; 4] = [1.1 / 2.4, 0.5, 1.3 / 2.4, 1.0];

fn age(law: Law) -> Age {
    Age::new(law, &[LIMITS; 4], &OPTIMAL)
}

fn lows(age: &Age) -> Vec<f64> {
    (0..4).map(|member| age.low(member)).collect()
}

/// What a policy says, seeing these members.
fn said(policy: &mut dyn Collect, members: &[Flash]) -> Vec<(usize, Order)> {
    let mut said = Vec::new();
    policy.decide(Instant::ORIGIN, members, false, &mut |member, order| said.push((member, order)));
    said
}

/// PG-1, Eq 2 and 3: the paper's examples are of a member whose age is .004 above its optimum, and
/// of others that are together .02 above theirs.
#[test]
fn as_printed_a_threshold_moves_by_the_whole_error_if_free_blocks_are_below_it() {
    let mut age = age(Law::Printed);
    let at = |errors: [f64; 3], free| {
        let ages = OPTIMAL.iter().zip(errors).map(|(optimal, error)| optimal + error);
        ages.chain([1.0]).map(|age| flash(free, age)).collect::<Vec<_>>()
    };
    age.look(&at([0.004, 0.016, 0.0], 0.1));
    assert_close(&lows(&age), &[0.1; 4]);
    let mut again = at([0.004, 0.016, 0.0], 0.09);
    age.look(&again);
    assert_close(&lows(&age), &[0.1; 4]);
    // It is looked at once in 500 erases of 2,048 blocks.
    again.iter_mut().for_each(|member| member.age *= 1.25);
    age.look(&again);
    assert_close(&lows(&age), &[0.096, 0.084, 0.1, 0.12]);
    // Near running out nothing changes, either.
    again.iter_mut().for_each(|member| (member.age, member.free) = (member.age * 1.3, 0.001));
    age.look(&again);
    assert_close(&lows(&age), &[0.096, 0.084, 0.1, 0.12]);
}

#[test]
fn damped_a_threshold_moves_by_a_tenth_of_the_error_and_stays_within_the_spare_blocks() {
    let mut age = age(Law::Damped);
    let members = |oldest: f64| {
        [
            flash(0.5, 0.5 * oldest),
            flash(0.5, 0.4 * oldest),
            flash(0.5, 1.3 / 2.4 * oldest),
            flash(0.5, oldest),
        ]
    };
    age.look(&members(0.24));
    assert_close(&lows(&age), &[0.1; 4]);
    age.look(&members(0.25));
    let first = (1.1 / 2.4 - 0.5) / 10.0;
    assert_close(&lows(&age), &[0.1 + first, 0.1 + 0.01, 0.1, 0.1 - first - 0.01]);
    (2..1000).for_each(|period| age.look(&members(0.25 * f64::from(period))));
    assert_close(&lows(&age), &[0.031, 0.13, 0.1, 0.031]);
}

#[test]
fn who_does_not_tell_its_age_is_neither_young_nor_old() {
    let silent = Limits::default();
    let limits = [LIMITS, silent, LIMITS, LIMITS];
    let mut age = Age::new(Law::Damped, &limits, &OPTIMAL);
    age.look(&[flash(0.1, 1.1 / 2.4), flash(1.0, 0.0), flash(0.1, 1.3 / 2.4), flash(0.1, 1.0)]);
    assert_close(&[age.low(0), age.low(2), age.low(3)], &[0.1; 3]);
}

#[test]
fn a_new_drive_in_the_place_of_the_oldest_is_waited_for() {
    let mut age = age(Law::Damped);
    age.look(&[flash(0.1, 5.0), flash(0.1, 5.0), flash(0.1, 5.0), flash(0.1, 10.0)]);
    let before = lows(&age);
    let with = |new| [flash(0.1, 5.0), flash(0.1, 5.0), flash(0.1, 5.0), flash(0.1, new)];
    age.look(&with(0.0));
    assert_close(&lows(&age), &before);
    age.look(&with(0.3));
    assert!(lows(&age)[0] < before[0], "all others are older than they should be now");
}

#[test]
fn fixed_thresholds_are_the_members_own() {
    let mut modes = Modes::fixed(vec![LIMITS, Limits { start: 0.08, hard: 0.05, ..LIMITS }]);
    let thresholds =
        |low, hard| Order::Thresholds(Thresholds { low, medium: hard, high: hard, gce: 0.0 });
    let first = said(&mut modes, &[flash(0.2, 0.0), flash(0.2, 0.0)]);
    assert_eq!(first, [(0, thresholds(0.1, 0.03)), (1, thresholds(0.08, 0.05))]);
    assert_eq!(said(&mut modes, &[flash(0.04, 9.0), flash(0.2, 1.0)]), []);
}

#[test]
fn thresholds_by_age_keep_their_distance_from_the_high_one() {
    let age = Age::new(Law::Damped, &[LIMITS; 2], &[1.0; 2]);
    let mut modes = Modes::fixed(vec![LIMITS; 2]).aged(Some(age));
    let thresholds =
        |low| Order::Thresholds(Thresholds { low, medium: 0.01, high: 0.02 * low, gce: 0.15 });
    let first = said(&mut modes, &[flash(0.2, 0.0), flash(0.2, 0.0)]);
    assert_eq!(first, [(0, thresholds(0.1)), (1, thresholds(0.1))]);
    // The reference is the last of the oldest; the first is younger than it should be.
    let then = said(&mut modes, &[flash(0.2, 0.9), flash(0.2, 1.0)]);
    assert_eq!(then.len(), 2, "{then:?}");
    assert!(matches!(then[0], (0, Order::Thresholds(Thresholds { low, .. })) if low > 0.1));
}

fn at_work(free: f64) -> Flash {
    Flash { collecting: true, at_work: true, ..flash(free, 0.0) }
}

/// The members that are told to collect a block.
fn forced(modes: &mut Modes, members: &[Flash]) -> Vec<usize> {
    let orders = said(modes, members).into_iter();
    orders.filter(|(_, order)| *order == Order::Once { gce: 0.15 }).map(|(at, _)| at).collect()
}

#[test]
fn who_begins_to_collect_takes_those_along_that_are_about_to() {
    let mut modes = Modes::fixed(vec![LIMITS; 5]).forcing(Some(Forcing::Near));
    let clean = Flash { dirtiest: 0.15, ..flash(0.1, 0.0) };
    assert!(forced(&mut modes, &[flash(0.1, 0.0); 5]).is_empty(), "nobody has begun");
    let members = [at_work(0.1), flash(0.102, 0.0), flash(0.103, 0.0), clean, at_work(0.1)];
    assert_eq!(forced(&mut modes, &members), [1]);
    assert!(forced(&mut modes, &members).is_empty(), "only when one begins");
    // One that was forced forces no other.
    let paused = Flash { collecting: false, ..at_work(0.1) };
    let members = [paused, at_work(0.102), flash(0.101, 0.0), clean, flash(0.1, 0.0)];
    assert!(forced(&mut modes, &members).is_empty());
    // When it has ended, and begins by itself, it does.
    let members = [flash(0.1, 0.0), flash(0.101, 0.0), flash(0.11, 0.0), clean, flash(0.11, 0.0)];
    assert!(forced(&mut modes, &members).is_empty());
    let members = [flash(0.1, 0.0), at_work(0.1), flash(0.11, 0.0), clean, flash(0.11, 0.0)];
    assert_eq!(forced(&mut modes, &members), [0]);
}

#[test]
fn as_printed_all_are_taken_along_and_take_the_others_along() {
    let mut modes = Modes::fixed(vec![LIMITS; 3]).forcing(Some(Forcing::Printed));
    let clean = Flash { dirtiest: 0.15, ..flash(0.1, 0.0) };
    assert_eq!(forced(&mut modes, &[at_work(0.1), flash(0.3, 0.0), clean]), [1]);
    assert_eq!(forced(&mut modes, &[flash(0.2, 0.0), at_work(0.3), clean]), [0]);
}

#[test]
fn turns_come_the_earlier_the_younger_a_member_is_for_its_parity() {
    let age = Age::new(Law::Damped, &[LIMITS; 2], &[1.0; 2]);
    let mut rotate = Rotate::new(vec![LIMITS; 2], 1).aged(Some(age));
    let hold = [(0, Order::Hold), (1, Order::Hold)];
    assert_eq!(said(&mut rotate, &[flash(0.105, 0.0), flash(0.105, 0.0)]), hold);
    // The reference is the last of those with the most parity; the first is younger.
    let orders = said(&mut rotate, &[flash(0.105, 0.2), flash(0.105, 0.3)]);
    assert!(matches!(orders[..], [(0, Order::Reach(goal))] if goal > 0.105), "{orders:?}");
}

#[test]
fn schemes_are_what_their_names_say() {
    let members = Members {
        count: 4,
        redundancy: 1,
        telling: Set::first(4),
        obeying: Set::first(4),
        windows: Windows::default(),
        limits: vec![LIMITS; 4],
        optimal: OPTIMAL.to_vec(),
    };
    // By name: where the first member's threshold is after it was found .1 too old (nowhere for one
    // whose turns come), and which are taken along, one about to collect and one with room.
    let printed: f64 = 0.1 + 1.1 / 2.4 - 0.55;
    let damped = 0.1 + (1.1 / 2.4 - 0.55) / 10.0;
    for (name, low, taken) in [
        ("preempt", Some(0.1), &[][..]),
        ("preempt+age", Some(damped), &[]),
        ("preempt+age-printed", Some(printed.max(0.031)), &[]),
        ("age-aware", Some(damped), &[1]),
        ("age-aware-printed", Some(printed.max(0.031)), &[1, 2]),
        ("evenkeel+age", None, &[]),
        ("evenkeel", None, &[]),
    ] {
        let scheme = Scheme::named(name).expect("a scheme");
        assert!(scheme.gives_orders(), "{name}");
        let mut policy = scheme.collect(&members).expect("it gives orders");
        let flash = |free, age| Flash { at_work: false, ..flash(free, age) };
        let quiet = [flash(0.099, 0.55), flash(0.099, 0.5), flash(0.3, 1.3 / 2.4), flash(0.3, 1.0)];
        let first = said(&mut *policy, &quiet);
        let found = first.iter().find_map(|(member, order)| {
            let Order::Thresholds(thresholds) = order else { return None };
            (*member == 0).then_some(thresholds.low)
        });
        assert_eq!(found.is_some(), low.is_some(), "{name}: {first:?}");
        assert_close(&found.into_iter().collect::<Vec<_>>(), &low.into_iter().collect::<Vec<_>>());
        let turns = if name == "evenkeel" { 0.1 } else { damped };
        let told = [0, 4].map(|member| policy.threshold(member));
        assert_eq!(told[1], None, "{name}: there is no such member");
        assert_close(&[told[0].expect("it goes by one")], &[found.unwrap_or(turns)]);
        let mut begins = quiet;
        begins[3].at_work = true;
        let orders = said(&mut *policy, &begins).into_iter();
        let once = orders.filter(|(_, order)| matches!(order, Order::Once { .. }));
        let once: Vec<usize> =
            once.map(|(member, _)| member).filter(|&member| member > 0).collect();
        assert_eq!(once, taken, "{name}");
    }
}

#[test]
fn evenkeel_s_turns_come_by_age_if_it_is_named_so() {
    let members = Members {
        count: 2,
        redundancy: 1,
        telling: Set::first(2),
        obeying: Set::first(2),
        windows: Windows::default(),
        limits: vec![LIMITS; 2],
        optimal: vec![1.0; 2],
    };
    let has_turn = |name: &str| {
        let scheme = Scheme::named(name).expect("a scheme");
        let mut policy = scheme.collect(&members).expect("it gives orders");
        let young = [flash(0.105, 0.2), flash(0.105, 0.3)];
        said(&mut *policy, &young).iter().any(|(_, order)| matches!(order, Order::Reach(_)))
    };
    assert_eq!((has_turn("evenkeel"), has_turn("evenkeel+age")), (false, true));
}

#[test]
fn a_staging_device_keeps_its_own_threshold() {
    let own = Limits { start: 0.005, ..LIMITS };
    let limits = vec![LIMITS, LIMITS, LIMITS, LIMITS, own];
    let age = Age::new(Law::Damped, &limits, &OPTIMAL);
    let mut modes = Modes::fixed(limits).aged(Some(age));
    for age in [1.0, 2.0, 3.0] {
        let members =
            [flash(0.1, age), flash(0.1, 0.0), flash(0.1, 0.0), flash(0.1, age), flash(0.1, 9.0)];
        let mut last = None;
        modes.decide(Instant::ORIGIN, &members, false, &mut |member, order| {
            last = last.or((member == 4).then_some(order));
        });
        if let Some(order) = last {
            let Order::Thresholds(Thresholds { low, .. }) = order else { panic!("{order:?}") };
            assert_eq!(low, 0.005);
        }
        assert_eq!(last.is_some(), age == 1.0, "it is told once");
    }
}

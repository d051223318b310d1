//! How long drives last, by how parity is shared.

use lab::plan::life::{Cause, Draws, Life, LifeError, Outcome, Setup, Strategy};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use raidcore::geometry::{GeometryError, Level, Shares, SharesError};
use raidcore::meta::Consistency;

const TIB: f64 = (1u64 << 40) as f64;

/// The defaults of `evenkeel plan life`, without a journal.
fn defaults() -> Setup {
    Setup {
        level: Level::Raid5,
        members: 4,
        consistency: Consistency::Resync,
        endurance: 600.0 * TIB,
        capacity: TIB,
        per_day: 2.0 * TIB,
        small: 1.0,
        shares: None,
        gap: None,
        replaced_at: None,
        days: 3652.5,
        rebuild_days: 0.5,
    }
}

/// Rebuilds and moves of parity write next to nothing.
fn weightless() -> Setup {
    Setup { capacity: 1.0, ..defaults() }
}

#[track_caller]
fn outcome(setup: Setup, strategy: Strategy) -> Outcome {
    Life::new(setup).expect("a possible array").outcome(strategy)
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found} is not {expected}");
}

#[test]
fn evenly_written_members_wear_out_at_once() {
    for (level, members, small, written) in [
        // What all members are written for a byte of users.
        (Level::Raid5, 4, 1.0, 2.0),
        (Level::Raid5, 4, 0.0, 4.0 / 3.0),
        (Level::Raid5, 6, 0.5, 0.5 * 2.0 + 0.5 * 6.0 / 5.0),
        (Level::Raid6, 6, 1.0, 3.0),
    ] {
        let setup = Setup { level, members, small, ..defaults() };
        let even = outcome(setup, Strategy::Even);
        let expected = members as f64 * setup.endurance / written;
        near(even.first_wear_out, expected, 1e-6 * expected);
        near(even.unattended_loss, expected, 1e-6 * expected);
        near(even.loss.expect("all end at once"), expected, 1e-6 * expected);
        assert_eq!((even.least_left, even.moved), (Some(0.0), 0.0));
        near(even.speed, 1.0, 1e-9);
        let first: Vec<_> = even.calendar.iter().take(members).collect();
        assert!(first.iter().all(|one| one.days == first[0].days), "{first:?}");
        assert!(even.calendar.iter().all(|one| one.cause == Cause::WornOut));
    }
}

#[test]
fn fixed_shares_wear_as_by_hand() {
    // Data goes to the members that are not parity: (1 - share) / 3, and the parity to all others.
    let written = [0.05, 0.1, 0.15, 0.7].map(|share| (1.0 - share) / 3.0 + share);
    let fixed = outcome(weightless(), Strategy::Fixed);
    assert_eq!(fixed.shares, [0.05, 0.1, 0.15, 0.7]);
    near(fixed.first_wear_out / TIB, 600.0 / written[3], 1e-6);
    near(fixed.unattended_loss / TIB, 600.0 / written[2], 1e-6);
    let first = &fixed.calendar[0];
    assert_eq!(first.member, 3);
    near(first.days, 600.0 / written[3] / 2.0, 1e-6);
    near(first.next_left, 1.0 - written[2] / written[3], 1e-9);
    near(fixed.speed, 0.5 / written[3], 1e-9);
    // The third member ends before the last one's second drive does, and the second soon after it.
    assert_eq!(fixed.calendar[1].member, 2);
    near(fixed.calendar[1].next_left, 1.0 - written[1] / written[2], 1e-9);
}

#[test]
fn a_journal_wears_those_that_hold_parity() {
    let journal = |setup| Setup { consistency: Consistency::Journal, ..setup };
    // Besides parity a header and partial parity, of each of two parities both.
    for (level, members, small, written) in [
        (Level::Raid5, 4, 1.0, 4.0),
        (Level::Raid5, 6, 0.5, 0.5 * 4.0 + 0.5 * 6.0 / 5.0),
        (Level::Raid6, 6, 1.0, 9.0),
    ] {
        let setup = journal(Setup { level, members, small, ..defaults() });
        let expected = members as f64 * setup.endurance / written;
        near(outcome(setup, Strategy::Even).first_wear_out, expected, 1e-6 * expected);
    }
    let written = [0.05, 0.1, 0.15, 0.7].map(|share| (1.0 - share) / 3.0 + 3.0 * share);
    let fixed = outcome(journal(weightless()), Strategy::Fixed);
    near(fixed.first_wear_out / TIB, 600.0 / written[3], 1e-6);
    near(fixed.calendar[0].next_left, 1.0 - written[2] / written[3], 1e-9);
    near(fixed.speed, 1.0 / written[3], 1e-9);
    // Marks of the bitmap are not counted.
    let bitmap = Setup { consistency: Consistency::Bitmap, ..weightless() };
    assert_eq!(outcome(bitmap, Strategy::Staggered), outcome(weightless(), Strategy::Staggered));
    // As the oldest is at its end the next is the gap behind it, with less uneven shares.
    let [with, without] =
        [journal(weightless()), weightless()].map(|it| outcome(it, Strategy::Staggered));
    assert!(with.shares[0] < without.shares[0] && with.shares[3] > without.shares[3], "{with:?}");
    for staggered in [with, without] {
        near(staggered.calendar[0].next_left, 0.25, 0.02);
        assert_eq!(staggered.loss, None);
    }
}

#[test]
fn shuffled_shares_wear_as_by_hand() {
    let written = [0.05, 0.1, 0.15, 0.7].map(|share: f64| (1.0 - share) / 3.0 + share);
    let shuffled = outcome(weightless(), Strategy::DiffRaid);
    // Ages, the youngest first: the oldest is written most until its end, then a new one comes.
    let mut ages = [0.0; 4];
    for one in &shuffled.calendar {
        let until = (1.0 - ages[3]) / written[3];
        ages.iter_mut().zip(written).for_each(|(age, written)| *age += until * written);
        near(one.next_left, 1.0 - ages[2], 1e-6);
        ages = [0.0, ages[0], ages[1], ages[2]];
    }
    near(shuffled.least_left.expect("some were replaced"), 0.176, 5e-4);
    assert!(shuffled.calendar.len() > 20 && shuffled.moved > 10.0, "{shuffled:?}");
    assert_eq!(shuffled.loss, None);
}

#[test]
fn staggered_members_share_evenly_once_they_are_apart() {
    let setup = Setup { replaced_at: Some(100), gap: Some(15), ..weightless() };
    let staggered = outcome(setup, Strategy::Staggered);
    let even = outcome(setup, Strategy::Even);
    // Ages of 1, 0.85, 0.7 and 0.55 at the first end, but for whole percents and for pairs that have until later.
    near(staggered.first_wear_out / even.first_wear_out, 0.785, 0.015);
    let first: Vec<usize> = staggered.calendar.iter().take(4).map(|one| one.member).collect();
    assert_eq!(first, [0, 1, 2, 3]);
    let last = staggered.calendar.last().expect("some were replaced");
    assert_eq!(last.shares, [0.25; 4]);
    assert_eq!(staggered.loss, None);
    assert!(staggered.least_left >= Some(0.14), "{staggered:?}");
}

/// The gates.
#[test]
fn staggered_members_keep_to_what_was_asked() {
    let life = Life::new(defaults()).expect("the defaults");
    let [even, shuffled, staggered] =
        [Strategy::Even, Strategy::DiffRaid, Strategy::Staggered].map(|it| life.outcome(it));
    assert!(staggered.speed >= 0.95 * even.speed, "{}", staggered.speed);
    assert!(staggered.first_wear_out >= 1.1 * shuffled.first_wear_out, "{staggered:?}");
    assert!(staggered.least_left >= Some(0.14), "{:?}", staggered.least_left);
    let draws = Draws { percent: 5.0, count: 1000, seed: 1 };
    let spread = life.spread(Strategy::Staggered, draws).expect("draws");
    let [low, middle, high] = spread.least_left.expect("some were replaced");
    assert!(low >= 0.1 && low < middle && middle < high, "{spread:?}");
    assert_eq!(spread.lost, 0.0);
    // It is reached by not waiting for the end: those that wear out find the next one nearer to its own.
    let late = Life::new(Setup { replaced_at: Some(100), ..defaults() }).expect("the defaults");
    let spread = late.spread(Strategy::Staggered, draws).expect("draws");
    assert!(spread.least_left.expect("some were replaced")[0] < 0.1, "{spread:?}");
    assert!(late.outcome(Strategy::Staggered).least_left >= Some(0.14));
}

#[test]
fn draws_follow_from_the_seed() {
    let life = Life::new(Setup { days: 1000.0, ..defaults() }).expect("a possible array");
    let drawn = |seed, percent| {
        let draws = Draws { percent, count: 50, seed };
        life.spread(Strategy::DiffRaid, draws).expect("draws")
    };
    assert_eq!(drawn(1, 5.0), drawn(1, 5.0));
    assert_ne!(drawn(1, 5.0), drawn(1000, 5.0));
    let exact = drawn(1, 0.0).least_left.expect("some were replaced");
    assert_eq!(exact.map(Some), [life.outcome(Strategy::DiffRaid).least_left; 3]);
    // No drive is replaced so soon.
    let short = Life::new(Setup { days: 10.0, ..defaults() }).expect("a possible array");
    let draws = Draws { percent: 5.0, count: 10, seed: 1 };
    assert_eq!(short.spread(Strategy::Fixed, draws).expect("draws").least_left, None);
}

#[test]
fn shares_are_by_rank_unless_given() {
    let fixed = |setup| {
        let shares = outcome(setup, Strategy::Fixed).shares;
        shares.iter().map(|share| (100.0 * share).round() as u8).collect::<Vec<_>>()
    };
    assert_eq!(fixed(Setup { members: 6, ..defaults() }), [2, 4, 6, 8, 10, 70]);
    let raid6 = Setup { level: Level::Raid6, ..defaults() };
    assert_eq!(fixed(raid6), [11, 22, 32, 35]);
    let shares = Shares::new(&[40, 30, 20, 10]).ok();
    assert_eq!(fixed(Setup { shares, ..defaults() }), [40, 30, 20, 10]);
    let widest = Setup { members: 32, ..defaults() };
    assert_eq!(fixed(widest).iter().map(|&percent| u32::from(percent)).sum::<u32>(), 100);
}

#[test]
fn what_can_not_be_is_refused() {
    let refused = |setup| Life::new(setup).expect_err("impossible");
    assert_eq!(
        refused(Setup { level: Level::Raid4, ..defaults() }),
        LifeError::Level(Level::Raid4)
    );
    for members in [0, 2, 33] {
        let error = refused(Setup { members, ..defaults() });
        assert!(matches!(error, LifeError::Geometry(GeometryError::Members { .. })), "{error}");
    }
    let shares = Shares::new(&[50, 50]).ok();
    let error = refused(Setup { shares, ..defaults() });
    let few = GeometryError::Shares(SharesError::Members { shares: 2, members: 4 });
    assert_eq!(error, LifeError::Geometry(few));
    for setup in [
        Setup { endurance: 0.0, ..defaults() },
        Setup { capacity: -1.0, ..defaults() },
        Setup { per_day: f64::INFINITY, ..defaults() },
        Setup { days: f64::NAN, ..defaults() },
        Setup { rebuild_days: 0.0, ..defaults() },
    ] {
        assert!(matches!(refused(setup), LifeError::Nothing { .. }));
    }
    for setup in [
        Setup { small: 1.01, ..defaults() },
        Setup { small: f64::NAN, ..defaults() },
        Setup { replaced_at: Some(101), ..defaults() },
        Setup { replaced_at: Some(49), ..defaults() },
        Setup { gap: Some(0), ..defaults() },
    ] {
        assert!(matches!(refused(setup), LifeError::Percent { .. }));
    }
    let error = refused(Setup { members: 8, gap: Some(15), ..defaults() });
    assert_eq!(error, LifeError::Gap { members: 8, most: 11, end: 90, gap: 15 });
    assert_eq!(refused(Setup { capacity: 61.0 * TIB, ..defaults() }), LifeError::Overwrites);
    let busy = Setup { per_day: 1e6 * TIB, ..defaults() };
    assert!(matches!(refused(busy), LifeError::Replacements(_)));
    let life = Life::new(defaults()).expect("the defaults");
    for (percent, count) in [(f64::NAN, 1), (51.0, 1), (-1.0, 1), (5.0, 0), (5.0, 100_001)] {
        assert!(life.spread(Strategy::Even, Draws { percent, count, seed: 1 }).is_err());
    }
}

/// All that is possible, about.
fn any_setup() -> impl proptest::strategy::Strategy<Value = Setup> {
    let shape = (any::<bool>(), 4usize..=12, 0.0..=1.0f64, 10.0..2000.0f64);
    let replaced_at = proptest::option::of(50u8..=100);
    let times = (1.0..4000.0f64, 0.1..3.0f64, replaced_at, 1u8..=20, any::<bool>());
    (shape, times).prop_map(|((is_raid6, members, small, overwrites), times)| {
        let (days, per_day, replaced_at, gap, journal) = times;
        let most = replaced_at.unwrap_or(90).min(90) / members as u8;
        Setup {
            level: if is_raid6 { Level::Raid6 } else { Level::Raid5 },
            members,
            consistency: if journal { Consistency::Journal } else { Consistency::Resync },
            endurance: 600.0 * TIB,
            capacity: 600.0 * TIB / overwrites,
            per_day: per_day * TIB,
            small,
            gap: Some(gap.min(most)),
            replaced_at,
            days,
            ..defaults()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_strategy(setup in any_setup(), which in 0usize..Strategy::ALL.len()) {
        let found = outcome(setup, Strategy::ALL[which]);
        let is_whole = |shares: &[f64]| (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9;
        prop_assert!(is_whole(&found.shares));
        let within = |part: f64| (0.0..=1.0).contains(&part);
        for one in &found.calendar {
            prop_assert!(is_whole(&one.shares) && within(one.next_left), "{:?}", one);
            prop_assert!(one.member < setup.members && one.days < setup.days, "{:?}", one);
        }
        prop_assert!(found.calendar.windows(2).all(|pair| pair[0].days <= pair[1].days));
        prop_assert!(found.first_wear_out <= found.unattended_loss);
        prop_assert!(found.least_speed <= found.speed + 1e-9 && found.speed <= 1.0 + 1e-9);
        // Life falls by what is written and rises by replacement alone: a drive lasts no longer than one without
        // parity, and no shorter than one with all of it, the moves and the rebuild.
        let parities = if setup.level == Level::Raid6 { 2.0 } else { 1.0 };
        let data = setup.members as f64 - parities;
        let is_journaled = setup.consistency == Consistency::Journal;
        let on_parity = if is_journaled { 2.0 + parities } else { 1.0 };
        let most = 1.0 / data + setup.small * (on_parity - 1.0 / data);
        let life = setup.endurance * f64::from(found.replaced_at) / 100.0;
        let moves = setup.capacity * (1.0 + 2.0 * found.moved);
        for member in 0..setup.members {
            let ends = found.calendar.iter().filter(|one| one.member == member);
            let times: Vec<f64> = ends.map(|one| one.days * setup.per_day).collect();
            let starts = std::iter::once(0.0).chain(times.iter().copied());
            for (start, end) in starts.zip(&times) {
                prop_assert!((end - start) / data <= life * 1.000_001, "{member} lasts too long");
                prop_assert!((end - start) * most + moves >= life * 0.999_999, "{member} is too short");
            }
        }
    }
}

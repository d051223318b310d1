//! Which writes are staged.

use super::*;

const CALM: Duration = Duration::from_millis(1);

fn meets_busy_member(journaled: bool, used: f64) -> Redirect {
    Redirect { data_busy: true, busy: true, journaled, used, ..CALM_WRITE }
}

/// What is staged of 1000 writes to busy members, in whose absence a write takes as long as one that is staged.
/// After each of them the requests `beside` it end.
fn staged_of_1000(
    policy: &mut dyn SteeringPolicy,
    home: Duration,
    (journaled, used): (bool, f64),
    beside: &[Outcome],
) -> u32 {
    for read in [true, false] {
        (0..100).for_each(|_| policy.ended(ended(read, Way::Calm, CALM)));
    }
    let busy = meets_busy_member(journaled, used);
    let mut count = 0;
    for _ in 0..1000 {
        let stages = policy.stages(Instant::ORIGIN, busy);
        let (way, took) = if stages { (Way::Around, CALM) } else { (Way::Home, home) };
        policy.ended(ended(false, way, took));
        beside.iter().for_each(|&outcome| policy.ended(outcome));
        count += u32::from(stages);
    }
    count
}

/// Few writes meet busy members.
fn many_calm_writes() -> [Outcome; 100] {
    [ended(false, Way::Calm, CALM); 100]
}

#[test]
fn the_fuller_the_log_the_more_a_write_has_to_win_by_being_staged_on_members_that_collect_as_they_like()
 {
    for (known, mut policy) in evenkeel() {
        let mut staged = |home, used| {
            staged_of_1000(
                &mut *policy,
                Duration::from_millis(home),
                (true, used),
                &many_calm_writes(),
            )
        };
        assert_eq!(staged(1, 0.1), 1000, "{known:?}: there is room");
        if known.obeyed {
            assert_eq!(staged(1, 0.8), 1000, "{known:?}: the next turn comes soon");
            continue;
        }
        assert!(staged(1, 0.2) < 400, "{known:?}: nothing is won");
        assert!(staged(5, 0.2) > 900, "{known:?}: 4 ms are won for 1");
        assert!(staged(5, 0.8) < 400, "{known:?}: 4 ms are won for 6");
        assert!(staged(20, 0.8) > 900, "{known:?}: 19 ms are won for 6");
    }
}

/// What late writes become: they have waited for 10 ms, and then take another 1 ms staged, and `home` at home.
/// Tells how many of 1000 are staged, beside as many that are not late and win 19 ms by being staged.
fn staged_of_1000_late(policy: &mut dyn SteeringPolicy, home: Duration) -> [u32; 2] {
    let waited = 10 * CALM;
    (0..100).for_each(|_| policy.ended(ended(false, Way::Calm, CALM)));
    let mut staged = [0; 2];
    for _ in 0..1000 {
        for late in [false, true] {
            let redirect = Redirect { late, ..meets_busy_member(true, 0.2) };
            let stages = policy.stages(Instant::ORIGIN, redirect);
            let (way, took) = match (stages, late) {
                (true, _) => (Way::Around, CALM),
                (false, true) => (Way::Home, home),
                (false, false) => (Way::Home, 20 * CALM),
            };
            let outcome = ended(false, way, took);
            policy.ended(match late {
                true => Outcome { took: waited + took, late: Some(took), ..outcome },
                false => outcome,
            });
            staged[usize::from(late)] += u32::from(stages);
        }
        many_calm_writes().iter().for_each(|&outcome| policy.ended(outcome));
    }
    staged
}

#[test]
fn late_writes_are_judged_apart() {
    for (known, mut policy) in evenkeel().filter(|(known, _)| !known.obeyed) {
        let [at_once, late] = staged_of_1000_late(&mut *policy, CALM);
        assert!(at_once > 900, "{known:?}: {at_once}, though 19 ms are won for 1");
        assert!(late < 400, "{known:?}: {late}, though nothing is won");
        let mut told = Vec::new();
        policy.tell(&mut |judged| told.push((judged.choice, judged.on)));
        let is_on = |choice| told.iter().any(|&(other, on)| other == choice && on);
        assert!(is_on(Choice::Detour { reads: false, small: true }), "{told:?}");
        assert!(!is_on(Choice::Late { small: true }), "{told:?}");
    }
}

#[test]
fn what_late_writes_waited_for_before_does_not_count() {
    for (known, mut policy) in evenkeel() {
        let [_, late] = staged_of_1000_late(&mut *policy, 5 * CALM);
        assert!(late > 900, "{known:?}: {late}, though 4 ms are won for 1");
        if let Some(patience) = policy.write_patience(Instant::ORIGIN, 1) {
            assert!(patience < 10 * CALM, "{known:?}: {patience:?}, though the log takes 1 ms");
        }
    }
}

#[test]
fn a_cache_takes_no_calm_write_that_is_late() {
    for cache in CACHES {
        let mut policy = Steer { cache: *cache, ..Steer::default() };
        assert_eq!(policy.stages(Instant::ORIGIN, CALM_WRITE), cache.takes());
        assert!(!policy.stages(Instant::ORIGIN, Redirect { late: true, ..CALM_WRITE }));
    }
}

/// The copies are written on top of all that is written at home, so members collect for longer.
#[test]
fn what_saves_no_entry_of_a_journal_has_to_win_more_by_being_staged() {
    for (known, mut policy) in evenkeel() {
        let mut staged = |home, journaled| {
            staged_of_1000(
                &mut *policy,
                Duration::from_millis(home),
                (journaled, 0.0),
                &many_calm_writes(),
            )
        };
        assert_eq!(staged(5, true), 1000, "{known:?}: its entry would be written, too");
        if known.obeyed {
            assert_eq!(staged(5, false), 1000, "{known:?}: they collect when they are told to");
            continue;
        }
        assert!(staged(5, false) < 400, "{known:?}: 4 ms are won for 8");
        assert!(staged(20, false) > 900, "{known:?}: 19 ms are won for 8");
    }
}

/// What is staged is written more often, so members collect for longer, and everybody waits for that.
#[test]
fn what_delays_others_for_longer_than_it_spares_is_not_staged() {
    for (known, _) in evenkeel() {
        let staged = |late| {
            let (_, mut policy) = evenkeel().find(|(other, _)| *other == known).expect("it is one");
            let calm = ended(true, Way::Calm, CALM);
            let late = ended(true, Way::Home, CALM + Duration::from_millis(late));
            let home = Duration::from_millis(20);
            staged_of_1000(&mut *policy, home, (true, 0.0), &[calm, calm, calm, late])
        };
        assert!(staged(2) > 900, "{known:?}: 19 ms are won for 12");
        assert!(staged(6) < 400, "{known:?}: 19 ms are won for 36");
        assert!(staged(3) > 900, "{known:?}: 19 ms are won for 18");
    }
}

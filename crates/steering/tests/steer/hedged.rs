//! Writes that take long at home are staged as well.

use raidcore::engine::HedgedWrite;

use super::*;

const CALM: Duration = Duration::from_millis(1);

/// A write that has ended, and was staged as well if `hedged`.
fn written(took: Duration, hedged: bool) -> Outcome {
    let way = if hedged { Way::Around } else { Way::Calm };
    let late = hedged.then_some(CALM);
    Outcome { late, hedged, ..ended(false, way, took) }
}

/// Evenkeel on members that collect as they like, after calm requests.
fn at_will() -> impl Iterator<Item = (Known, Box<dyn SteeringPolicy>)> {
    evenkeel().filter(|(known, _)| !known.obeyed).map(|(known, mut policy)| {
        (0..100).for_each(|_| policy.ended(written(CALM, false)));
        (known, policy)
    })
}

const LATE: Redirect = Redirect { busy: true, late: true, ..CALM_WRITE };

/// Stages a late write as well if the policy wants it, which tells it what that has come to. Tells whether it has.
fn stages_too(policy: &mut dyn SteeringPolicy, took: Duration, home: Duration) -> bool {
    let stages = policy.hedges_write(Instant::ORIGIN, LATE);
    if stages {
        policy.ended(written(took, true));
        policy.hedged_write(HedgedWrite { blocks: 1, way: Way::Calm, took, home, late: None });
    }
    stages
}

/// How many of 1000 are staged as well, which spares each as much, beside 100 calm ones. For each of these one read in
/// six waits for so long.
fn hedged_of_1000(policy: &mut dyn SteeringPolicy, spared: Duration, delayed: Duration) -> usize {
    (0..1000).for_each(|_| policy.ended(ended(true, Way::Calm, CALM)));
    let hedges = |_: &i32| {
        let hedges = stages_too(policy, 5 * CALM, 5 * CALM + spared);
        for _ in 0..100 {
            policy.ended(written(CALM, false));
            (0..5).for_each(|_| policy.ended(ended(true, Way::Calm, CALM)));
            policy.ended(ended(true, Way::Home, CALM + delayed));
        }
        hedges
    };
    (0..1000).filter(hedges).count()
}

#[test]
fn a_small_write_is_staged_as_well_once_it_has_taken_long() {
    for (known, mut policy) in at_will() {
        let patience = policy.home_patience(Instant::ORIGIN, 1).expect("writes have ended");
        assert!(patience >= 3 * CALM && patience < 5 * CALM, "{known:?}: {patience:?}");
        (0..1000).for_each(|_| {
            policy.ended(Outcome { blocks: 17, ..written(CALM, false) });
        });
        assert_eq!(policy.home_patience(Instant::ORIGIN, 17), None, "{known:?}: it is large");
        assert!(policy.hedges_write(Instant::ORIGIN, LATE), "{known:?}");
        let full = Redirect { used: 0.95, ..LATE };
        assert!(!policy.hedges_write(Instant::ORIGIN, full), "{known:?}: the log is nearly full");
    }
}

#[test]
fn where_members_collect_when_they_are_told_to_none_is() {
    for (known, mut policy) in evenkeel().filter(|(known, _)| known.obeyed) {
        (0..100).for_each(|_| policy.ended(written(CALM, false)));
        assert_eq!(policy.home_patience(Instant::ORIGIN, 1), None, "{known:?}");
        assert!(!policy.hedges_write(Instant::ORIGIN, LATE), "{known:?}");
    }
}

#[test]
fn it_rests_where_it_spares_less_than_it_costs() {
    for (known, mut policy) in at_will() {
        let hedged = hedged_of_1000(&mut *policy, 30 * CALM, 4 * CALM);
        assert_eq!(hedged, 1000, "{known:?}: 30 ms are won for 24");
        let mut told = Vec::new();
        policy.tell(&mut |judged| told.push(judged));
        let told = told.into_iter().find(|judged| judged.choice == Choice::HedgedWrites);
        let told = told.expect("it is told");
        assert!(told.on && told.calm == Some(CALM), "{told:?}");
        assert_eq!((told.around, told.home), (Some(5 * CALM), Some(35 * CALM)));
    }
    for (known, mut policy) in at_will() {
        let hedged = hedged_of_1000(&mut *policy, 30 * CALM, 6 * CALM);
        assert!(hedged < 400, "{known:?}: {hedged}, though 30 ms are won for 36");
    }
}

/// Every other one would have been at home sooner, and is answered only once the log has it.
#[test]
fn what_is_lost_counts_as_what_is_spared_does() {
    for (known, mut policy) in at_will() {
        let mut hedged = 0;
        for at in 0..1000 {
            let [short, long] = [5 * CALM, 65 * CALM];
            let (took, home) = if at % 2 == 0 { (short, long) } else { (long, short) };
            hedged += u32::from(stages_too(&mut *policy, took, home));
            (0..100).for_each(|_| policy.ended(written(CALM, false)));
        }
        assert!(hedged < 400, "{known:?}: {hedged}, though nothing is won");
    }
}

/// Without any price, and before it is known what they are spared in the mean.
#[test]
fn few_are_staged_as_well_where_that_takes_longer() {
    for (known, mut policy) in at_will() {
        let mut hedged = 0;
        for _ in 0..200 {
            hedged += u32::from(stages_too(&mut *policy, 13 * CALM, 5 * CALM));
            (0..100).for_each(|_| policy.ended(written(CALM, false)));
        }
        assert!(hedged < 50, "{known:?}: {hedged}");
    }
}

/// To be staged at once would have spared it no more.
#[test]
fn what_is_staged_as_well_has_waited_at_home_no_longer_than_until_then() {
    for (known, mut policy) in at_will() {
        let home_of = |policy: &dyn SteeringPolicy, late| {
            let choice = match late {
                true => Choice::Late { small: true },
                false => Choice::Detour { reads: false, small: true },
            };
            let mut home = None;
            policy.tell(&mut |judged| {
                if judged.choice == choice {
                    home = judged.home;
                }
            });
            home
        };
        let (took, home) = (5 * CALM, 20 * CALM);
        policy.ended(written(took, true));
        policy.hedged_write(HedgedWrite { blocks: 1, way: Way::Calm, took, home, late: None });
        assert_eq!(home_of(&*policy, false), None, "{known:?}: it was to be calm");
        let at_once = HedgedWrite { blocks: 1, way: Way::Home, took, home, late: None };
        policy.hedged_write(at_once);
        assert_eq!(home_of(&*policy, false), Some(took), "{known:?}");
        assert_eq!(home_of(&*policy, true), None, "{known:?}: it was not late");
        let since = took - 2 * CALM;
        policy.hedged_write(HedgedWrite { late: Some(since), ..at_once });
        assert_eq!(home_of(&*policy, true), Some(since), "{known:?}");
    }
}

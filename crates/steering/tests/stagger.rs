//! Shares of parity by age.

use proptest::prelude::*;
use raidcore::geometry::{Geometry, Level};
use raidcore::meta::Consistency::{self, Journal, Resync};
use raidcore::meta::Entries;
use steering::stagger::{REPLACED_AT, gap, shares};
use steering::wear::Wear;

const END: f64 = REPLACED_AT as f64;

/// Under small writes.
fn wear(level: Level, members: usize, consistency: Consistency) -> Wear {
    let shape = Geometry::new(level, members, 1, 1).expect("a geometry");
    Wear::new(&shape, Entries::of_new(consistency, &shape), 1.0)
}

fn of(wear: Wear, used: &[f64]) -> Vec<f64> {
    shares(wear, used, END, gap(used.len(), REPLACED_AT).into())
}

fn levels() -> impl Strategy<Value = Level> {
    prop::sample::select(vec![Level::Raid5, Level::Raid6])
}

fn consistencies() -> impl Strategy<Value = Consistency> {
    prop::sample::select(vec![Journal, Resync])
}

/// Lives that are used, in whole percents, of up to eight members.
fn lives() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((0_u8..=100).prop_map(f64::from), 4..=8)
}

fn are_apart(used: &[f64], gap: f64) -> bool {
    let mut used = used.to_vec();
    used.sort_by(f64::total_cmp);
    used.windows(2).all(|pair| pair[1] - pair[0] >= gap)
}

#[test]
fn new_members_and_old_ones() {
    let raid5 = wear(Level::Raid5, 4, Resync);
    assert_eq!(
        of(raid5, &[0.0; 4]),
        [0.5, 0.33, 0.17, 0.0],
        "all are alike, so the first is to be the oldest"
    );
    let even = [0.25; 4];
    assert_eq!(of(raid5, &[60.0, 45.0, 30.0, 15.0]), even, "they are apart");
    let shares = of(raid5, &[10.0, 30.0, 20.0, 20.0]);
    assert!(shares[1] > shares[2] && shares[2] > shares[0], "{shares:?}");
}

/// A journal is written where parity is, so it takes less uneven shares to come apart.
#[test]
fn new_members_come_apart_as_asked_with_a_journal_and_without() {
    // Of ages of 90, 75, 60 and 45 at the first end, 270 in all.
    for (level, consistency, first) in [
        (Level::Raid5, Journal, (90.0 - 22.5) / 180.0),
        (Level::Raid5, Resync, (90.0 - 45.0) / 90.0),
        (Level::Raid6, Journal, (90.0 - 15.0) / 210.0),
        (Level::Raid6, Resync, (90.0 - 45.0) / 90.0),
    ] {
        let (members, gap) = (4, f64::from(gap(4, REPLACED_AT)));
        let wear = wear(level, members, consistency);
        let shares = of(wear, &[0.0; 4]);
        assert!((shares[0] - first).abs() <= 0.01, "{level:?}, {consistency:?}: {shares:?}");
        // Neighbours are that far apart when the first is at its end, but for whole percents of parity.
        let written = wear.written(&shares);
        let bytes = END / written[0];
        let percent = wear.written(&[0.01])[0] - wear.least();
        for pair in written.windows(2) {
            let apart = bytes * (pair[0] - pair[1]);
            let is_near = (apart - gap).abs() <= 2.0 * percent * bytes;
            assert!(is_near, "{level:?}, {consistency:?}: {shares:?}, {apart} apart");
        }
    }
}

proptest! {
    #[test]
    fn shares_are_all_of_the_parity(used in lives(), level in levels(), journal in consistencies()) {
        let wear = wear(level, used.len(), journal);
        let shares = of(wear, &used);
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        let most = 1.0 / wear.stripes(1.0) + 1e-9;
        prop_assert!(shares.iter().all(|share| (0.0..=most).contains(share)), "{shares:?}");
        prop_assert_eq!(&shares, &of(wear, &used));
    }

    #[test]
    fn parity_is_uneven_only_if_lives_are_not_apart(used in lives(), level in levels(), journal in consistencies()) {
        let gap = gap(used.len(), REPLACED_AT).into();
        if are_apart(&used, gap) {
            let shares = of(wear(level, used.len(), journal), &used);
            prop_assert_eq!(shares, vec![1.0 / used.len() as f64; used.len()]);
        }
    }

    /// The oldest member reaches its end first: no other has more of the parity than it has.
    #[test]
    fn the_oldest_has_the_most(used in lives(), level in levels(), journal in consistencies()) {
        let shares = of(wear(level, used.len(), journal), &used);
        let oldest = used.iter().copied().fold(0.0, f64::max);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let of_oldest = used.iter().zip(&shares).filter(|(used, _)| **used == oldest);
        let of_oldest = of_oldest.map(|(_, share)| *share).fold(0.0, f64::max);
        // Whole percents are up to one off.
        prop_assert!(of_oldest + 0.01 + 1e-9 >= most, "{used:?}: {shares:?}");
    }

    /// When the oldest member is at its end, the next one is the gap behind it, or has had no parity.
    #[test]
    fn the_oldest_and_the_next_come_apart(used in lives(), journal in consistencies()) {
        let wear = wear(Level::Raid5, used.len(), journal);
        let shares = of(wear, &used);
        let written = wear.written(&shares);
        let mut members: Vec<usize> = (0..used.len()).collect();
        members.sort_by(|&a, &b| used[b].total_cmp(&used[a]));
        let (oldest, next) = (members[0], members[1]);
        prop_assume!(used[oldest] < END - 5.0);
        prop_assume!(!are_apart(&used, gap(used.len(), REPLACED_AT).into()));
        let bytes = (END - used[oldest]) / written[oldest];
        let behind = END - used[next] - bytes * written[next];
        let gap = f64::from(gap(used.len(), REPLACED_AT));
        // Shares that are a percent off make up so much by then.
        let rounding = 2.0 * (wear.written(&[0.01])[0] - wear.least()) * bytes;
        prop_assert!(behind + rounding >= gap || shares[next] == 0.0, "{used:?}: {shares:?}, {behind} behind");
    }
}

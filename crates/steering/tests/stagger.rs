//! Shares of parity by age.

use proptest::prelude::*;
use steering::stagger::{REPLACED_AT, Wear, gap, shares};

const END: f64 = REPLACED_AT as f64;

fn of(parities: usize, used: &[f64]) -> Vec<f64> {
    let wear = Wear::new(used.len(), parities, 1.0);
    shares(wear, used, END, gap(used.len(), REPLACED_AT).into())
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
    assert_eq!(
        of(1, &[0.0; 4]),
        [0.5, 0.33, 0.17, 0.0],
        "all are alike, so the first is to be the oldest"
    );
    let even = [0.25; 4];
    assert_eq!(of(1, &[60.0, 45.0, 30.0, 15.0]), even, "they are apart");
    let shares = of(1, &[10.0, 30.0, 20.0, 20.0]);
    assert!(shares[1] > shares[2] && shares[2] > shares[0], "{shares:?}");
}

proptest! {
    #[test]
    fn shares_are_all_of_the_parity(used in lives(), parities in 1_usize..=2) {
        let shares = of(parities, &used);
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        let most = 1.0 / parities as f64 + 1e-9;
        prop_assert!(shares.iter().all(|share| (0.0..=most).contains(share)), "{shares:?}");
        prop_assert_eq!(&shares, &of(parities, &used));
    }

    #[test]
    fn parity_is_uneven_only_if_lives_are_not_apart(used in lives(), parities in 1_usize..=2) {
        let gap = gap(used.len(), REPLACED_AT).into();
        if are_apart(&used, gap) {
            prop_assert_eq!(of(parities, &used), vec![1.0 / used.len() as f64; used.len()]);
        }
    }

    /// The oldest member reaches its end first: no other has more of the parity than it has.
    #[test]
    fn the_oldest_has_the_most(used in lives(), parities in 1_usize..=2) {
        let shares = of(parities, &used);
        let oldest = used.iter().copied().fold(0.0, f64::max);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let of_oldest = used.iter().zip(&shares).filter(|(used, _)| **used == oldest);
        let of_oldest = of_oldest.map(|(_, share)| *share).fold(0.0, f64::max);
        // Whole percents are up to one off.
        prop_assert!(of_oldest + 0.01 + 1e-9 >= most, "{used:?}: {shares:?}");
    }

    /// When the oldest member is at its end, the next one is the gap behind it, or has had no parity.
    #[test]
    fn the_oldest_and_the_next_come_apart(used in lives()) {
        let shares = of(1, &used);
        let written = Wear::new(used.len(), 1, 1.0).written(&shares);
        let mut members: Vec<usize> = (0..used.len()).collect();
        members.sort_by(|&a, &b| used[b].total_cmp(&used[a]));
        let (oldest, next) = (members[0], members[1]);
        prop_assume!(used[oldest] < END - 5.0);
        prop_assume!(!are_apart(&used, gap(used.len(), REPLACED_AT).into()));
        let bytes = (END - used[oldest]) / written[oldest];
        let behind = END - used[next] - bytes * written[next];
        let gap = f64::from(gap(used.len(), REPLACED_AT));
        // A share that is a percent off makes up so much by then.
        let rounding = 2.0 * 0.01 * bytes;
        prop_assert!(behind + rounding >= gap || shares[next] == 0.0, "{used:?}: {shares:?}, {behind} behind");
    }
}

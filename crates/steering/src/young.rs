//! Which members are young: those that have worn less than their part of the writes says. A host that can't tell
//! drives when to collect can still choose where it writes what has no home, and so evens out their ages.

use raidcore::units::{MemberId, Set};

use crate::collect::age::optimal_ages;

/// Members that are further apart than this, in percents of a life, are left apart: they are meant to wear out one
/// after the other, or one is new in a worn one's place, and would have to take everything for years.
const APART: f64 = 5.0;

/// Lives that differ by less than this part are equal.
const EQUAL: f64 = 0.001;

/// The members that are younger than those that are about as old. `used` has how much of its life each has used, in
/// percent, where it is known; `parity` the part of the stripes in which each holds parity
/// ([`parity_shares`](crate::collect::age::parity_shares)), by which small writes wear it. Staging devices come after
/// the members, and are neither young nor old.
#[must_use]
pub fn young(used: &[Option<f64>], parity: &[f64]) -> Set<MemberId> {
    let optimal = optimal_ages(parity);
    let ages = || {
        let known: Set<MemberId> = Set::first(optimal.len().min(used.len()));
        known.filter_map(|member| Some((member, used[member.index()]? / optimal[member.index()])))
    };
    let is_young = |&(_, age): &(MemberId, f64)| {
        let near = ages().filter(|(_, other)| (other - age).abs() <= APART);
        let (count, sum) = near.fold((0.0, 0.0), |(count, sum), (_, age)| (count + 1.0, sum + age));
        age * count < sum * (1.0 - EQUAL)
    };
    ages().filter(is_young).map(|(member, _)| member).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const EVEN: [f64; 4] = [0.25; 4];

    fn of(used: [f64; 4], parity: [f64; 4]) -> Vec<usize> {
        young(&used.map(Some), &parity).map(MemberId::index).collect()
    }

    #[test]
    fn those_that_are_behind_are_young() {
        assert_eq!(of([20.0, 19.0, 20.0, 19.0], EVEN), [1, 3]);
        assert_eq!(of([0.2, 0.2, 0.21, 0.2], EVEN), [0, 1, 3]);
        assert!(of([20.0; 4], EVEN).is_empty() && of([0.0; 4], EVEN).is_empty());
    }

    #[test]
    fn ages_are_beside_what_parity_makes_them() {
        let parity = [0.05, 0.1, 0.15, 0.7];
        let optimal = optimal_ages(&parity);
        let by_parity = [0, 1, 2, 3].map(|member: usize| 4.0 * optimal[member]);
        assert!(of(by_parity, parity).is_empty(), "they are as they should be");
        assert_eq!(of([2.0; 4], parity), [3], "it has written the least for its parity");
    }

    #[test]
    fn those_that_are_far_apart_are_left_apart() {
        assert!(of([60.0, 45.0, 30.0, 15.0], EVEN).is_empty());
        assert_eq!(of([60.0, 59.0, 60.0, 0.0], EVEN), [1]);
    }

    #[test]
    fn those_that_tell_nothing_count_for_nothing() {
        let used = [Some(20.0), None, Some(19.0), None, Some(1.0)];
        let young: Vec<_> = young(&used, &EVEN).map(MemberId::index).collect();
        assert_eq!(young, [2], "a staging device is not young either");
        assert!(self::young(&[None; 4], &EVEN).is_empty() && self::young(&[], &EVEN).is_empty());
    }
}

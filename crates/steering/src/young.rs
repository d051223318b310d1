//! Which members are young: those that have worn less than their part of the writes says. A host that can't tell
//! drives when to collect can still choose where it writes what has no home, and so evens out their ages.

use raidcore::units::{MemberId, Set};

/// Members that are further apart than this, in percents of a life, are left apart: they are meant to wear out one
/// after the other, or one is new in a worn one's place, and would have to take everything for years.
const APART: f64 = 5.0;

/// Lives that differ by less than this part are equal.
const EQUAL: f64 = 0.001;

/// The members that are younger than those that are about as old: that have used less of their lives, and less
/// beside what their parity makes of it. Both, because members need not have been new together, nor with this
/// parity.
///
/// `used` has how much of its life each has used, in percent, where it is known; `optimal` its age as small writes
/// make it ([`optimal_ages`](crate::wear::optimal_ages)). Staging devices come after the members, and are neither
/// young nor old.
#[must_use]
pub fn young(used: &[Option<f64>], optimal: &[f64]) -> Set<MemberId> {
    let ages = || {
        let known: Set<MemberId> = Set::first(optimal.len().min(used.len()));
        known.filter_map(|member| {
            let used = used[member.index()]?;
            Some((member, [used, used / optimal[member.index()]]))
        })
    };
    let is_young = |&(_, of): &(MemberId, [f64; 2])| {
        let near = ages().filter(|(_, other)| (other[1] - of[1]).abs() <= APART);
        let none = (0.0, [0.0; 2]);
        let (count, sums) = near.fold(none, |(count, sums), (_, other)| {
            (count + 1.0, [sums[0] + other[0], sums[1] + other[1]])
        });
        (0..2).all(|by| of[by] * count < sums[by] * (1.0 - EQUAL))
    };
    ages().filter(is_young).map(|(member, _)| member).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const EVEN: [f64; 4] = [1.0; 4];

    fn of(used: [f64; 4], optimal: [f64; 4]) -> Vec<usize> {
        young(&used.map(Some), &optimal).map(MemberId::index).collect()
    }

    #[test]
    fn those_that_are_behind_are_young() {
        assert_eq!(of([20.0, 19.0, 20.0, 19.0], EVEN), [1, 3]);
        assert_eq!(of([0.2, 0.2, 0.21, 0.2], EVEN), [0, 1, 3]);
        assert!(of([20.0; 4], EVEN).is_empty() && of([0.0; 4], EVEN).is_empty());
    }

    #[test]
    fn ages_are_beside_what_parity_makes_them() {
        // RAID5 with 5, 10, 15 and 70% of the parity, without a journal.
        let optimal = [1.1 / 2.4, 0.5, 1.3 / 2.4, 1.0];
        assert!(of(optimal.map(|age| 4.0 * age), optimal).is_empty(), "they are as they should be");
        assert_eq!(
            of([2.0, 2.0, 2.0, 1.8], optimal),
            [3],
            "it has written the least for its parity"
        );
    }

    /// Members that were worn alike get parity in shares by which they come apart: what is staged is not to
    /// wear those with the most parity even more.
    #[test]
    fn nobody_is_young_that_has_used_as_much_as_the_others() {
        let optimal = [1.0, 0.8, 0.6, 0.5];
        assert!(of([10.0; 4], optimal).is_empty());
        assert!(of([12.0, 11.0, 10.0, 10.0], optimal).is_empty());
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

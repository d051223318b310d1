//! Shares of parity that are only as uneven as it takes to have members' lives a gap apart, so that
//! members do not wear out together.

use alloc::vec;
use alloc::vec::Vec;

use crate::wear::Wear;

/// When members are replaced, in percent of their rated life used: a drive that can take less than its rating does
/// not report that.
pub const REPLACED_AT: u8 = 90;

/// How far apart neighbours' lives are kept if there is room for it, in percents of a rated life.
const GAP: u8 = 15;

/// How far is looked ahead at least, in percents of the oldest's life. Reports are up to a percent behind: that
/// is not made up for in the oldest's last bytes, with next to all of the parity.
const AHEAD: f64 = 5.0;

/// How far apart neighbours' lives are kept, in percents of a rated life, if members are replaced at `end`%.
#[must_use]
pub fn gap(members: usize, end: u8) -> u8 {
    let members = u8::try_from(members.max(1)).unwrap_or(u8::MAX);
    (end / members).min(GAP)
}

/// The shares with which, when the oldest member is at its end, neighbours are `gap` apart, and which are as even
/// as they can be for that. Lives are in percent used: `used` by member, and `end` when a member is replaced.
/// Shares are whole percents that add up to 1, or all alike.
///
/// Where even no parity at all keeps a member far enough behind, it is as near to that as it can be.
#[must_use]
pub fn shares(wear: Wear, used: &[f64], end: f64, gap: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..used.len()).collect();
    order.sort_by(|&a, &b| used[b].total_cmp(&used[a]));
    let ages: Vec<f64> = order.iter().map(|&member| used[member]).collect();
    let are_apart = ages.windows(2).all(|pair| pair[0] - pair[1] >= gap);
    if are_apart || !wear.depends_on_shares() {
        return wear.even();
    }
    let end = end.max(ages[0] + AHEAD);
    let mut gap = gap;
    let mut rates = rates(wear, &ages, end, gap);
    // With two parities the oldest can't have all of both.
    while rates[0] > wear.most() * (1.0 + 1e-9) && gap > 0.0 {
        gap = (gap - 1.0).max(0.0);
        rates = self::rates(wear, &ages, end, gap);
    }
    let mut by_member = vec![0.0; used.len()];
    order.iter().zip(rates).for_each(|(&member, rate)| by_member[member] = rate);
    wear.shares(&by_member)
}

/// What members are to be written for a byte of users, the oldest first.
fn rates(wear: Wear, ages: &[f64], end: f64, gap: f64) -> Vec<f64> {
    // What users write until the oldest is at its end: the members' ages then follow from it, and are more than
    // it would make them if it is too short.
    let (mut short, mut long) = (0.0, ages.len() as f64 * (end - ages[0]) / wear.total());
    for _ in 0..48 {
        let middle = f64::midpoint(short, long);
        let grown: f64 = growth(wear, ages, end, gap, middle).sum();
        if grown > wear.total() * middle { short = middle } else { long = middle }
    }
    growth(wear, ages, end, gap, long).map(|grown| grown / long).collect()
}

/// How much members age until the oldest is at its end, which takes so many bytes of users (in percents of a
/// drive): as the oldest does, if that leaves the gap to the one before, but at least as without parity.
///
/// Only the oldest and its neighbour have to be apart by then. Those after them have until the older of the two is
/// at its end, and get as far by then as they do with steady rates.
fn growth(wear: Wear, ages: &[f64], end: f64, gap: f64, bytes: f64) -> impl Iterator<Item = f64> {
    let first = end - ages[0];
    let mut before = (ages[0], end);
    ages.iter().enumerate().map(move |(at, &age)| {
        let (age_before, end_before) = before;
        let now = age_before - age;
        let part = (first / (end - age_before)).min(1.0);
        let room = if at == 0 { 0.0 } else { gap.min(now + (gap - now) * part) };
        let grown = (end_before - room - age).min(first).max(wear.least() * bytes);
        before = (age, age + grown);
        grown
    })
}

#[cfg(test)]
mod tests {
    use raidcore::geometry::{Geometry, Level};
    use raidcore::meta::Entries;

    use super::*;

    /// Without a journal.
    fn wear(level: Level, members: usize, small: f64) -> Wear {
        let shape = Geometry::new(level, members, 1, 1).expect("a geometry");
        Wear::new(&shape, Entries::None, small)
    }

    #[test]
    fn new_members_are_staggered_as_by_hand() {
        // Ages of 100, 85, 70 and 55 at the end: 310 in all, of which a member without parity has 1/6 at least.
        let shares = shares(wear(Level::Raid5, 4, 1.0), &[0.0; 4], 100.0, 15.0);
        let expected = [100.0, 85.0, 70.0, 55.0].map(|age| (2.0 * age / 310.0 - 1.0 / 3.0) * 1.5);
        for (found, expected) in shares.iter().zip(expected) {
            assert!((found - expected).abs() <= 0.01, "{shares:?}");
        }
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn those_that_are_apart_share_evenly() {
        let even = wear(Level::Raid5, 4, 1.0).even();
        assert_eq!(shares(wear(Level::Raid5, 4, 1.0), &[10.0, 60.0, 25.0, 40.0], 90.0, 15.0), even);
        // Large writes age all alike, whatever the shares.
        assert_eq!(shares(wear(Level::Raid5, 4, 0.0), &[0.0; 4], 90.0, 15.0), even);
    }

    #[test]
    fn with_two_parities_no_member_has_more_than_half() {
        let shares = shares(wear(Level::Raid6, 4, 1.0), &[80.0, 79.0, 78.0, 77.0], 90.0, 20.0);
        assert!(shares.iter().all(|share| (0.0..=0.5).contains(share)), "{shares:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_outlives_its_rating_is_still_written() {
        let shares = shares(wear(Level::Raid5, 3, 1.0), &[104.0, 103.0, 0.0], 100.0, 15.0);
        assert!(shares[0] > shares[1], "{shares:?}");
    }
}

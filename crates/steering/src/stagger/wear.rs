//! How much each member is written for a byte of users, by its share of parity.

use alloc::vec;
use alloc::vec::Vec;

/// An array's shape and its mix of writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    members: f64,
    parities: f64,
    /// The part of users' bytes that comes as small writes.
    small: f64,
}

impl Wear {
    /// Of so many members and parities, where this part of users' bytes comes as small writes, from 0 to 1.
    #[must_use]
    pub fn new(members: usize, parities: usize, small: f64) -> Self {
        Self { members: members as f64, parities: parities as f64, small }
    }

    /// Data chunks of a stripe.
    fn data(self) -> f64 {
        self.members - self.parities
    }

    /// The bytes that members are written for one of users, by their shares of parity, which add up to 1.
    ///
    /// A member holds parity in the part f = parities × share of the stripes, and data in the others. A small write
    /// goes to one of the stripe's data chunks, so to the member with (1 − f) / data, and to its parity with f. Of
    /// whole stripes each member takes as much as each data chunk does: 1 / data.
    #[must_use]
    pub fn written(self, shares: &[f64]) -> Vec<f64> {
        shares.iter().map(|share| self.least() + self.by_parity() * share).collect()
    }

    /// What a member without parity is written for a byte of users.
    #[must_use]
    pub fn least(self) -> f64 {
        1.0 / self.data()
    }

    /// What one with as much parity as can be on one member is.
    #[must_use]
    pub fn most(self) -> f64 {
        self.least() + self.by_parity() / self.parities
    }

    /// What all members are.
    #[must_use]
    pub fn total(self) -> f64 {
        self.members * self.least() + self.by_parity()
    }

    /// What all of the parity adds.
    fn by_parity(self) -> f64 {
        self.small * self.parities * (1.0 - 1.0 / self.data())
    }

    /// Whether shares of parity change what members are written.
    #[must_use]
    pub fn depends_on_shares(self) -> bool {
        self.by_parity() > 1e-9
    }

    /// The part of the stripes in which a member with this share holds parity.
    #[must_use]
    pub fn stripes(self, share: f64) -> f64 {
        self.parities * share
    }

    /// Equal shares.
    #[must_use]
    pub fn even(self) -> Vec<f64> {
        vec![1.0 / self.members; self.members as usize]
    }

    /// The shares with which members are written about as `rates` has it, for a byte of users, in whole percents as
    /// layouts take them.
    #[must_use]
    pub fn shares(self, rates: &[f64]) -> Vec<f64> {
        let exact: Vec<f64> = rates
            .iter()
            .map(|rate| ((rate - self.least()) / self.by_parity()).clamp(0.0, 1.0 / self.parities))
            .collect();
        percents(&exact).iter().map(|&percent| f64::from(percent) / 100.0).collect()
    }

    /// How fast small writes are with these shares, relative to equal ones: all wait for the member that is
    /// written most.
    #[must_use]
    pub fn speed(self, shares: &[f64]) -> f64 {
        let small = Self { small: 1.0, ..self };
        let most = small.written(shares).into_iter().fold(0.0, f64::max);
        small.total() / self.members / most
    }
}

/// Parts of a whole in percents that add up to 100: each rounded down, and what is missing given to those that
/// lost the most by it (the method of largest remainders).
#[must_use]
pub fn percents(parts: &[f64]) -> Vec<u8> {
    let sum: f64 = parts.iter().sum();
    let exact: Vec<f64> = parts.iter().map(|part| 100.0 * part / sum).collect();
    // What is a whole number but for its last bits is not rounded down.
    let mut whole: Vec<u8> = exact.iter().map(|percent| (percent + 1e-9) as u8).collect();
    let lost = exact.iter().zip(&whole).map(|(exact, whole)| exact - f64::from(*whole));
    let lost: Vec<f64> = lost.collect();
    let mut by_loss: Vec<usize> = (0..parts.len()).collect();
    by_loss.sort_by(|&a, &b| lost[b].total_cmp(&lost[a]));
    let missing = 100 - whole.iter().map(|&percent| usize::from(percent)).sum::<usize>().min(100);
    by_loss.iter().take(missing).for_each(|&at| whole[at] += 1);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn raid5_is_written_as_its_papers_have_it() {
        // McEwan and Komsul, Eq 1: ages relative to the member with the most parity.
        let shares = [0.05, 0.1, 0.15, 0.7];
        let written = Wear::new(4, 1, 1.0).written(&shares);
        let relative = [0.95 / 3.0 + 0.05, 0.4, 0.85 / 3.0 + 0.15, 0.8];
        written.iter().zip(relative).for_each(|(found, expected)| near(*found, expected));
        near(written.iter().sum(), 2.0);
        near(Wear::new(4, 1, 1.0).speed(&shares), 0.5 / 0.8);
    }

    #[test]
    fn whole_stripes_are_written_alike_and_two_parities_are_written_both() {
        let shares = [0.0, 0.1, 0.1, 0.3, 0.5];
        let large = Wear::new(5, 2, 0.0);
        large.written(&shares).into_iter().for_each(|written| near(written, 1.0 / 3.0));
        assert!(!large.depends_on_shares());
        let small = Wear::new(5, 2, 1.0);
        let written = small.written(&shares);
        near(written[0], 1.0 / 3.0);
        near(written[4], 1.0);
        near(written.iter().sum(), 3.0);
        near(small.total(), 3.0);
        near(small.most(), 1.0);
    }

    #[test]
    fn shares_are_found_back_and_are_whole() {
        let wear = Wear::new(4, 1, 0.6);
        let shares = [0.05, 0.1, 0.15, 0.7];
        let found = wear.shares(&wear.written(&shares));
        found.iter().zip(shares).for_each(|(found, share)| near(*found, share));
        assert_eq!(percents(&[1.0, 1.0, 1.0]), [34, 33, 33]);
        assert_eq!(percents(&[0.295, 0.7, 0.005]), [30, 70, 0]);
    }
}

//! How much each member is written for a byte of users, by its share of parity.

use alloc::vec;
use alloc::vec::Vec;

use raidcore::geometry::{Geometry, Role};
use raidcore::meta::Entries;
use raidcore::units::{MemberId, Set, Stripe};

/// In this many stripes for each member every placement has its shares exactly: shares that are given are
/// whole percents, others are the same for all.
const STRIPES: u64 = 100;

/// What members are written for a byte of users: Eq 1 of McEwan and Komsul, "Age Aware Pre-emptive Garbage
/// Collection for SSD RAID", and what it leaves out.
///
/// A member holds parity in a part f of the stripes, and data in the others. A small write goes to one of the d
/// data chunks of its stripe, so to the member with (1 − f) / d, and to each parity. The paper has one parity, which
/// is written a block for one of data. Here a parity's member is also written the journal's entry, which is
/// on the members that hold the stripe's parity and nowhere else ([`Entries::small_blocks`]): with partial ones
/// three blocks for one of data with one parity, and four with two; without a journal one. Of whole stripes each
/// member takes as much as each data chunk does, 1 / d, and they have no entries.
///
/// Small writes are of one block, to all data alike, while all members are in service, and go home at once: of larger
/// ones an entry's header is shared by more blocks, and what is staged is on other members first and comes home
/// with what was written beside it. Marks of the write-intent bitmap are not counted: they are on all members by
/// turns, few while much is written at a time, and up to about two blocks for each write while little is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    members: f64,
    parities: f64,
    /// The blocks that a small write of one block writes on each member that holds parity of its stripe.
    on_parity: f64,
    /// The part of users' bytes that comes as small writes.
    small: f64,
}

impl Wear {
    /// Of an array of this shape, the journal of which has this of small writes. They are this part of users' bytes,
    /// from 0 to 1.
    #[must_use]
    pub fn new(shape: &Geometry, entries: Entries, small: f64) -> Self {
        Self {
            members: shape.members() as f64,
            parities: shape.parities() as f64,
            on_parity: f64::from(1 + entries.small_blocks(shape)),
            small,
        }
    }

    /// Data chunks of a stripe.
    fn data(self) -> f64 {
        self.members - self.parities
    }

    /// The bytes that members are written for one of users, by their shares of parity, which add up to 1.
    #[must_use]
    pub fn written(self, shares: &[f64]) -> Vec<f64> {
        shares.iter().map(|share| self.by_stripes(self.stripes(*share))).collect()
    }

    /// The same of a member that holds parity in this part of the stripes.
    fn by_stripes(self, part: f64) -> f64 {
        self.least() + self.small * part * (self.on_parity - 1.0 / self.data())
    }

    /// The ages of members that hold parity in these parts of the stripes ([`parity_parts`]), relative to the oldest
    /// one's, if they are as old as they are written.
    #[must_use]
    pub fn ages(self, parts: &[f64]) -> Vec<f64> {
        let written = parts.iter().map(|part| self.by_stripes(*part));
        let most = written.clone().fold(0.0, f64::max);
        written.map(|written| written / most).collect()
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
        self.parities * (self.by_stripes(1.0) - self.least())
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

    /// How fast small writes are with these shares at least, relative to equal ones: if nothing takes time but what
    /// members are written, all wait for the member that is written most.
    #[must_use]
    pub fn speed(self, shares: &[f64]) -> f64 {
        let small = Self { small: 1.0, ..self };
        let most = small.written(shares).into_iter().fold(0.0, f64::max);
        small.total() / self.members / most
    }
}

/// The ages of an array's members, relative to the oldest one's, if they are as old as small writes make them.
#[must_use]
pub fn optimal_ages(geometry: &Geometry, entries: Entries) -> Vec<f64> {
    Wear::new(geometry, entries, 1.0).ages(&parity_parts(geometry))
}

/// The part of an array's stripes in which each member holds parity, with one parity its share of it; all zero
/// if there is none.
#[must_use]
pub fn parity_parts(geometry: &Geometry) -> Vec<f64> {
    let stripes = STRIPES * geometry.members() as u64;
    let is_parity = |role: &Role| Some(*role) == geometry.p() || Some(*role) == geometry.q();
    let held = |member: MemberId| {
        let roles = (0..stripes).filter_map(|stripe| geometry.role(Stripe(stripe), member));
        roles.filter(is_parity).count() as f64
    };
    Set::first(geometry.members()).map(|member| held(member) / stripes as f64).collect()
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
    use raidcore::geometry::Level;

    use super::*;

    fn wear(level: Level, members: usize, small: f64) -> Wear {
        let shape = Geometry::new(level, members, 1, 1).expect("a geometry");
        Wear::new(&shape, Entries::None, small)
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn raid5_is_written_as_its_papers_have_it() {
        // McEwan and Komsul, Eq 1: ages relative to the member with the most parity.
        let shares = [0.05, 0.1, 0.15, 0.7];
        let written = wear(Level::Raid5, 4, 1.0).written(&shares);
        let relative = [0.95 / 3.0 + 0.05, 0.4, 0.85 / 3.0 + 0.15, 0.8];
        written.iter().zip(relative).for_each(|(found, expected)| near(*found, expected));
        near(written.iter().sum(), 2.0);
        near(wear(Level::Raid5, 4, 1.0).speed(&shares), 0.5 / 0.8);
    }

    #[test]
    fn whole_stripes_are_written_alike_and_two_parities_are_written_both() {
        let shares = [0.0, 0.1, 0.1, 0.3, 0.5];
        let large = wear(Level::Raid6, 5, 0.0);
        large.written(&shares).into_iter().for_each(|written| near(written, 1.0 / 3.0));
        assert!(!large.depends_on_shares());
        let small = wear(Level::Raid6, 5, 1.0);
        let written = small.written(&shares);
        near(written[0], 1.0 / 3.0);
        near(written[4], 1.0);
        near(written.iter().sum(), 3.0);
        near(small.total(), 3.0);
        near(small.most(), 1.0);
    }

    #[test]
    fn shares_are_found_back_and_are_whole() {
        let wear = wear(Level::Raid5, 4, 0.6);
        let shares = [0.05, 0.1, 0.15, 0.7];
        let found = wear.shares(&wear.written(&shares));
        found.iter().zip(shares).for_each(|(found, share)| near(*found, share));
        assert_eq!(percents(&[1.0, 1.0, 1.0]), [34, 33, 33]);
        assert_eq!(percents(&[0.295, 0.7, 0.005]), [30, 70, 0]);
    }
}

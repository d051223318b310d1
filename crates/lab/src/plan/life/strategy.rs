//! Strategies: which member gets how much parity, when that is decided again, and when a member is replaced.

use std::fmt;
use std::str::FromStr;

use steering::stagger;

use super::Life;

/// How parity is shared over the years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strategy {
    /// All members have as much.
    Even,
    /// Each member has the given share, and so has the drive that replaces it.
    Fixed,
    /// The oldest member has the largest of the given shares, and so on: Balakrishnan et al., "Differential RAID:
    /// Rethinking RAID for SSD Reliability", EuroSys 2010.
    DiffRaid,
    /// As even as it can be while neighbours' lives stay apart, so even once they are; by the life that drives
    /// report, and replaced before they are worn out.
    Staggered,
}

/// When shares are decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decides {
    /// At the start.
    Once,
    /// And when a member was replaced.
    AtReplacements,
    /// And when the oldest member reports another percent.
    AtPercents,
}

/// A strategy's row.
pub(super) struct Row {
    name: &'static str,
    says: &'static str,
    /// In percent of rated life used; at 100 when worn out.
    replaces_at: u8,
    pub(super) decides: Decides,
    /// The shares, by what members were written, in bytes, and with members replaced at so many percent.
    pub(super) shares: fn(&Life, &[f64], u8) -> Vec<f64>,
}

/// In the order of [`Strategy`].
static ROWS: [Row; 4] = [
    Row {
        name: "even",
        says: "all members have as much parity",
        replaces_at: 100,
        decides: Decides::Once,
        shares: |life, _, _| life.wear.even(),
    },
    Row {
        name: "fixed",
        says: "each member has the given share",
        replaces_at: 100,
        decides: Decides::Once,
        shares: |life, _, _| life.given.clone(),
    },
    Row {
        name: "diff-raid",
        says: "the oldest member has the largest of the given shares",
        replaces_at: 100,
        decides: Decides::AtReplacements,
        shares: |life, written, _| by_age(&life.given, written),
    },
    Row {
        name: "staggered",
        says: "as even as it can be while neighbours' lives stay apart",
        replaces_at: stagger::REPLACED_AT,
        decides: Decides::AtPercents,
        shares: staggered,
    },
];

impl Strategy {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Even, Self::Fixed, Self::DiffRaid, Self::Staggered];

    pub(super) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it does, in a few words.
    #[must_use]
    pub fn says(self) -> &'static str {
        self.row().says
    }

    /// When it replaces members unless told otherwise, in percent of rated life used; at 100 when they are worn
    /// out.
    #[must_use]
    pub fn replaces_at(self) -> u8 {
        self.row().replaces_at
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.name() == name);
        found.ok_or_else(|| format!("it is one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The given shares, the larger the older. Members of equal age have them as given.
fn by_age(given: &[f64], written: &[f64]) -> Vec<f64> {
    let mut ages: Vec<usize> = (0..given.len()).collect();
    ages.sort_by(|&a, &b| written[a].total_cmp(&written[b]).then(given[a].total_cmp(&given[b])));
    let mut ascending = given.to_vec();
    ascending.sort_by(f64::total_cmp);
    let mut shares = vec![0.0; given.len()];
    ages.iter().zip(ascending).for_each(|(&member, share)| shares[member] = share);
    shares
}

fn staggered(life: &Life, written: &[f64], end: u8) -> Vec<f64> {
    let used: Vec<f64> = written.iter().map(|written| life.reported(*written)).collect();
    stagger::shares(life.wear, &used, f64::from(end), life.gap(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
        }
        assert!("raid".parse::<Strategy>().unwrap_err().contains("diff-raid"));
    }

    #[test]
    fn the_oldest_has_the_most() {
        let given = [0.7, 0.1, 0.15, 0.05];
        assert_eq!(by_age(&given, &[0.0; 4]), given);
        assert_eq!(by_age(&given, &[3.0, 0.0, 4.0, 1.0]), [0.15, 0.05, 0.7, 0.1]);
    }
}

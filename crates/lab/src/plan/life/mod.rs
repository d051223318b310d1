//! How long an array's drives last under a load, and whether they end together, by how parity is shared.
//!
//! A model in closed steps: between two events all members are written at constant rates, so nothing is sampled.
//! Its assumptions:
//! - Small writes are of one block, go to all data alike, and write members as [`Wear`] has it; large writes are
//!   whole stripes. All members are in service, and nothing is staged.
//! - A drive can take a given number of bytes (its rating), whatever they are: write amplification is constant
//!   and part of the rating. Time, reads and temperature wear nothing.
//! - A replaced drive is written once as a whole. Parity that moves to another member changes places with data
//!   there, so each of the two members writes its part of such a stripe.
//! - Nothing fails but by wear, and a replacement takes no time but for [`Outcome::loss`].

mod run;
mod spread;
mod strategy;

use raidcore::geometry::{Geometry, GeometryError, Level, Placement, Shares, SharesError};
use raidcore::meta::{Consistency, Entries};
use steering::stagger;
use steering::wear::{Wear, percents};

pub use run::{Cause, Outcome, Replacement};
pub use spread::{Draws, Spread};
pub use strategy::Strategy;

use strategy::Decides;

/// The replacements of a run beyond which a load is refused: so many drives in a row say nothing more.
const REPLACEMENTS_MAX: f64 = 1000.0;

/// How often a drive must at least be able to take its own capacity. Below, rebuilds and moves of parity would
/// be most of the wear.
const OVERWRITES_MIN: f64 = 10.0;

/// The share of parity of the member that has the most, in percent, unless shares are given: for one parity.
const MOST: f64 = 70.0;

/// An array, its drives and their load. [`Life::new`] checks it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// RAID5 or RAID6.
    pub level: Level,
    /// How many drives.
    pub members: usize,
    /// What survives an unclean stop: a journal is written, too.
    pub consistency: Consistency,
    /// The bytes that a drive can be written, by its rating.
    pub endurance: f64,
    /// The bytes of a drive: what its rebuild writes.
    pub capacity: f64,
    /// The bytes that users write a day.
    pub per_day: f64,
    /// The part of these bytes that comes as small writes, from 0 to 1. The rest are whole stripes.
    pub small: f64,
    /// The shares of parity by member, of strategies that take given ones. If there are none, the last member
    /// has 70% (with two parities 35%), and the others have the rest as 1 : 2 : 3 and so on.
    pub shares: Option<Shares>,
    /// How far apart neighbours' lives are to be kept, in whole percents; 15, or as much as there is room for, if
    /// not given.
    pub gap: Option<u8>,
    /// When members are replaced, in percent of their rated life used, whatever the strategy; at 100% when they
    /// are worn out. If not given, the strategy decides.
    pub replaced_at: Option<u8>,
    /// How long to look ahead, in days.
    pub days: f64,
    /// How long a rebuild takes, in days.
    pub rebuild_days: f64,
}

/// Why a [`Setup`] is impossible.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum LifeError {
    /// No parity, or parity that can't be shared in another way.
    #[error("parity can be shared in RAID5 and RAID6 only, not in {0:?}")]
    Level(Level),
    /// Too few or too many members, or shares that are not theirs.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The shares are impossible.
    #[error(transparent)]
    Shares(#[from] SharesError),
    /// An amount is no positive number.
    #[error("{what} has to be more than 0, not {value}")]
    Nothing {
        /// Which amount.
        what: &'static str,
        /// What was asked for.
        value: f64,
    },
    /// A part is not between its limits.
    #[error("{what} has to be from {from} to {to}%, not {value}%")]
    Percent {
        /// Which part.
        what: &'static str,
        /// The least that is allowed.
        from: f64,
        /// The most that is allowed.
        to: f64,
        /// What was asked for.
        value: f64,
    },
    /// So many lives can't be so far apart.
    #[error(
        "{members} members can be {most}% apart at most if they are replaced at {end}%, not {gap}%"
    )]
    Gap {
        /// How many members.
        members: usize,
        /// The largest possible gap.
        most: u8,
        /// When members are replaced.
        end: u8,
        /// What was asked for.
        gap: u8,
    },
    /// A rebuild would be too large a part of a drive's life.
    #[error("a drive that can be overwritten less than {OVERWRITES_MIN} times is not modelled")]
    Overwrites,
    /// Drives end all the time.
    #[error(
        "about {0:.0} drives would wear out in that time, and {REPLACEMENTS_MAX} are modelled at most: look less far ahead"
    )]
    Replacements(f64),
    /// The number of draws is none, or too large.
    #[error("there are 1 to {most} draws, not {draws}")]
    Draws {
        /// The most that is allowed.
        most: u32,
        /// What was asked for.
        draws: u32,
    },
}

/// A checked [`Setup`], from which outcomes follow.
#[derive(Clone, Debug)]
pub struct Life {
    setup: Setup,
    wear: Wear,
    /// Of strategies that take given ones, from 0 to 1 by member.
    given: Vec<f64>,
}

impl Life {
    /// Checks what is asked.
    ///
    /// # Errors
    /// If the array can't be, if an amount is not positive, if the gap is more than there is room for, or if more
    /// drives would be replaced than are modelled.
    pub fn new(setup: Setup) -> Result<Self, LifeError> {
        let parities = match setup.level {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            level @ (Level::Raid0 | Level::Raid1 | Level::Raid4 | Level::Raid10) => {
                return Err(LifeError::Level(level));
            }
        };
        let geometry = Geometry::new(setup.level, setup.members, 1, 1)?;
        let shares = match setup.shares {
            Some(shares) => shares,
            None => unequal(setup.members, parities)?,
        };
        geometry.placed(Placement::Uneven(shares))?;
        let wear = Wear::new(&geometry, Entries::of_new(setup.consistency, &geometry), setup.small);
        let life = Self {
            setup,
            wear,
            given: shares.percent().iter().map(|&percent| f64::from(percent) / 100.0).collect(),
        };
        life.check_amounts()?;
        let keep_apart = |strategy: &Strategy| strategy.row().decides == Decides::AtPercents;
        let mut keeping = Strategy::ALL.into_iter().filter(keep_apart);
        keeping.try_for_each(|strategy| life.check_gap(strategy))?;
        Ok(life)
    }

    fn check_amounts(&self) -> Result<(), LifeError> {
        let setup = &self.setup;
        for (what, value) in [
            ("a drive's endurance", setup.endurance),
            ("a drive's capacity", setup.capacity),
            ("what users write a day", setup.per_day),
            ("the time to look ahead", setup.days),
            ("the time of a rebuild", setup.rebuild_days),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(LifeError::Nothing { what, value });
            }
        }
        let end = f64::from(setup.replaced_at.unwrap_or(100));
        for (what, from, value) in [
            ("the part of small writes", 0.0, 100.0 * setup.small),
            ("the life used when a drive is replaced", 50.0, end),
        ] {
            if !(from..=100.0).contains(&value) {
                return Err(LifeError::Percent { what, from, to: 100.0, value });
            }
        }
        if setup.endurance < OVERWRITES_MIN * setup.capacity {
            return Err(LifeError::Overwrites);
        }
        let drives = self.horizon() * self.wear.total() / (setup.endurance * end / 100.0);
        if drives > REPLACEMENTS_MAX {
            return Err(LifeError::Replacements(drives));
        }
        Ok(())
    }

    fn check_gap(&self, strategy: Strategy) -> Result<(), LifeError> {
        let members = self.setup.members;
        let end = self.replaced_at(strategy);
        let most = end / members as u8;
        match self.setup.gap {
            Some(0) => Err(LifeError::Percent {
                what: "the gap",
                from: 1.0,
                to: f64::from(most),
                value: 0.0,
            }),
            Some(gap) if gap > most => Err(LifeError::Gap { members, most, end, gap }),
            Some(_) | None => Ok(()),
        }
    }

    /// What was asked.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// When a strategy replaces members here, in percent of their rated life used.
    #[must_use]
    pub fn replaced_at(&self, strategy: Strategy) -> u8 {
        self.setup.replaced_at.unwrap_or(strategy.replaces_at())
    }

    /// How far apart neighbours' lives are kept, in whole percents, if members are replaced at `end`% of theirs.
    fn gap(&self, end: u8) -> f64 {
        f64::from(self.setup.gap.unwrap_or_else(|| stagger::gap(self.setup.members, end)))
    }

    /// What users write as far as is looked ahead, in bytes.
    fn horizon(&self) -> f64 {
        self.setup.days * self.setup.per_day
    }

    /// How users' bytes fare with a strategy if each drive can take exactly its rating.
    #[must_use]
    pub fn outcome(&self, strategy: Strategy) -> Outcome {
        run::outcome(self, strategy, &mut || 1.0)
    }
}

/// The shares of an array for which none are given, in whole percents.
fn unequal(members: usize, parities: usize) -> Result<Shares, SharesError> {
    let most = MOST / parities as f64;
    let others = members.saturating_sub(1);
    let sum = (others * members) as f64 / 2.0;
    let rest = (1..=others).map(|rank| (100.0 - most) * rank as f64 / sum / 100.0);
    let exact: Vec<f64> = rest.chain([most / 100.0]).collect();
    Shares::new(&percents(&exact))
}

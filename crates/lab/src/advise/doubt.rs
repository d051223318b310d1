//! What advice is unsure of.

use std::fmt;

use serde::Serialize;

/// A reason to doubt the advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The runner-up is nearly as good.
    Close {
        /// Its name.
        runner_up: String,
        /// By how much it is worse.
        by: f64,
    },
    /// Of what is recommended and the runner-up, now one and now the other is better.
    SeedsDisagree {
        /// The runner-up's name.
        runner_up: String,
    },
    /// It was better than plain, but not by enough, or not with each seed.
    NotEnough {
        /// Its name.
        best: String,
        /// Its cost beside plain's.
        cost: f64,
    },
    /// The drives of the plain array hardly collected.
    HardlyCollects {
        /// The share of the time in which they did.
        duty: f64,
    },
    /// An array could not keep up.
    Overloaded {
        /// Its name.
        name: String,
    },
    /// No array could keep up.
    AllOverloaded,
    /// An array could not be played.
    Impossible {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The trace touches more than the modelled arrays have.
    Wrapped,
    /// The drives are modelled smaller than they are.
    Small {
        /// The size of each, in bytes.
        bytes: u64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close { runner_up, by } => {
                write!(f, "the runner-up, {runner_up}, is nearly as good ({:.0}% worse)", 100.0 * by)
            }
            Self::SeedsDisagree { runner_up } => {
                write!(f, "with some seeds the runner-up, {runner_up}, is better: play more --seeds")
            }
            Self::NotEnough { best, cost } => write!(
                f,
                "{best} comes to {cost:.2} of plain, but not by a tenth also in latencies alone, or not with \
                 each seed; plain is simpler"
            ),
            Self::HardlyCollects { duty } => write!(
                f,
                "the drives of the plain array collected garbage for {:.2}% of the time: the load is low for \
                 them, or the runs were short for it (--requests)",
                100.0 * duty
            ),
            Self::Overloaded { name } => write!(f, "{name} could not keep up with the load"),
            Self::AllOverloaded => f.write_str(
                "none of the arrays could keep up with the load: latencies say little. Take a lower --speed, \
                 more drives, or drives that are faster",
            ),
            Self::Impossible { name, why } => write!(f, "{name} was not played: {why}"),
            Self::Wrapped => f.write_str(
                "the trace touches more than the modelled arrays have: distant places of it were taken for one",
            ),
            Self::Small { bytes } => write!(
                f,
                "each drive was modelled with {} MiB: shares of space are right, sizes of caches and logs \
                 beside the load are not",
                bytes >> 20
            ),
        }
    }
}

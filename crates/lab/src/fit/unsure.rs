//! What a fit is unsure of.

use std::fmt;

use serde::Serialize;

/// A reason to doubt a fitted profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsure {
    /// Nothing was written.
    ReadOnly,
    /// More reads at a time were still faster.
    MoreUnits {
        /// How many units were seen.
        units: u32,
    },
    /// Only a part of the drive was written, and it may have had room elsewhere.
    SmallPart {
        /// The part.
        share: f64,
    },
    /// It was overwritten too few times.
    LittleWritten {
        /// How many times.
        times: f64,
    },
    /// It had not come to a steady state.
    NotSteady {
        /// Writes a second in the third quarter of the sustained writes.
        before: f64,
        /// Writes a second in the last quarter.
        after: f64,
    },
    /// No write took much longer than others.
    NoStalls,
    /// Too few stalls for a mean.
    FewStalls {
        /// How many.
        count: u64,
    },
    /// Too few stalls of writes of one at a time: how long a stall is can't be told from sustained writes.
    NoLengths {
        /// How many.
        count: u64,
    },
    /// The fitted drive behaves differently.
    Residual {
        /// In which figure.
        figure: &'static str,
        /// What was recorded.
        observed: f64,
        /// What the fitted drive does.
        modelled: f64,
    },
    /// How the drive is built can't be seen from outside.
    Inferred,
}

impl fmt::Display for Unsure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str(
                "nothing was written: how it writes and collects garbage is that of a small nvme-tlc, a \
                 built-in profile, not measured; blocks that were never written are read faster than others",
            ),
            Self::MoreUnits { units } => write!(
                f,
                "reads were still faster with 64 at a time: it may do more than {units} things at once"
            ),
            Self::SmallPart { share } => write!(
                f,
                "only {:.1}% of it were written: unless it was full before, it has not had to collect as \
                 much as a full one",
                100.0 * share
            ),
            Self::LittleWritten { times } => write!(
                f,
                "what was filled was overwritten only {times:.2} times: a steady state takes several; \
                 give it more --seconds"
            ),
            Self::NotSteady { before, after } => write!(
                f,
                "it was not in a steady state: {before:.0} writes a second in the third quarter, {after:.0} \
                 in the last one; give it more --seconds"
            ),
            Self::NoStalls => f.write_str(
                "no write took much longer than others: either it does not stall, or it had not begun to \
                 collect",
            ),
            Self::FewStalls { count } => write!(f, "there were only {count} stalls"),
            Self::NoLengths { count } => write!(
                f,
                "there were only {count} stalls of writes of one at a time: how long one lasts is not measured; \
                 give it more --seconds"
            ),
            Self::Residual { figure, observed, modelled } => write!(
                f,
                "{figure} of the fitted drive is {:.2} times what was recorded",
                modelled / observed
            ),
            Self::Inferred => f.write_str(
                "its over-provisioning and what it writes to flash are inferred from its latencies; erasing \
                 is taken to be five times programming",
            ),
        }
    }
}

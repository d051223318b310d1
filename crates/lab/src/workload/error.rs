use thiserror::Error;

use crate::trace::TraceError;
use crate::units::Bytes;

/// Why a workload can't be used.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// A number is out of range.
    #[error("{key} is {value}, but must be {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it is.
        value: f64,
        /// What it could be.
        expected: &'static str,
    },
    /// A key is missing.
    #[error("{key} is missing: {hint}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Two keys exclude one another.
    #[error("{one} and {other} can't both be given")]
    Both {
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// The system is too small.
    #[error(
        "`start` and `footprint` reach up to {}, but the target has {}: make them smaller, or \
         give shares of it, like 0.5", Bytes(*need), Bytes(*capacity)
    )]
    TooSmall {
        /// Bytes of the system that are needed.
        need: u64,
        /// Bytes that it has.
        capacity: u64,
    },
    /// The footprint is smaller than a request.
    #[error("requests are of up to {}, but the footprint has {}", Bytes(*need), Bytes(*footprint))]
    Footprint {
        /// Bytes of the largest request.
        need: u64,
        /// Bytes of the footprint.
        footprint: u64,
    },
    /// A part of a mix is not one workload.
    #[error("a part of a mix is either `synthetic` or `ycsb`")]
    Part,
    /// A part of a mix has a pace.
    #[error("a part of a mix has no `pace` of its own: give it to the mix")]
    PartPace,
    /// A trace can't be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Fails unless a number `fits`.
pub(super) fn range(
    key: &'static str,
    value: f64,
    fits: bool,
    expected: &'static str,
) -> Result<(), WorkloadError> {
    if fits { Ok(()) } else { Err(WorkloadError::Range { key, value, expected }) }
}

/// Fails unless a number is a share.
pub(super) fn share(key: &'static str, value: f64) -> Result<(), WorkloadError> {
    range(key, value, (0.0..=1.0).contains(&value), "between 0 and 1")
}

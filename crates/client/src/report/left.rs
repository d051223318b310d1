//! Stripes that a pass could not do, as plain data.

use serde::{Deserialize, Serialize};

use super::ByteRange;

/// A stripe of which more can't be read than redundancy makes up for, or that could not be written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftReport {
    /// Its number.
    pub stripe: u64,
    /// What the stripe is of what users see. Overwritten or discarded as a whole, it is done after all.
    pub range: ByteRange,
    /// What is lost of that: nothing, as far as it is known, or the first 64 ranges.
    pub lost: Vec<ByteRange>,
    /// What members could not read, the first 64 ranges.
    pub unreadable: Vec<Unreadable>,
}

/// A range of a member that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreadable {
    /// Which member.
    pub member: u8,
    /// Where it is on its device.
    #[serde(flatten)]
    pub range: ByteRange,
}

//! How scrubs end, as plain data.

use serde::{Deserialize, Serialize};

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScrubReport {
    /// Inconsistent rows; a row is one block of each member.
    pub mismatches: u64,
    /// Of these, rows in which redundancy tells which blocks are wrong.
    pub located: u64,
    /// How it ended.
    pub end: ScrubEndReport,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScrubEndReport {
    /// It compared everything and changed nothing.
    Compared,
    /// It corrected what it found: located blocks from redundancy, in the other rows redundancy
    /// from the data.
    Repaired,
    /// It is under way or was stopped: the findings may be incomplete.
    CutShort,
}

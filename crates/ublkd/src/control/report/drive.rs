//! What a member's drive tells of itself.

use serde::{Deserialize, Serialize};

use crate::health::{DriveHealth, Reading};

/// What a drive tells of itself, and how long it is expected to last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveReport {
    /// What it tells.
    #[serde(flatten)]
    pub health: DriveHealth,
    /// When it told that, in seconds since 1970.
    pub read_at: u64,
    /// When 90% of its endurance is used and it should be replaced, in seconds since 1970, if it is
    /// written as it was in its whole life so far; `read_at` if that is past. Missing if it can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_at: Option<u64>,
    /// The same for all of its endurance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worn_out_at: Option<u64>,
}

impl DriveReport {
    /// From what was read.
    #[must_use]
    pub fn of(reading: &Reading) -> Self {
        let expected = reading.expected();
        Self {
            health: reading.health,
            read_at: reading.at,
            replace_at: expected.map(|dates| dates.replace_at),
            worn_out_at: expected.map(|dates| dates.worn_out_at),
        }
    }
}

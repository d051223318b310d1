//! What drives tell of themselves, as plain data.

use serde::{Deserialize, Serialize};

/// What a drive tells of itself, and how long it is expected to last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What a drive tells of itself. What it does not tell is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriveHealth {
    /// How much of its rated endurance is used, in percent, as its maker estimates. It may exceed
    /// 100; drives do not count beyond 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u8>,
    /// What hosts have written to it in its whole life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Its temperature now, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i32>,
    /// How often it could not give back what was written, in its whole life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// For how many hours it has been on in its whole life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Where all of this is from.
    pub source: Source,
}

/// Where a drive's health was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The SMART / health information log of an NVMe drive.
    NvmeLog,
    /// The device statistics of an ATA drive.
    AtaStatistics,
    /// `smartctl`.
    Smartctl,
}

impl DriveHealth {
    /// One that tells nothing yet.
    #[must_use]
    pub fn silent(source: Source) -> Self {
        Self {
            used_percent: None,
            written_bytes: None,
            temperature_celsius: None,
            media_errors: None,
            power_on_hours: None,
            source,
        }
    }

    /// The same, if it tells anything.
    #[must_use]
    pub fn if_it_tells(self) -> Option<Self> {
        (self != Self::silent(self.source)).then_some(self)
    }
}

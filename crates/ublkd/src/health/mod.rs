//! What a drive tells of itself: how far it is worn, how much was written to it, how warm it is.
//!
//! NVMe drives are asked for their SMART / health information log, ATA drives for their device
//! statistics, both by the kernel's pass-through; everything else that may be a drive is left to
//! `smartctl`, and so is a drive that the kernel does not pass a command to.
//!
//! Invariants:
//! - A drive that does not tell something is not an error: the field is missing, or all of it.
//! - Only threads of [`Readings`] wait for a drive, and no thread of the daemon waits for these.
//! - Whatever bytes a drive or `smartctl` gives, reading them ends without a panic.

pub mod ata;
mod drive;
mod forecast;
pub mod nvme;
mod read;
mod readings;
mod sectors;
pub mod smartctl;

use serde::{Deserialize, Serialize};

pub use forecast::{Expected, REPLACE_AT_PERCENT};
pub use readings::{Reading, Readings};

/// What a drive tells of itself. What it does not tell is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    fn silent(source: Source) -> Self {
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
    fn if_it_tells(self) -> Option<Self> {
        (self != Self::silent(self.source)).then_some(self)
    }
}

//! Members, as plain data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ControllerReport, DriveReport, FlashReport, TransfersReport};

/// The windows of NVMe's Predictable Latency Mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LatencyWindow {
    /// It does not collect garbage.
    Deterministic,
    /// It may.
    NonDeterministic,
}

/// A member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemberReport {
    /// Its number.
    pub member: u8,
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Its device, if it has one.
    #[serde(default, with = "crate::paths::option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub path: Option<PathBuf>,
    /// The device's name when it was last opened, a lasting name below `/dev/disk/by-id` if it has
    /// one. A very long name is cut at its beginning, with `...`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::paths::option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub label: Option<PathBuf>,
    /// The device's serial number, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// How a write to its device becomes durable, if it has a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_by: Option<DurableBy>,
    /// Whether reads and writes of its device, an NVMe drive, go past the kernel's block layer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passthrough: bool,
    /// How many streams its device keeps apart of what is written to it: data, journal, staging log and
    /// parity, or what of these goes together. None if it keeps nothing apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_streams: u16,
    /// The window that its device, an NVMe drive in Predictable Latency Mode, is in, if it takes orders when to
    /// collect garbage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<LatencyWindow>,
    /// Its device's identity.
    pub uuid: String,
    /// Its state.
    pub state: MemberState,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Read errors since the start, whether corrected or not.
    pub read_errors: u64,
    /// Write errors since the start.
    pub write_errors: u64,
    /// The latest of these errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ErrorReport>,
    /// Whether it does not answer and is waited for.
    #[serde(default)]
    pub hangs: bool,
    /// If it is out of service or has come back: how much its device lacks at most, if that is
    /// known. Otherwise it has to be filled completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_bytes: Option<u64>,
    /// If it is out of service, how its device comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comes_back: Option<WayBack>,
    /// Why its device was found but has not come back by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_away: Option<String>,
    /// If it is a modelled SSD, the model's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashReport>,
    /// What its drive tells of itself, if it tells anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveReport>,
    /// Where its drive's controller is, if its device is on a drive, and the machine has several NUMA nodes
    /// or the array's threads are kept to some CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerReport>,
    /// The reads and writes of its device since that was opened, metadata and journal included; none from
    /// an older release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<TransfersReport>,
}

/// Whether there is nothing to be told.
fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// Why an I/O failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ErrorReport {
    /// The device could not read or write.
    Medium,
    /// There was no space behind it.
    NoSpace,
    /// It was not there any more.
    Gone,
    /// It was smaller than before.
    Shrunk,
    /// It did not answer.
    TimedOut,
}

/// A member's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// In service.
    Up,
    /// Being filled.
    Rebuilding,
    /// Out of service.
    Failed,
}

/// How a member that is away comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WayBack {
    /// It is taken back as soon as its device is there.
    ByItself,
    /// `disk add` takes it back.
    ByCommand,
}

/// How a write to a device is made durable by the time it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DurableBy {
    /// The write itself asks for it (`RWF_DSYNC`).
    Flag,
    /// A flush follows the write, and the write has ended when the flush has.
    Flush,
}

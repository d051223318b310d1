//! Spares, as plain data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::DriveReport;

/// A spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpareReport {
    /// Its device.
    #[serde(default, with = "crate::paths::option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub path: Option<PathBuf>,
    /// The member that is being copied to this device, which then takes its place; the name as in
    /// commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeds: Option<String>,
    /// What its drive tells of itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveReport>,
}

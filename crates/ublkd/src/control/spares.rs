//! Spares, for programs and for people.

use std::path::PathBuf;

use raidcore::engine::Status;
use raidcore::units::DeviceId;
use serde::{Deserialize, Serialize};

use super::{DriveReport, Facts, Problem};

/// A spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpareReport {
    /// Its device.
    #[serde(default, with = "crate::paths::option")]
    pub path: Option<PathBuf>,
    /// The member that is being copied to this device, which then takes its place; the name as in
    /// commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeds: Option<String>,
    /// What its drive tells of itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveReport>,
}

impl SpareReport {
    /// All spares of an array, the successor of a member last.
    pub(super) fn all_of(
        status: &Status,
        facts: &Facts,
        path: impl Fn(DeviceId) -> Option<PathBuf>,
        drive: impl Fn(DeviceId) -> Option<DriveReport>,
    ) -> Vec<Self> {
        let spares = status.spares.iter().map(|&device| (device, None));
        let successor = status.successor.iter().map(|s| (s.device, Some(facts.disk(s.member.0))));
        let report = |(device, succeeds)| {
            let (path, drive) = (path(device), drive(device));
            Self { path, succeeds, drive }
        };
        spares.chain(successor).map(report).collect()
    }
}

/// The problems of missing spares of the array called `name`.
pub(super) fn absent(devices: &[String], name: &str) -> impl Iterator<Item = Problem> {
    devices.iter().map(move |device| Problem {
        kind: "spare-missing".to_owned(),
        disk: Some(device.clone()),
        what: format!("a spare (device {device}) is not there"),
        since: None,
        action: format!(
            "bring it back: `evenkeel disk add {name} PATH`; or forget it: `evenkeel disk remove \
             {name} {device}`"
        ),
    })
}

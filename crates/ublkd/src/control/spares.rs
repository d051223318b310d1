//! Spares, for programs and for people.

use std::path::PathBuf;

use evenkeel_client::{DriveReport, Facts, Problem, SpareReport};
use raidcore::engine::Status;
use raidcore::units::DeviceId;

/// All spares of an array, the successor of a member last.
pub(super) fn spare_reports(
    status: &Status,
    facts: &Facts,
    path: impl Fn(DeviceId) -> Option<PathBuf>,
    drive: impl Fn(DeviceId) -> Option<DriveReport>,
) -> Vec<SpareReport> {
    let spares = status.spares.iter().map(|&device| (device, None));
    let successor = status.successor.iter().map(|s| (s.device, Some(facts.disk(s.member.0))));
    let report = |(device, succeeds)| {
        let (path, drive) = (path(device), drive(device));
        SpareReport { path, succeeds, drive }
    };
    spares.chain(successor).map(report).collect()
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

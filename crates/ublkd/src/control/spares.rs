//! Spares, for programs and for people.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Problem;

/// A spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpareReport {
    /// Its device.
    pub path: Option<PathBuf>,
}

/// What is wrong about spares of the array called `name` that are not there.
pub(super) fn absent(devices: &[String], name: &str) -> impl Iterator<Item = Problem> {
    devices.iter().map(move |device| Problem {
        what: format!("a spare (device {device}) is not there"),
        since: None,
        action: format!(
            "bring it back: `evenkeel disk add {name} PATH`; or forget it: `evenkeel disk remove \
             {name} {device}`"
        ),
    })
}

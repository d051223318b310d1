//! Whether a process could take the place of the one that runs an array.

use std::thread::sleep;
use std::time::Duration;

use super::policy::Choice;
use super::{DaemonConfig, DaemonError, fronts, patience};
use crate::attach::{AttachError, Attached, preview};
use crate::host::Host;

/// How often to look, as a record that changes may look wrong for once.
const LOOKS: usize = 5;

/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(200);

/// Finds out whether [`run`](super::run) would start an array that another process runs, if that one
/// stopped it. Nothing is changed, and its users don't notice. What that process has for itself, like
/// sockets and locks, counts as free.
///
/// # Errors
/// As from [`run`](super::run).
pub fn check(config: &DaemonConfig) -> Result<(), DaemonError> {
    let attached = look(config)?;
    Choice::new(config.policy, &attached)?;
    Host::probe(&config.host).map_err(DaemonError::Host)?;
    Ok(fronts::check(&config.fronts)?)
}

fn look(config: &DaemonConfig) -> Result<Attached, AttachError> {
    let mut left = LOOKS;
    loop {
        left -= 1;
        match preview(&patience::members(config)?.paths, config.options) {
            Err(AttachError::Assemble(_)) if left > 0 => sleep(PAUSE),
            result => return result,
        }
    }
}

//! Whether another process could take over an array.

use std::thread::sleep;
use std::time::Duration;

use super::policy::Choice;
use super::{DaemonConfig, DaemonError, fronts, keeps, patience};
use crate::attach::{AttachError, Attached, preview};
use crate::host::Host;

/// How often to try: a record that is being changed may look wrong.
const LOOKS: usize = 5;

/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(200);

/// Finds out whether [`run`](super::run) could start an array that another process runs, after that
/// process has stopped it. Nothing is changed, and users don't notice. Sockets and locks of that
/// process count as free.
///
/// # Errors
/// As from [`run`](super::run).
pub fn check(config: &DaemonConfig) -> Result<(), DaemonError> {
    config.host.cpus.map_or(Ok(()), |cpus| cpus.check())?;
    let attached = look(config)?;
    let policy = Choice::new(config.policy, &attached, config.host.passthrough)?;
    // It is not stopped yet, and will be cleanly: what is held is not lost.
    let has_lost = attached.record().volatile.lost;
    let keeps = fronts::Keeps { has_lost, ..keeps(&attached, policy.scheme) };
    fronts::permit(&config.fronts, keeps)?;
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

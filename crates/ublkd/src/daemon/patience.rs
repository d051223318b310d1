//! Waits for members that are not there yet: at boot, devices appear one by one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use raidcore::meta::{AssembleError, AssembleOptions};

use super::DaemonConfig;
use crate::attach::{self, AttachError, Attached, Found, Wanted, complete, find};
use crate::flash::Named;
use crate::members::OpenError;
use crate::memory::Memory;

/// How often to look.
const POLL: Duration = Duration::from_millis(250);

/// Attaches the array once all of its members are there; after the waiting time, with the risks
/// that the operator accepts.
pub(super) async fn attach(config: &DaemonConfig) -> Result<Attached, AttachError> {
    let deadline = Instant::now() + config.wait;
    let whole = AssembleOptions { degraded: false, ..config.options };
    let mut told = false;
    while Instant::now() < deadline {
        match once(config, whole) {
            Err(error) if is_about_absence(&error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::info!("waiting up to {} s: {error}", config.wait.as_secs());
                }
            }
            result => return result,
        }
        tokio::time::sleep(POLL).await;
    }
    once(config, config.options)
}

fn once(config: &DaemonConfig, options: AssembleOptions) -> Result<Attached, AttachError> {
    let Found { paths, left_out } = members(config)?;
    let mut attached = attach::attach(&paths, options)?;
    attached.left_out.extend(left_out);
    Ok(attached)
}

/// The devices to attach: those that were given, or found by the array's name, and the array's last
/// known ones. The paths are absolute, since clients of the control socket have other working
/// directories.
///
/// # Errors
/// If the array is given by name and not found.
pub(super) fn members(config: &DaemonConfig) -> Result<Found, AttachError> {
    let remembered = |name: &str| Memory::of(&config.run_dir, name).unwrap_or_default();
    let absolute = |path: &PathBuf| Named::absolute(path).unwrap_or(path.clone());
    let given: Vec<PathBuf> = config.members.iter().map(absolute).collect();
    let mut found = match &config.name {
        Some(name) => {
            let Memory { array, devices } = remembered(name);
            let uuid = config.uuid.as_deref();
            // Otherwise a mistyped path would go unnoticed.
            for path in &given {
                let file = Named::parse(path).map_or_else(|_| path.clone(), |named| named.path);
                let refused = |source| OpenError::Refused { path: file.clone(), source };
                file.metadata().map_err(refused)?;
            }
            let places = [given, devices].concat();
            find(&Wanted { name, uuid, last: Some(&array) }, &places)?
        }
        None => Found { paths: given, left_out: Vec::new() },
    };
    // With `--degraded`, an operator may have left devices out on purpose.
    if config.name.is_some() || !config.options.degraded {
        complete(&mut found.paths, |name| remembered(name).devices);
    }
    Ok(found)
}

/// Whether a device that appears later could solve the problem.
fn is_about_absence(error: &AttachError) -> bool {
    match error {
        AttachError::NotFound { .. }
        | AttachError::Ambiguous { .. }
        | AttachError::GroupMissing { .. } => true,
        AttachError::Open(OpenError::Refused { source, .. }) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        AttachError::Assemble(error) => {
            matches!(error, AssembleError::Incomplete { .. } | AssembleError::TooManyMissing { .. })
        }
        AttachError::Open(_)
        | AttachError::Memory { .. }
        | AttachError::OtherVolume { .. }
        | AttachError::Disagree { .. }
        | AttachError::IsMd { .. }
        | AttachError::Scan { .. } => false,
    }
}

//! Waiting for members that are not there yet, as at boot: devices show up one by one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use raidcore::meta::{AssembleError, AssembleOptions};

use super::DaemonConfig;
use crate::attach::{self, AttachError, Attached, Found, Wanted, complete, find};
use crate::flash::Named;
use crate::members::OpenError;
use crate::memory::Memory;

/// How often to look meanwhile.
const POLL: Duration = Duration::from_millis(250);

/// Attaches the array, as soon as all of its members are there; when the time for that is over, with
/// what the operator accepts.
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

/// What is to be attached: what was given, or found by the array's name, and of its devices what is
/// where it was last. The paths are absolute, as clients of the control socket have other working
/// directories.
///
/// # Errors
/// If they are to be found by the array's name, and are not.
pub(super) fn members(config: &DaemonConfig) -> Result<Found, AttachError> {
    let remembered = |name: &str| Memory::of(&config.run_dir, name).unwrap_or_default();
    let absolute = |path: &PathBuf| Named::absolute(path).unwrap_or(path.clone());
    let given: Vec<PathBuf> = config.members.iter().map(absolute).collect();
    let mut found = match &config.name {
        Some(name) => {
            let Memory { array, devices } = remembered(name);
            let uuid = config.uuid.as_deref();
            // What was typed wrong would not be missed otherwise.
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
    // Whoever leaves devices out on purpose says so.
    if config.name.is_some() || !config.options.degraded {
        complete(&mut found.paths, |name| remembered(name).devices);
    }
    Ok(found)
}

/// Whether a device that comes later could make it good.
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
        | AttachError::Scan { .. } => false,
    }
}

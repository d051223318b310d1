//! Adding a device: it is opened, looked at, and wiped.
//!
//! Invariants:
//! - Only the client that asked for it waits for the device, which may hang. The work is done on a
//!   thread of its own, and no lock is held meanwhile.
//! - A device that is given up is not written to any more, except for a write that it has not
//!   ended. It stays locked until that has ended.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use raidcore::engine::CommandError;
use raidcore::meta::{Areas, DeviceUuid};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::Refusal;
use crate::attach::{RELEASE_MAX, open, superblock};
use crate::create::prepare_spare;
use crate::flash::Named;
use crate::host::HostHandle;
use crate::lease::{Elsewhere, held_elsewhere};
use crate::members::{Device, OpenError};
use crate::paths::shown;
use crate::random::random_uuid;
use crate::signature::Signature;

/// A device that is to become a spare.
pub(super) struct Newcomer {
    pub(super) path: PathBuf,
    /// The blocks that it needs.
    pub(super) need: u64,
    /// The layout of its metadata.
    pub(super) areas: Areas,
    /// The array that it is for.
    pub(super) host: HostHandle,
    /// Whether its content may be overwritten.
    pub(super) force: bool,
    /// Missing spares. The content of one of these may be overwritten.
    pub(super) absent: Vec<DeviceUuid>,
}

/// A device that was taken in.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) device: Device,
    /// Its new identity.
    pub(super) uuid: DeviceUuid,
    /// The missing spare that it was, if it was one.
    pub(super) was: Option<DeviceUuid>,
}

impl Newcomer {
    /// A device that is not compared with missing spares.
    pub(super) fn new(path: &Path, need: u64, array: (&Areas, &HostHandle), force: bool) -> Self {
        let (areas, host) = (array.0.clone(), array.1.clone());
        Self { path: path.to_path_buf(), need, areas, host, force, absent: Vec::new() }
    }

    /// Opens, locks and wipes it, so that no old metadata is left. Gives it up if a step takes
    /// longer than `patience`.
    pub(super) async fn take_in(self, patience: Duration) -> Result<Taken, Refusal> {
        let path = self.path.clone();
        patiently(&path, patience, |goes_on| self.prepare(goes_on)).await
    }

    /// All steps, on a thread that waits for the device. Before each step it asks `goes_on`.
    fn prepare(self, goes_on: &dyn Fn() -> io::Result<()>) -> Result<Taken, Refusal> {
        let Named { path, flash } = Named::parse(&self.path).map_err(|e| refused(e.into()))?;
        tracing::info!("{} is opened, to be a spare", shown(&path));
        let mut device = open(&path).map_err(refused)?;
        let shown = shown(&path);
        let (have, need) = (device.blocks(), self.need);
        if have < need {
            let message = format!("{shown}: {}", CommandError::TooSmall { have, need });
            return Err(Refusal::new("too-small", message).hint("give a larger device"));
        }
        let io = |error| Refusal::new("device", format!("{shown}: {error}"));
        goes_on().map_err(io)?;
        let was = match self.absent.is_empty() {
            true => None,
            false => {
                superblock(&device).map(|s| s.device).filter(|uuid| self.absent.contains(uuid))
            }
        };
        if let Some(lease) = self.host.lease() {
            device.under(&lease.permit);
        }
        if self.force
            && let Some(Elsewhere { array, host }) =
                held_elsewhere(&device, superblock(&device).as_ref(), goes_on).map_err(io)?
        {
            let message =
                format!("{shown} is a member of the array \"{array}\", which host {host} runs");
            return Err(Refusal::new("in-use", message).hint("stop that array there first"));
        }
        let found = match self.force || was.is_some() {
            true => None,
            false => Signature::find_any(&device, goes_on).map_err(io)?,
        };
        if let Some(signature) = found {
            let message = format!("{shown} carries {signature}");
            return Err(Refusal::new("occupied", message).hint("--force overwrites it"));
        }
        goes_on().map_err(io)?;
        let modelled = flash.is_some() || device.flash_profile().is_some();
        if self.host.lease().is_some() && (modelled || !device.is_direct()) {
            let what = if modelled { "is a modelled SSD" } else { "has no direct I/O" };
            let message = format!("{shown} {what}, and the array has a lease");
            return Err(Refusal::new("lease", message));
        }
        if let Some(flash) = flash {
            device.make_flash(&flash).map_err(|error| refused(error.into()))?;
        }
        prepare_spare(&device, &self.areas, goes_on).map_err(io)?;
        goes_on().map_err(io)?;
        self.host.pass_block_layer(&mut device);
        let uuid = random_uuid().map_err(io)?;
        Ok(Taken { device, uuid: DeviceUuid(uuid), was })
    }
}

/// Runs blocking work on a thread of its own, step by step. Before each step the work asks whether
/// to continue. Gives the device at `path` up if a step takes longer than `patience`.
pub(super) async fn patiently<T: Send + 'static>(
    path: &Path,
    patience: Duration,
    work: impl FnOnce(&dyn Fn() -> io::Result<()>) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    // The process that holds it may be about to end.
    let patience = patience.max(2 * RELEASE_MAX);
    let internal = |error: &dyn std::error::Error| Refusal::new("internal", error.to_string());
    let (steps, mut step) = watch::channel(());
    let (done, mut answer) = oneshot::channel();
    let work = move || {
        // If the device was given up, there is no listener any more.
        let goes_on = || steps.send(()).map_err(|_| io::ErrorKind::TimedOut.into());
        drop(done.send(work(&goes_on)));
    };
    thread::Builder::new().name("newcomer".to_owned()).spawn(work).map_err(|e| internal(&e))?;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|e| internal(&e))?,
            // An error means that there are no more steps: then there is a result.
            waited = timeout(patience, step.changed()) => match waited {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return answer.await.map_err(|e| internal(&e))?,
                Err(_) => return Err(no_answer(path, patience)),
            },
        }
    }
}

pub(super) fn refused(error: OpenError) -> Refusal {
    let code = match &error {
        OpenError::InUse { .. } => "in-use",
        OpenError::Flash(_) => "flash",
        OpenError::Refused { .. } | OpenError::WrongKind { .. } | OpenError::BlockSize { .. } => {
            "device"
        }
    };
    Refusal::new(code, error.to_string())
}

fn no_answer(path: &Path, patience: Duration) -> Refusal {
    let message = format!(
        "{} does not answer: it has not ended in {} s what it was asked",
        shown(path),
        patience.as_secs()
    );
    Refusal::new("no-answer", message)
        .hint("check the device and what it is connected by; it can be given again when it answers")
}

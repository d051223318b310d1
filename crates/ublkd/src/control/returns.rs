//! Devices that were members and come back, on command and by themselves.
//!
//! Invariants:
//! - The metadata that tells which member a device was stays on it until the array has it back. A
//!   device that can't come back is not written to.
//! - Only a device that had vanished, or was missing at the start, comes back by itself. One does
//!   not that an operator has left out or taken out of service, that failed in another way, or that
//!   came back recently and has failed again.
//! - A path that never answers blocks one thread and no request.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_client::DiskAnswer;
use raidcore::engine::{MemberStatus, Note, Status};
use raidcore::meta::{ArrayRecord, DeviceUuid, NoReturn, Returning, SlotState};
use raidcore::units::{BLOCK_BYTES, MemberId};
use serde_json::Value;
use tokio::sync::oneshot;

use super::Refusal;
use super::answers::answer;
use super::away::{Away, EVERY, Which};
use super::newcomer::{patiently, refused};
use super::service::Service;
use crate::attach::{examine, open, superblock};
use crate::create::prepare_return;
use crate::flash::Named;
use crate::host::{HostError, HostHandle};
use crate::members::{Device, OpenError};
use crate::paths::shown;
use crate::random::random_uuid;
use evenkeel_client::WayBack;

/// The longest time until the record shows what a member that has just failed has missed.
const RECORDED_MAX: Duration = Duration::from_secs(5);

/// The longest pause between attempts to bring a member back.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The result of looking at a device that may come back.
enum Came {
    /// It may, and is ready to.
    Back { array: usize, device: Device, uuid: DeviceUuid, returning: Returning },
    /// It was another member.
    Another(Which),
    /// It can't.
    Not(NoReturn),
    /// It does not belong to the array.
    Stranger,
}

/// A device that is to come back.
struct Comer {
    path: PathBuf,
    arrays: Vec<(HostHandle, ArrayRecord)>,
    /// As this member and no other.
    only: Option<Which>,
}

impl Comer {
    /// Opens it, and checks whether it may come back; if so, prepares it. Runs on a thread that
    /// waits for it.
    fn look(self, goes_on: &dyn Fn() -> io::Result<()>) -> Result<Came, Refusal> {
        let Named { path, .. } = Named::parse(&self.path).map_err(|e| refused(e.into()))?;
        if self.only.is_none() {
            tracing::info!("{} is opened, to see whether it comes back", shown(&path));
        }
        let mut device = open(&path).map_err(|error| lingering(error, &path))?;
        let shown = shown(&path);
        let io = |error| Refusal::new("device", format!("{shown}: {error}"));
        goes_on().map_err(io)?;
        let Some(superblock) = superblock(&device) else { return Ok(Came::Stranger) };
        for (array, (host, record)) in self.arrays.iter().enumerate() {
            let returning = match host.may_return(superblock.clone(), device.blocks()).wait() {
                Ok(returning) => returning,
                Err(HostError::NoReturn(NoReturn::OtherArray)) => continue,
                Err(HostError::NoReturn(why)) => return Ok(Came::Not(why)),
                Err(HostError::Lingers) => return Err(lingers(&path)),
                Err(error) => return Err(Refusal::new("stopping", error.to_string())),
            };
            let which = (array, returning.member);
            if self.only.is_some_and(|only| only != which) {
                return Ok(Came::Another(which));
            }
            tracing::info!("{shown} was member {}, and comes back", returning.member.0);
            goes_on().map_err(io)?;
            if let Some(lease) = host.lease() {
                device.under(&lease.permit);
            }
            let meta_blocks = record.meta_blocks_of(returning.member);
            prepare_return(&device, meta_blocks, goes_on).map_err(io)?;
            goes_on().map_err(io)?;
            host.pass_block_layer(&mut device);
            let uuid = DeviceUuid(random_uuid().map_err(io)?);
            return Ok(Came::Back { array, device, uuid, returning });
        }
        Ok(Came::Stranger)
    }
}

/// The error if a device can't be opened: if this process still holds it, it has not been released
/// yet.
fn lingering(error: OpenError, path: &Path) -> Refusal {
    let own = std::process::id();
    if matches!(error, OpenError::InUse { holder: Some(holder), .. } if holder == own) {
        return lingers(path);
    }
    refused(error)
}

fn lingers(path: &Path) -> Refusal {
    let message = format!(
        "{} is a member or spare, or was: then the kernel has not ended all that it was asked before it \
         left, and may still do it",
        shown(path)
    );
    Refusal::new("in-use", message).hint("it can come back when that has ended")
}

impl Service {
    /// Takes a device back into its place, if it was a member that is away; with `only`, as that
    /// member and no other. Nothing if it was no member.
    pub(super) async fn bring_back(
        &self,
        path: &Path,
        only: Option<Which>,
        patience: Duration,
    ) -> Result<Option<Value>, Refusal> {
        let arrays = self.arrays.iter().map(|array| (array.host.clone(), array.record.clone()));
        let comer = Comer { path: path.to_path_buf(), arrays: arrays.collect(), only };
        match patiently(path, patience, |goes_on| comer.look(goes_on)).await? {
            Came::Back { array, device, uuid, returning } => {
                let array = &self.arrays[array];
                let _alone = self.membership.lock().await;
                let member = returning.member;
                let missed = missed_bytes(&self.status(array).await?, member);
                let returned = array.host.return_device(device, uuid, returning).await;
                returned.map_err(|error| self.refusal(error))?;
                self.remember().await;
                let missed_bytes = missed.filter(|_| returning.catches_up);
                let (returned, group) = (path.to_path_buf(), array.facts.group);
                let member = member.0;
                answer(DiskAnswer::Returned { returned, member, group, missed_bytes }).map(Some)
            }
            Came::Another((array, member)) => {
                let was = self.arrays[array].facts.place(member.0);
                let message = format!("{} was {was}, and can come back as that", shown(path));
                Err(Refusal::new("occupied", message).hint(format!(
                    "`evenkeel disk add {} PATH`; --force makes it a new device, and what it holds is lost",
                    self.facts.name
                )))
            }
            // Missing spares, and copies of present devices, are handled elsewhere.
            Came::Not(NoReturn::InService) | Came::Stranger => Ok(None),
            Came::Not(why) => {
                let message = format!("{} was a member, and can't come back: {why}", shown(path));
                let hint = "--force makes it a new device, which is filled as a whole: what it holds is lost";
                Err(Refusal::new("no-return", message).hint(hint))
            }
        }
    }

    /// Waits until the record shows what a member that has just failed has missed: until then, all
    /// of it would be filled.
    pub(super) async fn failures_on_record(&self) -> Result<(), Refusal> {
        let deadline = Instant::now() + RECORDED_MAX;
        loop {
            let mut recorded = true;
            for array in &self.arrays {
                let status = self.status(array).await?;
                recorded &= !status.members.iter().any(has_just_failed);
            }
            if recorded || Instant::now() >= deadline {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Awaits members that are out of service at the start and whose devices are missing.
    pub(crate) async fn await_members(&self) {
        for (index, array) in self.arrays.iter().enumerate() {
            let Ok(status) = self.status(array).await else { return };
            let failed = status.members.iter().filter(|m| m.state == SlotState::Failed);
            for member in failed {
                self.away().was_out((index, member.member));
            }
        }
    }

    /// Follows an event, which may be about a member that is awaited, or will be.
    pub(super) fn follow_members(&self, index: usize, note: &Note) {
        if let Note::MemberFailed { member, device, why } = *note {
            let path = self.host.device_path(device);
            self.away().left((index, member), why, path, Instant::now());
        } else if let Note::MemberReturned { member, .. } | Note::SpareActivated { member, .. } =
            *note
        {
            self.away().forget((index, member));
        }
    }

    /// How a member that is away comes back, and why it has not yet.
    pub(super) fn way_back(&self, index: usize, member: MemberId) -> (WayBack, Option<String>) {
        match self.away().awaited((index, member)) {
            Some(awaited) => (WayBack::ByItself, awaited.why_not.clone()),
            None => (WayBack::ByCommand, None),
        }
    }

    /// Takes members back once their devices are there again, as long as the array runs.
    pub(crate) async fn take_back(self: Arc<Self>) {
        loop {
            for (index, array) in self.arrays.iter().enumerate() {
                let Ok(status) = self.status(array).await else { return };
                for member in status.members {
                    self.look_for(index, &member);
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Looks for a member's device, unless a look is under way or the member is not awaited.
    fn look_for(self: &Arc<Self>, index: usize, member: &MemberStatus) {
        let which = (index, member.member);
        let mut away = self.away();
        let Some(awaited) = away.awaited(which) else { return };
        let too_early = awaited.not_before.is_some_and(|at| Instant::now() < at);
        // The record has to show what it has missed: a device that has to be filled completely
        // could as well be a new one.
        let lacks_all = member.missed.is_none() && !awaited.since_start;
        if member.state != SlotState::Failed || awaited.busy || too_early || lacks_all {
            return;
        }
        let label = Some(member.label.path()).filter(|path| path.starts_with('/'));
        let places: Vec<PathBuf> =
            label.map(PathBuf::from).into_iter().chain(awaited.path.clone()).collect();
        if places.is_empty() {
            // It is not known where it was.
            away.forget(which);
            return;
        }
        awaited.busy = true;
        drop(away);
        let (service, uuid, known) = (Arc::clone(self), member.uuid, member.missed.is_some());
        tokio::spawn(async move { service.look_at(which, places, uuid, known).await });
    }

    /// Looks at the places where a member's device was, however long that takes.
    async fn look_at(&self, which: Which, places: Vec<PathBuf>, uuid: DeviceUuid, known: bool) {
        let is_it = move |path: &PathBuf| {
            let found = examine(path).ok().and_then(|found| found.superblock.ok());
            found.is_some_and(|superblock| superblock.device == uuid)
        };
        // On a thread that is not joined when the array ends.
        let (found, answer) = oneshot::channel();
        let find = move || drop(found.send(places.into_iter().find(is_it)));
        if let Err(error) = thread::Builder::new().name("lookout".to_owned()).spawn(find) {
            tracing::warn!(%error, "it can't be looked for members that are away");
        }
        let found = answer.await.ok().flatten();
        let left_out = {
            let mut away = self.away();
            let Some(awaited) = away.awaited(which) else { return };
            std::mem::take(&mut awaited.since_start) && found.is_some()
        };
        if left_out {
            // Its device was there when the array was started without it.
            self.away().forget(which);
            return;
        }
        let mut why_not = None;
        if let Some(path) = found.filter(|_| known) {
            match self.bring_back(&path, Some(which), self.host.io_timeout()).await {
                Ok(Some(_)) => return self.away().came_back(which, Instant::now()),
                Ok(None) => {}
                Err(Refusal { message, .. }) => why_not = Some(message),
            }
        }
        let mut away = self.away();
        let Some(awaited) = away.awaited(which) else { return };
        awaited.busy = false;
        if let Some(why) = &why_not {
            if awaited.why_not.as_ref() != Some(why) {
                tracing::warn!("{why}");
            }
            awaited.not_before = Some(Instant::now() + awaited.pause);
            awaited.pause = (awaited.pause * 2).min(RETRY_MAX);
        }
        awaited.why_not = why_not;
    }

    fn away(&self) -> MutexGuard<'_, Away> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the record does not show yet what a member misses, but soon may.
fn has_just_failed(member: &MemberStatus) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let lately = now.saturating_sub(member.since) <= RECORDED_MAX.as_secs();
    member.state == SlotState::Failed && member.missed.is_none() && lately
}

/// How much a member's device lacks at most.
pub(super) fn missed_bytes(status: &Status, member: MemberId) -> Option<u64> {
    let member = status.members.iter().find(|m| m.member == member)?;
    Some(member.missed?.blocks * BLOCK_BYTES as u64)
}

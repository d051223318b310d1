//! Carries out the requests of the control socket.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use det::Instant;
use raidcore::engine::{Command, CommandError, Note, Pace, Status};
use raidcore::meta::{Areas, ArrayRecord, DeviceUuid, SlotState};
use raidcore::units::{DeviceId, MemberId};
use serde_json::{Value, json};
use steering::collect::Limits;
use steering::scheme::{SCHEMES, Scheme};
use tokio::sync::watch;

use super::report::{ArrayReport, EventReport, Facts, Front, describe};
use super::{Launch, NoStagingLog, Refusal, Request, StagingReport};
use crate::attach::open;
use crate::create::{policy_name, prepare_spare, random_uuid};
use crate::flash::Named;
use crate::host::{HostError, HostHandle};
use crate::members::{Device, OpenError};
use crate::signature::Signature;

/// How many events a report tells.
const EVENTS_TOLD: usize = 32;

/// One running array, for the control socket.
pub struct Service {
    host: HostHandle,
    facts: Facts,
    /// As it was at the start: who is where may have changed, not how much each has.
    record: ArrayRecord,
    fronts: Vec<Front>,
    events: Mutex<VecDeque<EventReport>>,
    stopper: Stopper,
    launch: Option<Launch>,
    /// Adding and replacing look at the state before they change it, so one at a time.
    membership: tokio::sync::Mutex<()>,
}

/// Asks for a stop, and tells when the array has stopped.
#[derive(Clone, Debug)]
pub struct Stopper {
    phase: watch::Sender<Phase>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Stopping {
        leave: bool,
    },
    /// It runs on.
    Refused(String),
    Stopped(Result<(), String>),
}

impl Default for Stopper {
    fn default() -> Self {
        Self { phase: watch::Sender::new(Phase::Running) }
    }
}

impl Stopper {
    /// Asks for a stop, which is refused while a block device is in use, unless the device is left
    /// to the next start.
    pub fn stop(&self, leave: bool) {
        self.phase.send_if_modified(|phase| {
            let running = matches!(phase, Phase::Running | Phase::Refused(_));
            if running {
                *phase = Phase::Stopping { leave };
            }
            running
        });
    }

    /// Ends when a stop has been asked for; tells whether a device in use is to be left.
    pub async fn asked(&self) -> bool {
        let mut phase = self.phase.subscribe();
        // The sender is `self`, which outlives this.
        let asked = |phase: &Phase| !matches!(phase, Phase::Running | Phase::Refused(_));
        let asked = phase.wait_for(asked).await;
        asked.is_ok_and(|phase| matches!(*phase, Phase::Stopping { leave: true }))
    }

    /// Tells that the array runs on, and why.
    pub fn refuse(&self, why: &str) {
        self.phase.send_replace(Phase::Refused(why.to_owned()));
    }

    /// Tells how the stop ended.
    pub fn stopped(&self, how: Result<(), String>) {
        self.phase.send_replace(Phase::Stopped(how));
    }

    async fn wait(&self) -> Result<(), Refusal> {
        let mut phase = self.phase.subscribe();
        let answered = |phase: &Phase| matches!(phase, Phase::Refused(_) | Phase::Stopped(_));
        match phase.wait_for(answered).await.as_deref() {
            Ok(Phase::Stopped(how)) => how.clone().map_err(|why| Refusal::new("unclean", why)),
            Ok(Phase::Refused(why)) => Err(Refusal::new("in-use", why)),
            Ok(Phase::Running | Phase::Stopping { .. }) | Err(_) => Ok(()),
        }
    }
}

impl Service {
    /// The service of an array that runs.
    #[must_use]
    pub fn new(
        host: HostHandle,
        record: &ArrayRecord,
        fronts: Vec<Front>,
        stopper: Stopper,
    ) -> Self {
        Self {
            host,
            facts: Facts::of(record),
            record: record.clone(),
            fronts,
            events: Mutex::new(VecDeque::new()),
            stopper,
            launch: None,
            membership: tokio::sync::Mutex::new(()),
        }
    }

    /// Lets the array be restarted in this way.
    #[must_use]
    pub fn launched_by(self, launch: Option<Launch>) -> Self {
        Self { launch, ..self }
    }

    /// Follows the array's events until it ends, logs them, and keeps the latest for reports.
    pub async fn follow_events(&self) {
        let mut notes = self.host.notes();
        while let Some(event) = notes.next().await {
            let text = describe(&event.note, self.facts.member_count, |device| {
                self.host.device_path(device)
            });
            match event.note {
                Note::ArrayFailed => tracing::error!("{text}"),
                Note::MemberFailed { .. }
                | Note::MemberHangs { .. }
                | Note::BlocksWrong { .. }
                | Note::Mismatch { .. } => tracing::warn!("{text}"),
                Note::BlocksRepaired { .. }
                | Note::MemberAnswers { .. }
                | Note::PassStarted(_)
                | Note::PassEnded(..)
                | Note::SpareActivated { .. }
                | Note::JournalReplayed { .. }
                | Note::StagedReclaimed { .. } => tracing::info!("{text}"),
            }
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            if events.len() == EVENTS_TOLD {
                events.pop_front();
            }
            events.push_back(EventReport { at: event.at, text });
        }
    }

    /// Carries out a request.
    ///
    /// # Errors
    /// With the reason, for programs and for people.
    pub async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        match request {
            Request::Status => self.report().await,
            Request::Why => self.why().await,
            Request::DiskAdd { path, force } => {
                let _alone = self.membership.lock().await;
                self.add(&path, self.record.least_blocks(), force).await?;
                Ok(json!({ "added": path }))
            }
            Request::DiskFail { disk } => {
                let member = self.member(&disk, &self.status().await?)?;
                self.command(Command::Fail(member)).await
            }
            Request::FlashLog { disk, since } => {
                let member = self.member(&disk, &self.status().await?)?;
                self.flash_log(member, Instant(since)).await
            }
            Request::DiskRemove { disk } => {
                let device = self.spare(&disk, &self.status().await?)?;
                self.command(Command::Remove(device)).await
            }
            Request::DiskReplace { disk, with, force } => {
                let _alone = self.membership.lock().await;
                self.replace(&disk, &with, force).await
            }
            Request::Pause => self.command(Command::Pause).await,
            Request::Resume => self.command(Command::Resume).await,
            Request::Limit { min, max } => {
                let now = self.status().await?.pace;
                let pace = Pace { min: min.unwrap_or(now.min), max: max.unwrap_or(now.max) };
                if pace.min > pace.max {
                    let message = "the minimum would be greater than the maximum";
                    return Err(Refusal::new("bad-request", message).hint("give both"));
                }
                self.command(Command::SetPace(pace)).await
            }
            Request::PolicySet { scheme } => self.set_policy(&scheme).await,
            Request::ScrubStart { repair } => self.command(Command::Scrub { repair }).await,
            Request::ScrubCancel => self.command(Command::CancelScrub).await,
            Request::Stop => {
                self.stopper.stop(false);
                self.stopper.wait().await?;
                Ok(json!({ "stopped": true }))
            }
            Request::Leave => {
                let launch = self.launch.as_ref().ok_or_else(|| {
                    let message = "the array runs in the foreground, or a service manager's";
                    let hint = "restart it there: SIGTERM leaves a block device in use to the next \
                                start";
                    Refusal::new("foreground", message).hint(hint)
                })?;
                self.stopper.stop(true);
                self.stopper.wait().await?;
                serde_json::to_value(launch).map_err(|e| Refusal::new("internal", e.to_string()))
            }
        }
    }

    async fn set_policy(&self, name: &str) -> Result<Value, Refusal> {
        let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        let unknown = || {
            let message = format!("there is no policy {name:?}");
            Refusal::new("bad-request", message).hint(format!("one of {}", names.join(", ")))
        };
        let scheme = Scheme::named(name).ok_or_else(unknown)?;
        NoStagingLog::check(scheme, self.facts.staging_bytes)
            .map_err(|error| Refusal::new("no-staging", error.to_string()).hint(error.hint()))?;
        let flash = self.host.flash().await.map_err(|error| self.refusal(error))?;
        let takes_turns = scheme.collect(Limits::default(), 1).is_some();
        if flash.is_empty() && takes_turns {
            let message = "no member lets itself be told when to collect garbage";
            let hint = "only modelled SSDs do so far (flash:PROFILE:PATH); reads can go around who \
                        is slow with the policy \"reconstruct\"";
            return Err(Refusal::new("no-flash", message).hint(hint));
        }
        self.command(Command::SetPolicy(policy_name(scheme))).await?;
        self.host.set_scheme(scheme).await.map_err(|error| self.refusal(error))?;
        let staging = StagingReport::of(&self.status().await?, name);
        let draining = staging.filter(|staging| staging.draining);
        let draining = draining.map_or(0, |staging| staging.dirty_bytes);
        Ok(json!({ "policy": name, "draining_bytes": draining }))
    }

    async fn report(&self) -> Result<Value, Refusal> {
        let status = self.status().await?;
        let flash = self.host.flash().await.map_err(|error| self.refusal(error))?;
        let scheme = self.host.scheme().await.map_err(|error| self.refusal(error))?;
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let events: Vec<EventReport> = events.iter().cloned().collect();
        let path = |device| self.host.device_path(device);
        let fronts = self.fronts.clone();
        let policy = scheme.name;
        let report = ArrayReport::new(&self.facts, &status, (&flash, policy), path, fronts, events);
        serde_json::to_value(report).map_err(|e| Refusal::new("internal", e.to_string()))
    }

    async fn why(&self) -> Result<Value, Refusal> {
        let report = self.host.why().await.map_err(|error| self.refusal(error))?;
        serde_json::to_value(report).map_err(|e| Refusal::new("internal", e.to_string()))
    }

    async fn flash_log(&self, member: MemberId, since: Instant) -> Result<Value, Refusal> {
        let status = self.status().await?;
        let device = status.members.iter().find(|m| m.member == member).and_then(|m| m.device);
        let log = match device {
            Some(device) => self.host.flash_log(device, since).await,
            None => Ok(None),
        };
        let message = format!("{} is not modelled as an SSD", self.facts.place(member.0));
        let log = log.map_err(|error| self.refusal(error))?;
        let log = log.ok_or_else(|| Refusal::new("no-flash", message))?;
        serde_json::to_value(log).map_err(|e| Refusal::new("internal", e.to_string()))
    }

    async fn status(&self) -> Result<Status, Refusal> {
        self.host.status().await.map_err(|error| self.refusal(error))
    }

    async fn command(&self, command: Command) -> Result<Value, Refusal> {
        let done = self.host.command(command).await;
        done.map(|()| json!({})).map_err(|error| self.refusal(error))
    }

    /// Opens, checks and wipes a device of so many blocks at least, and gives it to the array as a spare.
    async fn add(&self, path: &Path, need: u64, force: bool) -> Result<DeviceId, Refusal> {
        if self.facts.redundancy == 0 {
            return Err(self.refusal(CommandError::NotRedundant.into()));
        }
        let (areas, path) = (self.record.areas.clone(), path.to_path_buf());
        // Opening and wiping wait for the device.
        let opened = tokio::task::spawn_blocking(move || take_in(&path, &areas, need, force)).await;
        let opened = opened.map_err(|e| Refusal::new("internal", e.to_string()))?;
        let (device, uuid) = opened?;
        let added = self.host.add_device(device, uuid).await;
        added.map_err(|error| self.refusal(error))
    }

    async fn replace(&self, disk: &str, with: &Path, force: bool) -> Result<Value, Refusal> {
        let status = self.status().await?;
        let member = self.member(disk, &status)?;
        let need = self.record.blocks_of(member);
        let failed = |m: &&raidcore::engine::MemberStatus| m.state == SlotState::Failed;
        let missing: Vec<MemberId> =
            status.members.iter().filter(failed).map(|m| m.member).collect();
        match missing.first() {
            // A spare goes where one is missing, the lowest number first.
            Some(&first) if first != member => {
                let first_name = self.facts.place(first.0);
                let message = format!("{first_name} is missing and has to be replaced first");
                let hint = format!("`evenkeel disk replace {} {} PATH`", self.facts.name, first.0);
                return Err(Refusal::new("busy", message).hint(hint));
            }
            Some(_) => {
                self.add(with, need, force).await?;
            }
            None => {
                if !status.spares.is_empty() {
                    tracing::info!("the array has spares; they stay");
                }
                let spare = self.add(with, need, force).await?;
                let replace = Command::Replace { member, spare };
                if let Err(error) = self.host.command(replace).await {
                    // Not left behind as a spare that nobody asked for.
                    let _ = self.host.command(Command::Remove(spare)).await;
                    return Err(self.refusal(error));
                }
            }
        }
        Ok(json!({ "member": member.0, "with": with }))
    }

    fn member(&self, disk: &str, status: &Status) -> Result<MemberId, Refusal> {
        let found = match disk.parse::<u8>() {
            Ok(number) => status.members.iter().find(|m| m.member.0 == number),
            Err(_) => status
                .members
                .iter()
                .find(|m| m.device.is_some_and(|device| self.is_at(device, disk))),
        };
        found.map(|m| m.member).ok_or_else(|| self.no_such(disk, "member"))
    }

    fn spare(&self, disk: &str, status: &Status) -> Result<DeviceId, Refusal> {
        let is_member = |m: &raidcore::engine::MemberStatus| {
            disk.parse() == Ok(m.member.0) || m.device.is_some_and(|d| self.is_at(d, disk))
        };
        if let Some(m) = status.members.iter().find(|m| is_member(m)) {
            let (name, number) = (&self.facts.name, m.member.0);
            let (message, hint) = if m.state == SlotState::Failed {
                let message = format!("member {number} has failed; its device is free already");
                (message, format!("`evenkeel disk replace {name} {number} PATH`"))
            } else {
                let message = format!("{disk} is in use as member {number}");
                (message, format!("take it out of service: `evenkeel disk fail {name} {number}`"))
            };
            return Err(Refusal::new("in-use", message).hint(hint));
        }
        let mut spares = status.spares.iter();
        let spare = spares.find(|&&device| self.is_at(device, disk)).copied();
        spare.ok_or_else(|| self.no_such(disk, "spare"))
    }

    fn is_at(&self, device: DeviceId, path: &str) -> bool {
        let canonical = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let at = self.host.device_path(device).map(canonical);
        let named = Named::parse(Path::new(path));
        named.is_ok_and(|named| at == Some(canonical(named.path)))
    }

    fn no_such(&self, disk: &str, what: &str) -> Refusal {
        let name = &self.facts.name;
        Refusal::new(
            &format!("no-such-{what}"),
            format!("the array \"{name}\" has no {what} {disk}"),
        )
        .hint(format!("`evenkeel status {name}` lists them"))
    }

    fn refusal(&self, error: HostError) -> Refusal {
        let name = &self.facts.name;
        let code = match &error {
            HostError::Refused(error) => match error {
                CommandError::NoRedundancy => "no-redundancy",
                CommandError::NoSuchMember => "no-such-member",
                CommandError::NoSuchDevice => "no-such-device",
                CommandError::TooSmall { .. } => "too-small",
                CommandError::TooManySpares => "too-many-spares",
                CommandError::NotRedundant => "not-redundant",
                CommandError::NothingToDo => "nothing-to-do",
                CommandError::Busy => "busy",
                CommandError::Stopping => "stopping",
                CommandError::NotRecorded => "not-recorded",
                CommandError::Starting => "starting",
                CommandError::NothingToCompare => "nothing-to-compare",
            },
            HostError::Device(_) => "device",
            HostError::Ended => "stopping",
            HostError::Died => "died",
        };
        let refusal = Refusal::new(code, error.to_string());
        match code {
            "no-redundancy" => refusal
                .hint(format!("wait until the array is whole again (`evenkeel status {name}`)")),
            "busy" => refusal.hint(format!("follow it: `evenkeel rebuild status {name} --wait`")),
            "not-recorded" => refusal.hint("see the log for what is wrong with the members"),
            _ => refusal,
        }
    }
}

/// A device that can be a spare: locked, and nothing of what it carried is left to be taken for
/// metadata.
fn take_in(
    path: &Path,
    areas: &Areas,
    need: u64,
    force: bool,
) -> Result<(Device, DeviceUuid), Refusal> {
    let refused = |error: OpenError| {
        let code = match &error {
            OpenError::InUse { .. } => "in-use",
            OpenError::Flash(_) => "flash",
            OpenError::Refused { .. }
            | OpenError::WrongKind { .. }
            | OpenError::BlockSize { .. } => "device",
        };
        Refusal::new(code, error.to_string())
    };
    let Named { path, flash } = Named::parse(path).map_err(|error| refused(error.into()))?;
    let mut device = open(&path, &[]).map_err(refused)?;
    let shown = path.display();
    let (have, need) = (device.blocks(), need);
    if have < need {
        let message = format!("{shown}: {}", CommandError::TooSmall { have, need });
        return Err(Refusal::new("too-small", message).hint("give a larger device"));
    }
    let io = |error| Refusal::new("device", format!("{shown}: {error}"));
    if let Some(signature) = Signature::find(&device).map_err(io)?.filter(|_| !force) {
        let message = format!("{shown} carries {signature}");
        return Err(Refusal::new("occupied", message).hint("--force overwrites it"));
    }
    if let Some(flash) = flash {
        device.make_flash(&flash).map_err(|error| refused(error.into()))?;
    }
    prepare_spare(&device, areas).map_err(io)?;
    let uuid = random_uuid().map_err(io)?;
    Ok((device, DeviceUuid(uuid)))
}

//! Carries out the requests of the control socket.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use det::Instant;
use evenkeel_client::{
    Done, EventReport, Facts, FlushAnswer, Front, Launch, Page, PolicyAnswer, Refusal, Request,
    StopAnswer,
};
use raidcore::engine::{Command, CommandError, Pace, RebuildOrder, Slowdown, Status};
use raidcore::meta::ArrayRecord;
use raidcore::units::MemberId;
use raidlog::GroupId;
use serde_json::Value;
use steering::hold::{CACHES, Cache};
use steering::scheme::{SCHEMES, Scheme};

use super::MetricsPages;
use super::answers::answer;
use super::away::Away;
use super::commands::in_words;
use super::io::{add_io, io_report};
use super::lease::lease_report;
use super::log::volume_report;
use super::report::{array_report, facts_of_all, facts_of_group};
use super::site::add_site;
use super::staging::staging_report;
use super::stopper::{Manner, StopError, Stopper};
use crate::create::policy_name;
use crate::history::{By, Keeper, What};
use crate::host::{HostError, HostHandle};
use crate::memory::Memory;
use crate::policy::Able;

/// One running array or log volume, for the control socket.
pub struct Service {
    pub(super) host: HostHandle,
    pub(super) facts: Facts,
    /// The array; the arrays of a log volume's groups, in order.
    pub(super) arrays: Vec<Array>,
    pub(super) fronts: Mutex<Vec<Front>>,
    pub(super) events: Mutex<VecDeque<EventReport>>,
    stopper: Stopper,
    launch: Option<Launch>,
    run_dir: Option<PathBuf>,
    pub(super) history: Option<Arc<Keeper>>,
    metrics: Option<Arc<dyn MetricsPages>>,
    /// The command that stops the array, once one has.
    stop: Mutex<Option<What>>,
    /// Members that are away.
    pub(super) away: Mutex<Away>,
    /// Adding and replacing look at the state before they change it, so only one runs at a time. It
    /// is not held while waiting for a device.
    pub(super) membership: tokio::sync::Mutex<()>,
}

/// An array that runs: alone, or as a log volume's group.
pub(super) struct Array {
    pub(super) host: HostHandle,
    pub(super) facts: Facts,
    /// The record at the start. Members may have changed places since, but not the layout.
    pub(super) record: ArrayRecord,
}

impl Service {
    /// The service of an array that runs, or of a log volume, from the records of its groups.
    ///
    /// # Panics
    /// If there is not a record for each group.
    #[must_use]
    pub fn new(
        host: HostHandle,
        records: &[ArrayRecord],
        fronts: Vec<Front>,
        stopper: Stopper,
    ) -> Self {
        assert_eq!(host.groups().count(), records.len(), "a record for each group");
        let array = |(group, record): (GroupId, &ArrayRecord)| Array {
            host: host.of(group),
            facts: facts_of_group(record),
            record: record.clone(),
        };
        Self {
            arrays: host.groups().zip(records).map(array).collect(),
            facts: facts_of_all(records),
            host,
            fronts: Mutex::new(fronts),
            events: Mutex::new(VecDeque::new()),
            stopper,
            launch: None,
            run_dir: None,
            history: None,
            metrics: None,
            stop: Mutex::new(None),
            away: Mutex::default(),
            membership: tokio::sync::Mutex::new(()),
        }
    }

    /// Sets how the array can be restarted.
    #[must_use]
    pub fn launched_by(self, launch: Option<Launch>) -> Self {
        Self { launch, ..self }
    }

    /// Sets the directory in which later starts find the last devices of the array.
    #[must_use]
    pub fn remembered_in(self, run_dir: PathBuf) -> Self {
        Self { run_dir: Some(run_dir), ..self }
    }

    /// Sets where its history is kept.
    #[must_use]
    pub fn with_history(self, history: Option<Arc<Keeper>>) -> Self {
        Self { history, ..self }
    }

    /// Sets what makes its metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<dyn MetricsPages>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// It is served in another way than before.
    pub(crate) fn served_by(&self, fronts: Vec<Front>) {
        *self.fronts.lock().unwrap_or_else(PoisonError::into_inner) = fronts;
    }

    /// Stores where the array's devices are.
    pub(crate) async fn remember(&self) {
        if let (Some(run_dir), Ok(devices)) = (&self.run_dir, self.devices().await) {
            Memory { array: self.facts.uuid.clone(), devices }.keep(run_dir, &self.facts.name);
        }
    }

    /// Carries out a request of `by`, and puts it into the history if it has changed the array.
    ///
    /// # Errors
    /// As [`Service::answer`].
    pub async fn answer_to(&self, request: Request, by: Option<By>) -> Result<Value, Refusal> {
        let command = in_words(&request, &self.facts.name).map(|words| What::command(words, by));
        if matches!(request, Request::Stop { .. } | Request::Leave { .. }) {
            *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = command;
            return self.answer(request).await;
        }
        let done = self.answer(request).await;
        if let (Some(history), Some(command), Ok(_)) = (&self.history, command, &done) {
            history.add(command);
        }
        done
    }

    /// The command that the array stops by, if it is one.
    pub(crate) fn stop_command(&self) -> Option<What> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Carries out a request.
    ///
    /// # Errors
    /// The reason of a refusal, for programs and for people.
    pub async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        match request {
            Request::Status => self.report().await,
            Request::Why => self.why().await,
            Request::Metrics => self.page().await,
            Request::DiskAdd { path, group, force } => self.add(&path, group, force).await,
            Request::DiskFail { disk } => {
                let (array, member) = self.member(&disk).await?;
                self.command(array, Command::Fail(member)).await
            }
            Request::FlashLog { disk, since } => {
                let (array, member) = self.member(&disk).await?;
                self.flash_log(array, member, Instant(since)).await
            }
            Request::DiskRemove { disk } => self.remove(&disk).await,
            Request::DiskReplace { disk, with, force } => self.replace(&disk, &with, force).await,
            Request::Pause => self.command_all(Command::Pause).await,
            Request::Resume => self.command_all(Command::Resume).await,
            Request::Limit { min, max, within, slowdown } => {
                let now = self.status(&self.arrays[0]).await?.pace;
                let pace = Pace { min: min.unwrap_or(now.min), max: max.unwrap_or(now.max) };
                if pace.min > pace.max {
                    let message = "the minimum would be greater than the maximum";
                    return Err(Refusal::new("bad-request", message).hint("give both"));
                }
                let slowdown = slowdown.map(|percent| (percent, Slowdown::percent(percent)));
                if slowdown.is_some_and(|(percent, limit)| percent > 0 && limit.is_none()) {
                    let message = "users' requests can't be held to what they take in calm";
                    let hint = "give more than 100 percent, or 0 to keep to the minimum";
                    return Err(Refusal::new("bad-request", message).hint(hint));
                }
                if let Some(seconds) = within {
                    let within = (seconds > 0).then(|| Duration::from_secs(seconds));
                    self.command_all(Command::EndWithin(within)).await?;
                }
                if let Some((_, limit)) = slowdown {
                    self.command_all(Command::LimitSlowdown(limit)).await?;
                }
                self.command_all(Command::SetPace(pace)).await
            }
            Request::RebuildOrder { order } => {
                let Some(order) = RebuildOrder::named(&order) else {
                    let message = format!("there is no rebuild order {order:?}");
                    let hint = "`evenkeel rebuild order` lists all";
                    return Err(Refusal::new("bad-request", &message).hint(hint));
                };
                self.command_all(Command::SetRebuildOrder(order)).await
            }
            Request::PolicySet { scheme } => self.set_policy(&scheme).await,
            Request::CacheSet { cache } => self.set_cache(&cache).await,
            Request::CacheFlush => self.flush_cache().await,
            Request::ScrubStart { repair } => self.command_all(Command::Scrub { repair }).await,
            Request::ScrubCancel => self.command_all(Command::CancelScrub).await,
            Request::Stop { force } => {
                self.refuse_loss("stop", force).await?;
                let manner = if force { Manner::Force } else { Manner::IfUnused };
                self.stop(manner, "stop").await?;
                answer(StopAnswer { stopped: true })
            }
            Request::Launch => self.launch().await,
            Request::Leave { force } => {
                let launch = self.launch().await?;
                self.refuse_loss("restart", force).await?;
                let manner = if force { Manner::Force } else { Manner::Leave };
                // The next process of this host goes on with it.
                self.host.keep_lease(true);
                let stopped = self.stop(manner, "restart").await;
                self.host.keep_lease(false);
                stopped.map(|()| launch)
            }
        }
    }

    /// How the array can be started again, with the devices that it has.
    async fn launch(&self) -> Result<Value, Refusal> {
        let launch = self.launch.as_ref().ok_or_else(|| {
            let message = "the array runs in the foreground, or a service manager's";
            let hint = "restart it there: SIGTERM leaves a block device in use to the next start";
            Refusal::new("foreground", message).hint(hint)
        })?;
        let launch = Launch { devices: self.devices().await?, ..launch.clone() };
        answer(launch)
    }

    /// The array's devices, members first.
    async fn devices(&self) -> Result<Vec<PathBuf>, Refusal> {
        let mut devices = Vec::new();
        for array in &self.arrays {
            let status = self.status(array).await?;
            let members = status.members.iter().filter_map(|member| member.device);
            let successor = status.successor.map(|successor| successor.device);
            devices.extend(members.chain(status.spares.iter().copied()).chain(successor));
        }
        Ok(devices.into_iter().filter_map(|device| self.host.device_path(device)).collect())
    }

    /// Stops the array in the manner of this command.
    async fn stop(&self, manner: Manner, command: &str) -> Result<(), Refusal> {
        self.stopper.stop(manner);
        let name = &self.facts.name;
        self.stopper.wait().await.map_err(|error| match error {
            StopError::Unclean(why) => Refusal::new("unclean", why),
            StopError::InUse(users) => {
                let message = format!("{name} is in use: {}", users.join("; "));
                Refusal::new("in-use", message).hint(format!(
                    "unmount it, detach loop devices, disconnect clients, shut down virtual \
                     machines; or `evenkeel {command} {name} --force`: file systems of this machine \
                     write what they hold, and then users of the file and of NBD get errors"
                ))
            }
        })
    }

    /// A policy that names no cache leaves the array's as it is.
    async fn set_policy(&self, name: &str) -> Result<Value, Refusal> {
        let unknown = || {
            let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
            let message = format!("there is no policy {name:?}");
            Refusal::new("bad-request", message).hint(format!("one of {}", names.join(", ")))
        };
        let scheme = Scheme::named(name).ok_or_else(unknown)?;
        let now = self.host.scheme().await.map_err(|error| self.refusal(error))?;
        let keeps = !name.contains('/');
        self.follow(if keeps { scheme.with(now.cache()) } else { scheme }).await
    }

    async fn set_cache(&self, name: &str) -> Result<Value, Refusal> {
        let unknown = || {
            let names: Vec<_> = CACHES.iter().map(|cache| cache.name).collect();
            let message = format!("there is no cache {name:?}");
            Refusal::new("bad-request", message).hint(format!("one of {}", names.join(", ")))
        };
        let cache = Cache::named(name).ok_or_else(unknown)?;
        let now = self.host.scheme().await.map_err(|error| self.refusal(error))?;
        self.follow(now.with(cache)).await
    }

    /// Brings home what is staged now. The answer does not wait for it.
    async fn flush_cache(&self) -> Result<Value, Refusal> {
        let mut bytes = 0;
        for array in &self.arrays {
            let staging = staging_report(&self.status(array).await?, "");
            bytes += staging.map_or(0, |staging| staging.dirty_bytes);
        }
        bytes += self.volatile().await?.map_or(0, |cache| cache.dirty_bytes);
        self.command_all(Command::BringHome).await?;
        answer(FlushAnswer { bytes })
    }

    async fn follow(&self, scheme: Scheme) -> Result<Value, Refusal> {
        let first = &self.arrays[0];
        let takes_turns = self.has_orderly().await?;
        Able::of(&first.record, takes_turns).check(scheme).map_err(|error| {
            let refusal = Refusal::new(error.code(), error.to_string());
            refusal.hint(error.hint())
        })?;
        let (volatile, has_memory) =
            (scheme.cache().is_volatile(), self.volatile().await?.is_some());
        if volatile {
            self.refuse_guests()?;
        }
        if has_memory && !volatile {
            self.command_all(Command::SetVolatile(false)).await?;
        }
        self.command_all(Command::SetPolicy(policy_name(scheme))).await?;
        if has_memory && volatile {
            self.command_all(Command::SetVolatile(true)).await?;
        }
        self.host.set_scheme(scheme).await.map_err(|error| self.refusal(error))?;
        let name = scheme.to_string();
        let staging = staging_report(&self.status(first).await?, &name);
        let draining = staging.filter(|staging| staging.draining);
        let draining = draining.map_or(0, |staging| staging.dirty_bytes);
        let at_restart = volatile && !has_memory;
        answer(PolicyAnswer { policy: name, draining_bytes: draining, at_restart })
    }

    async fn report(&self) -> Result<Value, Refusal> {
        let flash = self.host.flash().await.map_err(|error| self.refusal(error))?;
        let scheme = self.host.scheme().await.map_err(|error| self.refusal(error))?;
        let opened = |device| self.host.opened(device);
        let reading = |device| self.host.drive_health().of(device);
        let mut reports = Vec::with_capacity(self.arrays.len());
        for (index, array) in self.arrays.iter().enumerate() {
            let metrics = array.host.metrics().await.map_err(|error| self.refusal(error))?;
            let (status, io) = (metrics.status, metrics.members);
            let way_back = |member| self.way_back(index, member);
            let name = scheme.to_string();
            let (facts, policy) = (&array.facts, (&*flash, &*name));
            let mut report = array_report(facts, &status, policy, opened, reading, way_back);
            add_io(&mut report, &io);
            add_site(&mut report, &status, &array.host);
            reports.push(report);
        }
        let mut report = if self.facts.groups > 0 {
            let log = self.host.log().await.map_err(|error| self.refusal(error))?;
            volume_report(&self.facts, log.as_ref(), reports)
        } else {
            reports.swap_remove(0)
        };
        let requests = self.host.requests().await.map_err(|error| self.refusal(error))?;
        report.io = Some(io_report(&requests));
        report.volatile = self.volatile().await?;
        report.lease = lease_report(&self.host);
        report.problems.extend(self.problems_of_memory(report.volatile.as_ref()));
        report.fronts = self.fronts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        report.events = events.iter().cloned().collect();
        answer(report)
    }

    async fn page(&self) -> Result<Value, Refusal> {
        let page = match &self.metrics {
            Some(metrics) => metrics.page().await,
            None => None,
        };
        let page = page.ok_or_else(|| Refusal::new("stopping", "there are no metrics"))?;
        answer(Page { page: (*page).to_owned() })
    }

    async fn why(&self) -> Result<Value, Refusal> {
        let report = self.host.why().await.map_err(|error| self.refusal(error))?;
        answer(report)
    }

    async fn flash_log(
        &self,
        array: &Array,
        member: MemberId,
        since: Instant,
    ) -> Result<Value, Refusal> {
        let status = self.status(array).await?;
        let device = status.members.iter().find(|m| m.member == member).and_then(|m| m.device);
        let log = match device {
            Some(device) => self.host.flash_log(device, since).await,
            None => Ok(None),
        };
        let message = format!("{} is not modelled as an SSD", array.facts.place(member.0));
        let log = log.map_err(|error| self.refusal(error))?;
        let log = log.ok_or_else(|| Refusal::new("no-flash", message))?;
        answer(log)
    }

    pub(super) async fn status(&self, array: &Array) -> Result<Status, Refusal> {
        array.host.status().await.map_err(|error| self.refusal(error))
    }

    pub(super) async fn command(&self, array: &Array, command: Command) -> Result<Value, Refusal> {
        let done = array.host.command(command).await;
        done.map_err(|error| self.refusal(error))?;
        answer(Done {})
    }

    /// Passes a command to all groups; some of them may have nothing to do.
    pub(super) async fn command_all(&self, command: Command) -> Result<Value, Refusal> {
        let mut refused = None;
        let mut done = 0;
        for array in &self.arrays {
            match array.host.command(command).await {
                Ok(()) => done += 1,
                Err(HostError::Refused(error @ CommandError::NothingToDo)) => {
                    refused = refused.or(Some(error));
                }
                Err(error) => return Err(self.refusal(error)),
            }
        }
        match refused {
            Some(error) if done == 0 => Err(self.refusal(error.into())),
            Some(_) | None => answer(Done {}),
        }
    }

    pub(super) fn refusal(&self, error: HostError) -> Refusal {
        let name = &self.facts.name;
        let code = match &error {
            HostError::Refused(error) => match error {
                CommandError::NoRedundancy => "no-redundancy",
                CommandError::NoSuchMember => "no-such-member",
                CommandError::NoSuchDevice => "no-such-device",
                CommandError::PlaceTaken => "place-taken",
                CommandError::TooSmall { .. } => "too-small",
                CommandError::TooManySpares => "too-many-spares",
                CommandError::NotRedundant => "not-redundant",
                CommandError::NothingToDo => "nothing-to-do",
                CommandError::Busy => "busy",
                CommandError::AlreadyCopying => "copying",
                CommandError::SpareInUse => "spare-in-use",
                CommandError::Stopping => "stopping",
                CommandError::NotRecorded => "not-recorded",
                CommandError::NotHome => "not-home",
                CommandError::UnderWay => "under-way",
                CommandError::Starting => "starting",
                CommandError::NothingToCompare => "nothing-to-compare",
            },
            HostError::Device(_) => "device",
            HostError::NoReturn(_) => "no-return",
            HostError::Lingers => "in-use",
            HostError::Lease(_) => "lease-lost",
            HostError::Ended => "stopping",
            HostError::Died => "died",
        };
        let refusal = Refusal::new(code, error.to_string());
        let see = |what: &str| format!("{what}: `evenkeel status {name}`");
        let hint = match code {
            "no-redundancy" if self.facts.redundancy == 0 => format!(
                "this level has none: `evenkeel disk replace {name} NUMBER PATH` copies a member that \
                 serves to another device"
            ),
            "no-redundancy" => see("wait until the array is whole again"),
            "copying" => format!(
                "follow it (`evenkeel rebuild status {name} --wait`), or call it off: `evenkeel disk \
                 remove {name} PATH` with the new device"
            ),
            "spare-in-use" => format!(
                "wait until the data is copied back (`evenkeel rebuild status {name} --wait`)"
            ),
            "busy" => format!("follow it: `evenkeel rebuild status {name} --wait`"),
            "nothing-to-compare" => see("see what is missing, and what to do"),
            "nothing-to-do" => {
                format!("see what is under way, if anything: `evenkeel rebuild status {name}`")
            }
            "no-such-member" | "no-such-device" | "place-taken" => {
                see("see which members and spares it has, and how they are")
            }
            "too-many-spares" => {
                format!("remove one that is not needed: `evenkeel disk remove {name} PATH`")
            }
            "too-small" => "give it a larger device".to_owned(),
            "not-recorded" => "see the log for what is wrong with the members".to_owned(),
            _ => return refusal,
        };
        refusal.hint(hint)
    }
}

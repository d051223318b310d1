//! One array, from its members to its users and back to a clean stop.
//!
//! Invariants:
//! - The array is reported as ready only after its start is recorded on the members, the journal is
//!   replayed, and every front end serves.
//! - At the end the front ends stop first, then the array, then the control socket. So no front end
//!   outlives the array without noticing, and the client that asked for the stop gets the result.

mod check;
mod first;
mod fronts;
mod leased;
mod missing;
mod notify;
mod patience;
mod policy;
mod story;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raidcore::engine::RequestError;
use raidcore::meta::{ArrayRecord, AssembleOptions};
use raidlog::RecoveryError;
use steering::scheme::Scheme;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

pub use check::check;
pub use fronts::{FrontConfig, FrontError};
pub use missing::Missing;

use crate::attach::{AttachError, Attached, identity};
use crate::becomes::{self, BecomeError, Becomes};
use crate::control::{self, BindError, Front, Launch, Server, Service, Stopper};
use crate::host::{Begin, Host, HostConfig, HostError, HostHandle};
use crate::lease::{Agent, LeaseError, LeaseLost, LeaseOptions};
use crate::metrics::{MetricsServer, Pages};
use crate::policy::PolicyError;
use crate::topology::CpusMissing;
use crate::volume::Volume;
use fronts::{Fronts, Keeps, Owner};
use policy::Choice;
use story::Story;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// The members; if `name` is given, also directories that hold them.
    pub members: Vec<PathBuf>,
    /// Find the members of the array of this name among `members`.
    pub name: Option<String>,
    /// Its identity, if several arrays may have the name.
    pub uuid: Option<String>,
    /// How long to wait for members that are not there yet.
    pub wait: Duration,
    /// Risks that the operator accepts when that time is over.
    pub options: AssembleOptions,
    /// How the array works, but for its scheme.
    pub host: HostConfig,
    /// The policy against garbage collection from now on; that on record if not given.
    pub policy: Option<Scheme>,
    /// What the array is to become, if it is to be another.
    pub becomes: Option<Becomes>,
    /// What the operator says of its lease.
    pub lease: LeaseOptions,
    /// Is told what a start waits for, each time that is something else.
    pub waits: fn(&str),
    /// How it is served.
    pub fronts: FrontConfig,
    /// The HTTP address for metrics. Everyone who can reach it can read them.
    pub metrics: Option<SocketAddr>,
    /// Where its sockets are.
    pub run_dir: PathBuf,
    /// Where its history is.
    pub state_dir: PathBuf,
    /// How the array can be restarted; not at all if not given.
    pub launch: Option<Launch>,
}

/// Why an array does not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// There is no array in the members.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The array can't follow the policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It can't become another array.
    #[error(transparent)]
    Become(#[from] BecomeError),
    /// It can't run on the CPUs that it is to run on.
    #[error(transparent)]
    Cpus(#[from] CpusMissing),
    /// Its lease can't be had.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Its lease was lost while it served.
    #[error("the array \"{name}\" runs here no more: {why}")]
    LeaseLost {
        /// The array's name.
        name: String,
        /// Why.
        why: LeaseLost,
    },
    /// There is no control socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A front end can't serve.
    #[error(transparent)]
    Front(#[from] FrontError),
    /// Metrics can't be served.
    #[error("{address}: metrics can't be served there: {source}; choose another by --metrics")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The kernel refuses what the data path needs.
    #[error("what the array needs can't be set up: {0}")]
    Host(#[source] io::Error),
    /// The groups of a log volume hold none.
    #[error("the log volume can't be started: {0}")]
    Lost(RecoveryError),
    /// The start can't be recorded on the members.
    #[error("the array can't be started, see the log for what is wrong with its members: {0}")]
    NotServing(#[from] RequestError),
    /// The policy can't be recorded.
    #[error("the policy can't be put on record: {0}")]
    PolicyNotRecorded(HostError),
    /// Signals can't be received.
    #[error("signals can't be received: {0}")]
    Signals(#[source] io::Error),
    /// The array did not end well.
    #[error("the array was not stopped cleanly: {0}")]
    Stop(HostError),
}

/// An array that serves.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Ready {
    /// Its name.
    pub name: String,
    /// The process that runs it.
    pub pid: u32,
    /// The policy against garbage collection.
    #[serde(default)]
    pub policy: String,
    /// How it can be reached.
    pub fronts: Vec<Front>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// Members that it was started without.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What was replayed after an unclean stop before users were served.
    #[serde(default)]
    pub recovered: Vec<String>,
}

/// Runs an array until it is told to stop, by a signal or through its control socket. `ready` is
/// called when it serves.
///
/// # Errors
/// If it can't be started, or did not stop cleanly.
pub async fn run(config: DaemonConfig, ready: impl FnOnce(&Ready)) -> Result<(), DaemonError> {
    config.host.cpus.map_or(Ok(()), |cpus| cpus.check())?;
    let mut signals = Signals::new().map_err(DaemonError::Signals)?;
    let (mut attached, mut lease) = tokio::select! {
        attached = leased::attach(&config) => attached?,
        signal = signals.next() => {
            tracing::info!("{signal} while waiting for members");
            return Ok(());
        }
    };
    let policy = Choice::new(config.policy, &attached, config.host.passthrough)?;
    let keeps = keeps(&attached, policy.scheme);
    fronts::permit(&config.fronts, keeps)?;
    let owner = owner(&attached);
    if let Some(becomes) = &config.becomes {
        becomes::begin(&mut attached.groups[0], becomes)?;
    }
    begin_volatile(&mut attached, keeps, &config.fronts);
    leased::begin(&mut attached, &config)?;
    let assembled = attached.groups.iter().map(|group| &group.assembled);
    let records: Vec<ArrayRecord> = assembled.clone().map(|array| array.record.clone()).collect();
    let name = attached.record().name.clone();
    let warnings = assembled.clone().flat_map(|array| &array.warnings).map(ToString::to_string);
    let left_out = attached.left_out.iter().map(ToString::to_string);
    let warnings = warnings.chain(left_out).chain(policy.warning.clone()).collect::<Vec<_>>();
    warnings.iter().for_each(|warning| tracing::warn!(array = %name, "{warning}"));
    let missing = assembled.flat_map(Missing::of).collect();
    let server = Server::bind(&config.run_dir, &name)?;
    let metrics = bind_metrics(config.metrics).await?;
    let owner = owner.without_users(config.fronts.accepts_lost_writes)?;
    let spawned = spawn(config.host, policy.scheme, attached, lease.as_mut());
    let (volume, host) = spawned.map_err(DaemonError::Host)?;
    let size = volume.size().follow();
    let started = async {
        if let Err(error) = first::flush(&volume).await {
            return Err(host.lost().map_or(error.into(), DaemonError::Lost));
        }
        policy.record(&host).await.map_err(DaemonError::PolicyNotRecorded)?;
        // That it has none any more is on record now.
        lease.iter().filter(|_| config.lease.term == Some(None)).for_each(Agent::free);
        Ok(Fronts::start(&config.fronts, &config.run_dir, &volume, &host, owner).await?)
    };
    let started: Result<Fronts, DaemonError> = tokio::select! {
        started = started => started,
        signal = signals.next() => {
            tracing::info!(array = %name, "{signal} while starting");
            return stop_host(&host).await;
        }
    };
    let fronts = match started {
        Ok(fronts) => fronts,
        Err(error) => {
            return Err(failed(error, &host, &name).await);
        }
    };
    // From here on only the front ends hold the volume.
    drop(volume);
    let (scheme, launch, run_dir) = (policy.scheme, config.launch, config.run_dir);
    let story = Story::begin(&config.state_dir, &name);
    let running = Running {
        name,
        records,
        scheme,
        warnings,
        missing,
        server,
        metrics,
        host,
        size,
        fronts,
        launch,
        run_dir,
        story,
    };
    running.serve(&mut signals, ready).await
}

async fn bind_metrics(address: Option<SocketAddr>) -> Result<Option<MetricsServer>, DaemonError> {
    let Some(address) = address else { return Ok(None) };
    let bound = MetricsServer::bind(address).await;
    bound.map(Some).map_err(|source| DaemonError::Metrics { address, source })
}

/// Stops an array whose start has failed. Returns why it has.
async fn failed(error: DaemonError, host: &HostHandle, name: &str) -> DaemonError {
    match stop_host(host).await.map_err(|error| leased::explain(error, name)) {
        Ok(()) => error,
        Err(lost @ DaemonError::LeaseLost { .. }) => lost,
        Err(stop) => {
            tracing::error!(error = %stop, "after the start had failed");
            error
        }
    }
}

/// Starts what was attached.
fn spawn(
    config: HostConfig,
    scheme: Scheme,
    mut attached: Attached,
    lease: Option<&mut Agent>,
) -> io::Result<(Volume, HostHandle)> {
    let config = HostConfig { scheme, ..config };
    if attached.is_log() {
        return Host::spawn_log(config, attached.groups, Begin::Open);
    }
    Host::spawn_leased(config, attached.groups.swap_remove(0), lease.map(Agent::leash))
}

/// What front ends have to know of an array that is started with this policy.
fn keeps(attached: &Attached, scheme: Scheme) -> Keeps {
    Keeps {
        is_log: attached.is_log(),
        is_cached: scheme.cache().is_volatile(),
        has_lost: attached.record().has_lost_writes(),
    }
}

/// Whether acknowledged writes may be in memory, and which were lost before, is on record from the start on.
fn begin_volatile(attached: &mut Attached, keeps: Keeps, fronts: &FrontConfig) {
    for group in &mut attached.groups {
        group.assembled.begin_volatile(keeps.is_cached, fronts.accepts_lost_writes);
    }
}

/// The owner of the front ends. A log volume keeps unflushed writes in memory for a while, as a write cache
/// does: users of a process that has lost them must not go on.
fn owner(attached: &Attached) -> Owner {
    let is_unclean = attached.groups.iter().any(|group| !group.assembled.was_clean);
    let in_memory = attached.is_log() || attached.record().volatile.held;
    Owner { array: identity(attached.record()), forgets: is_unclean && in_memory, taken: None }
}

/// An array whose front ends serve.
struct Running {
    name: String,
    records: Vec<ArrayRecord>,
    scheme: Scheme,
    warnings: Vec<String>,
    missing: Vec<Missing>,
    server: Server,
    metrics: Option<MetricsServer>,
    host: HostHandle,
    size: watch::Receiver<u64>,
    fronts: Fronts,
    launch: Option<Launch>,
    run_dir: PathBuf,
    story: Story,
}

impl Running {
    /// How the array can be reached.
    fn list(&self) -> Vec<Front> {
        let metrics = self.metrics.as_ref().map(|metrics| Front {
            kind: "metrics".to_owned(),
            address: metrics.uri(),
            behind: None,
        });
        self.fronts.list().into_iter().chain(metrics).collect()
    }

    /// The array has grown.
    async fn grow(&mut self, service: &Service) {
        let blocks = *self.size.borrow_and_update();
        self.fronts.grow(blocks).await;
        service.served_by(self.list());
    }

    /// Serves until told to stop, then stops.
    async fn serve(
        mut self,
        signals: &mut Signals,
        ready: impl FnOnce(&Ready),
    ) -> Result<(), DaemonError> {
        let stopper = Stopper::default();
        let host = self.host.clone();
        let pages = Arc::new(Pages::new(&self.records, host.clone()));
        if let Some(metrics) = &mut self.metrics {
            metrics.serve(pages.clone());
        }
        let fronts = self.list();
        let service = Service::new(host, &self.records, fronts.clone(), stopper.clone());
        let service = service.launched_by(self.launch.take()).remembered_in(self.run_dir.clone());
        let service = Arc::new(service.with_history(self.story.keeper()).with_metrics(pages));
        service.remember().await;
        let events = Arc::clone(&service);
        let events = tokio::spawn(async move { events.follow_events().await });
        service.await_members().await;
        let returns = tokio::spawn(Arc::clone(&service).take_back());
        let drives = tokio::spawn(Arc::clone(&service).follow_drives());
        let asked = Arc::clone(&service);
        self.server.serve(service);
        let (name, warnings) = (self.name.clone(), std::mem::take(&mut self.warnings));
        let policy = self.scheme.to_string();
        let missing = std::mem::take(&mut self.missing);
        let notes = self.host.notes();
        let recovered = notes.past().filter_map(|event| control::recovered(&event.what)).collect();
        let pid = std::process::id();
        ready(&Ready { name, pid, policy, fronts, warnings, missing, recovered });
        notify::tell("READY=1");
        tracing::info!(array = %self.name, "serving");
        self.story.serves(pid);

        let ended = loop {
            tokio::select! {
                signal = signals.next() => {
                    // A service manager, or a machine that goes down, does not wait. Written data
                    // is kept, and the users are logged.
                    self.fronts.release_by_force().await;
                    break Err(signal);
                }
                manner = stopper.asked() => match self.fronts.release(manner).await {
                    Err(users) => stopper.refuse(users),
                    Ok(()) => {
                        self.story.stops_by(asked.stop_command());
                        break Err("the control socket");
                    }
                },
                Ok(()) = self.size.changed() => self.grow(&asked).await,
                ended = self.host.join() => break Ok(ended.map_err(DaemonError::Stop)),
            }
        };
        notify::tell("STOPPING=1");
        returns.abort();
        drives.abort();
        let who = ended.as_ref().err().copied();
        match who {
            Some(who) => tracing::info!(array = %self.name, "stopping, as told by {who}"),
            None => tracing::error!(array = %self.name, "the array has ended by itself"),
        }
        self.fronts.stop().await;
        let how = match ended {
            Ok(how) => how,
            Err(_) => stop_host(&self.host).await,
        };
        let how = how.map_err(|error| leased::explain(error, &self.name));
        self.server.withdraw();
        if let Err(error) = events.await {
            tracing::error!(%error, "the task that follows events failed");
        }
        // Who has asked for the stop finds it there.
        self.story.ended(&how, who).await;
        stopper.stopped(how.as_ref().map(drop).map_err(ToString::to_string));
        self.server.close().await;
        if how.is_ok() {
            tracing::info!(array = %self.name, "stopped cleanly");
        }
        how
    }
}

async fn stop_host(host: &HostHandle) -> Result<(), DaemonError> {
    host.stop().await.map_err(DaemonError::Stop)
}

/// The signals that mean "stop".
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one's name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

//! Handles of the data thread: orders go through a mailbox, answers through one-shot channels.
//!
//! Invariant: an order is in the mailbox, with the data thread, or answered. The mailbox is closed
//! under its lock, after the end is recorded, so no order is left in it.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use det::Instant;
use evenkeel_client::{FlashLog, FlashReport, WhyReport};
use raidcore::engine::{Command, CommandError, Status};
use raidcore::meta::{DeviceLabel, DeviceUuid, NoReturn, Returning, Superblock};
use raidcore::units::DeviceId;
use raidlog::{GroupId, RecoveryError};
use steering::scheme::Scheme;
use tokio::sync::oneshot;

use super::Opened;
use super::cache::CacheState;
use super::log::LogStatus;
use super::metrics::Metrics;
use super::notes::{Log, Notes};
use super::requests::RequestStats;
use crate::health::Readings;
use crate::label::label;
use crate::lease::{LeaseLost, Leash};
use crate::members::Device;
use crate::resident::Resident;
use crate::volume::{Bell, Volume, block_on};

/// Why an array did not carry out an order.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The engine refuses it.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The device could not be taken in.
    #[error("the device can't be used: {0}")]
    Device(#[source] io::Error),
    /// The device can't come back as the member that it was.
    #[error("it can't come back as the member that it was: {0}")]
    NoReturn(NoReturn),
    /// I/O on a member's former device has not ended in the kernel.
    #[error("the kernel has not ended all that it was asked before it left, and may still do it")]
    Lingers,
    /// It is stopped.
    #[error("the array is stopped")]
    Ended,
    /// Its lease is over.
    #[error("the array runs here no more: {0}")]
    Lease(LeaseLost),
    /// Its data thread has failed. Acknowledged writes are on the members; the array was not
    /// stopped cleanly.
    #[error("the array's data thread has failed; attach the array again, and see the log for why")]
    Died,
}

/// An answer to come: a future, which can also be waited for.
#[must_use = "the order is given, but whether it was carried out is in the answer"]
#[derive(Debug)]
pub struct Answer<T> {
    receiver: oneshot::Receiver<Result<T, HostError>>,
}

impl<T> Answer<T> {
    /// The answer; the thread sleeps until it is there.
    ///
    /// # Errors
    /// As the order's.
    pub fn wait(self) -> Result<T, HostError> {
        block_on(self)
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, HostError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let receiver = Pin::new(&mut self.receiver);
        // Only a panic of the data thread loses an order.
        receiver.poll(context).map(|answer| answer.unwrap_or(Err(HostError::Died)))
    }
}

/// A handle of a running array, or of a log volume and one of its groups, by default the first.
/// Clones are handles of the same array. When the last one is dropped, the array stops.
#[derive(Clone)]
pub struct HostHandle {
    pub(super) client: Arc<Client>,
    pub(super) group: GroupId,
}

impl HostHandle {
    /// The same for another group of a log volume. Stopping, events, and queries by a device's
    /// number still apply to the whole volume.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn of(&self, group: GroupId) -> Self {
        assert!(group.index() < self.client.groups, "{group:?} of {}", self.client.groups);
        Self { client: Arc::clone(&self.client), group }
    }

    /// The groups of a log volume; one for an array.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.client.groups).map(GroupId::at)
    }

    /// The state of the log volume; nothing if it is none, or is not found yet.
    pub fn log(&self) -> Answer<Option<LogStatus>> {
        self.order(Order::Log)
    }

    /// The state of the write cache in memory; nothing if there is none.
    pub fn cache(&self) -> Answer<Option<CacheState>> {
        self.order(Order::Cache)
    }

    /// Why there is no log volume in its groups, if that was found.
    #[must_use]
    pub fn lost(&self) -> Option<RecoveryError> {
        self.client.shared.lost.get().copied()
    }

    /// Gives a command to the engine; answered when it is carried out and, if it changes the
    /// array's record, durable. [`Command::Stop`] is the same as [`HostHandle::stop`].
    pub fn command(&self, command: Command) -> Answer<()> {
        if command == Command::Stop {
            return self.stop();
        }
        self.order(|answer| Order::Command(self.group, command, answer))
    }

    /// The engine's state.
    pub fn status(&self) -> Answer<Status> {
        self.order(|answer| Order::Status(self.group, answer))
    }

    /// The state of those devices that are modelled SSDs.
    pub fn flash(&self) -> Answer<Vec<(DeviceId, FlashReport)>> {
        self.order(Order::Flash)
    }

    /// What a modelled SSD did since `since`, a time of the system's monotonic clock; nothing if
    /// the device is none.
    pub fn flash_log(&self, device: DeviceId, since: Instant) -> Answer<Option<FlashLog>> {
        self.order(|answer| Order::FlashLog { device, since, answer })
    }

    /// Changes the scheme against garbage collection, in all groups. Requests continue meanwhile.
    pub fn set_scheme(&self, scheme: Scheme) -> Answer<()> {
        self.order(|answer| Order::SetScheme(scheme, answer))
    }

    /// The scheme.
    pub fn scheme(&self) -> Answer<Scheme> {
        self.order(Order::Scheme)
    }

    /// What is known of the members, and why; for a log volume, of all groups.
    pub fn why(&self) -> Answer<WhyReport> {
        self.order(Order::Why)
    }

    /// The data for metrics.
    pub fn metrics(&self) -> Answer<Metrics> {
        self.order(|answer| Order::Metrics(self.group, answer))
    }

    /// What users have asked for; of a log volume, of the volume.
    pub fn requests(&self) -> Answer<Box<RequestStats>> {
        self.order(Order::Requests)
    }

    /// Adds an opened device to the array as a spare, under a new identity; if a member is missing,
    /// a rebuild onto it starts. Answered with the device's number when the spare is recorded. A
    /// device that is refused is closed.
    pub fn add_device(&self, device: Device, uuid: DeviceUuid) -> Answer<DeviceId> {
        self.give(device, uuid, None)
    }

    /// Returns an opened device to the array as the member that it was, under a new identity. The
    /// caller has zeroed what [`Areas::stale_on_return`](raidcore::meta::Areas::stale_on_return)
    /// says. It is filled with what it has missed. Answered with its number when that is recorded.
    pub fn return_device(
        &self,
        device: Device,
        uuid: DeviceUuid,
        returning: Returning,
    ) -> Answer<DeviceId> {
        self.give(device, uuid, Some(returning))
    }

    fn give(
        &self,
        device: Device,
        uuid: DeviceUuid,
        returning: Option<Returning>,
    ) -> Answer<DeviceId> {
        // Here and not on the data thread, since looking it up takes a while.
        let label = label(device.path());
        let coming = Box::new(Coming { device, uuid, label, returning });
        self.order(|answer| Order::Add { group: self.group, coming, answer })
    }

    /// Whether a device of this many blocks, with this superblock, may come back as the member that
    /// it was, and all I/O on it from before has ended.
    pub fn may_return(&self, superblock: Superblock, blocks: u64) -> Answer<Returning> {
        let superblock = Box::new(superblock);
        self.order(|answer| Order::MayReturn { group: self.group, superblock, blocks, answer })
    }

    /// Whether this is the array behind the volume.
    pub(crate) fn serves(&self, volume: &Volume) -> bool {
        volume.is_woken_by(&self.client.shared.bell)
    }

    /// Adds a front end to the array's thread. Answered when the kernel has its first commands.
    pub(crate) fn admit(&self, resident: Box<dyn Resident>) -> Answer<()> {
        self.order(|answer| Order::Admit(resident, answer))
    }

    /// Reports that a device is gone. Nothing happens if the array doesn't use it.
    pub fn report_gone(&self, device: DeviceId) {
        self.client.shared.post(Order::Gone(device));
    }

    /// The path of a device, even if the array no longer uses it.
    #[must_use]
    pub fn device_path(&self, device: DeviceId) -> Option<PathBuf> {
        self.opened(device).map(|opened| opened.path)
    }

    /// Facts about a device, even if the array no longer uses it.
    pub(crate) fn opened(&self, device: DeviceId) -> Option<Opened> {
        lock(&self.client.shared.opened).get(&device).cloned()
    }

    /// What the drives of the array's devices have told of themselves. The data thread asks none.
    pub(crate) fn drive_health(&self) -> &Readings {
        self.client.shared.readings()
    }

    /// How long an I/O of a device may take.
    pub(crate) fn io_timeout(&self) -> Duration {
        self.client.io_timeout
    }

    /// How many threads the array has: one decides, the others talk to the kernel for it.
    pub(crate) fn threads(&self) -> u16 {
        self.client.threads
    }

    /// Lets I/O on a new device go past the block layer, if the array's does and it can.
    pub(crate) fn pass_block_layer(&self, device: &mut Device) {
        if self.client.passthrough {
            device.pass_block_layer();
        }
    }

    /// The array's lease, if it had one at the start.
    pub(crate) fn lease(&self) -> Option<&Leash> {
        self.client.lease.as_ref()
    }

    /// Whether the next process of this host is to go on with the array's lease after a stop.
    pub(crate) fn keep_lease(&self, kept: bool) {
        if let Some(lease) = self.lease() {
            lease.keep(kept);
        }
    }

    /// The array's events.
    #[must_use]
    pub fn notes(&self) -> Notes {
        lock(&self.client.shared.log).subscribe()
    }

    /// Finishes what was begun, flushes, records a clean stop, closes all devices. Later requests
    /// are refused. Every caller is answered when all of that is done.
    pub fn stop(&self) -> Answer<()> {
        self.order(|answer| Order::Stop(Some(answer)))
    }

    /// Answered like [`HostHandle::stop`] when the array has ended, for whatever reason.
    pub fn join(&self) -> Answer<()> {
        self.order(Order::Join)
    }

    fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, HostError>>) -> Order,
    ) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        self.client.shared.post(order(sender));
        Answer { receiver }
    }
}

/// All handles of an array.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    /// How many groups there are.
    pub(super) groups: usize,
    /// How long an I/O of a device may take.
    pub(super) io_timeout: Duration,
    /// Threads of the array.
    pub(super) threads: u16,
    /// Whether I/O goes past the block layer where it can.
    pub(super) passthrough: bool,
    /// The array's lease, if it had one at the start.
    pub(super) lease: Option<Leash>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.post(Order::Stop(None));
    }
}

/// Where an answer goes. A missing receiver is no error.
pub(super) type Reply<T> = oneshot::Sender<Result<T, HostError>>;

/// An order to the data thread.
pub(super) enum Order {
    Command(GroupId, Command, Reply<()>),
    Status(GroupId, Reply<Status>),
    Log(Reply<Option<LogStatus>>),
    Cache(Reply<Option<CacheState>>),
    Flash(Reply<Vec<(DeviceId, FlashReport)>>),
    FlashLog { device: DeviceId, since: Instant, answer: Reply<Option<FlashLog>> },
    SetScheme(Scheme, Reply<()>),
    Scheme(Reply<Scheme>),
    Why(Reply<WhyReport>),
    Metrics(GroupId, Reply<Metrics>),
    Requests(Reply<Box<RequestStats>>),
    Add { group: GroupId, coming: Box<Coming>, answer: Reply<DeviceId> },
    MayReturn { group: GroupId, superblock: Box<Superblock>, blocks: u64, answer: Reply<Returning> },
    Gone(DeviceId),
    Admit(Box<dyn Resident>, Reply<()>),
    Stop(Option<Reply<()>>),
    Join(Reply<()>),
}

/// A device to be added.
pub(super) struct Coming {
    pub(super) device: Device,
    pub(super) uuid: DeviceUuid,
    pub(super) label: DeviceLabel,
    /// As the member that it was; otherwise as a spare.
    pub(super) returning: Option<Returning>,
}

/// How the data thread has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// It was stopped; the result of recording that.
    Stopped(Result<(), CommandError>),
    /// By a panic, or because the kernel refused its ring.
    Died,
    /// Because its lease was over.
    Lease(LeaseLost),
}

impl End {
    pub(super) fn answer(self) -> Result<(), HostError> {
        match self {
            Self::Stopped(result) => Ok(result?),
            Self::Died => Err(HostError::Died),
            Self::Lease(why) => Err(HostError::Lease(why)),
        }
    }
}

/// State shared by the data thread and the handles.
pub(super) struct Shared {
    /// None when the data thread takes no more orders.
    mailbox: Mutex<Option<Vec<Order>>>,
    bell: Arc<Bell>,
    /// Facts about all devices that were ever opened.
    opened: Mutex<BTreeMap<DeviceId, Opened>>,
    /// What the devices' drives tell of themselves.
    health: Readings,
    pub(super) log: Mutex<Log>,
    end: OnceLock<End>,
    lost: OnceLock<RecoveryError>,
}

impl Shared {
    pub(super) fn new(bell: Arc<Bell>, opened: impl Iterator<Item = (DeviceId, Opened)>) -> Self {
        Self {
            mailbox: Mutex::new(Some(Vec::new())),
            bell,
            opened: Mutex::new(opened.collect()),
            health: Readings::default(),
            log: Mutex::new(Log::new()),
            end: OnceLock::new(),
            lost: OnceLock::new(),
        }
    }

    /// What the devices' drives tell of themselves.
    pub(super) fn readings(&self) -> &Readings {
        &self.health
    }

    fn post(&self, order: Order) {
        let mut mailbox = lock(&self.mailbox);
        match &mut *mailbox {
            Some(orders) => orders.push(order),
            None => self.refuse(order),
        }
        drop(mailbox);
        self.bell.ring();
    }

    pub(super) fn has_orders(&self) -> bool {
        lock(&self.mailbox).as_ref().is_some_and(|m| !m.is_empty())
    }

    /// Moves what is in the mailbox to `into`.
    pub(super) fn take_orders(&self, into: &mut Vec<Order>) {
        if let Some(orders) = &mut *lock(&self.mailbox) {
            into.append(orders);
        }
    }

    /// There is no log volume.
    pub(super) fn lose(&self, error: RecoveryError) {
        // Only this sets it, and it is found once.
        let _ = self.lost.set(error);
    }

    pub(super) fn name_device(&self, id: DeviceId, device: Opened) {
        lock(&self.opened).insert(id, device);
    }

    /// The data thread has ended.
    pub(super) fn close(&self, end: End) {
        // Only this sets it.
        let _ = self.end.set(end);
        lock(&self.log).end();
        for order in lock(&self.mailbox).take().into_iter().flatten() {
            self.refuse(order);
        }
    }

    fn refuse(&self, order: Order) {
        let end = self.end.get().copied().unwrap_or(End::Died);
        let why = || match end {
            End::Stopped(_) => HostError::Ended,
            End::Died => HostError::Died,
            End::Lease(why) => HostError::Lease(why),
        };
        match order {
            Order::Command(_, _, answer) | Order::Admit(_, answer) => reply(answer, Err(why())),
            Order::Status(_, answer) => reply(answer, Err(why())),
            Order::Log(answer) => reply(answer, Err(why())),
            Order::Cache(answer) => reply(answer, Err(why())),
            Order::Flash(answer) => reply(answer, Err(why())),
            Order::FlashLog { answer, .. } => reply(answer, Err(why())),
            Order::SetScheme(_, answer) => reply(answer, Err(why())),
            Order::Scheme(answer) => reply(answer, Err(why())),
            Order::Why(answer) => reply(answer, Err(why())),
            Order::Metrics(_, answer) => reply(answer, Err(why())),
            Order::Requests(answer) => reply(answer, Err(why())),
            Order::Add { answer, .. } => reply(answer, Err(why())),
            Order::MayReturn { answer, .. } => reply(answer, Err(why())),
            Order::Stop(Some(answer)) | Order::Join(answer) => reply(answer, end.answer()),
            Order::Gone(_) | Order::Stop(None) => {}
        }
    }
}

/// Sends an answer. The receiver may be gone.
pub(super) fn reply<T>(to: Reply<T>, answer: Result<T, HostError>) {
    let _ = to.send(answer);
}

/// The data behind these locks is consistent even after a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A volume as a disk of a virtual machine, by vhost-user-blk: the VMM (QEMU, Cloud Hypervisor)
//! shares the guest's memory, and requests go from its virtqueues to the volume, without a kernel's
//! block layer or the VMM in between.
//!
//! Invariants:
//! - Everything in a VM's memory, and everything that its VMM says, may be hostile: it can break its
//!   own connection, and nothing else.
//! - One VM uses the disk at a time. Connections that use nothing are a few, and give way to new
//!   ones.
//! - A VMM that keeps what is under way (the region in flight) can go on with the next process: what
//!   has not ended by then is begun again. What was acknowledged must not be lost with a process, as
//!   such a VM takes it for written: log volumes are not served.
//!
//! - A VM whose VMM has a channel for it is told when the disk has grown, also if that was between two
//!   of its connections.
//!
//! Who is told what: `docs/interop/vhost-user.rst` of QEMU is the protocol, the virtio specification
//! has the device.

mod claim;
mod config;
mod control;
mod device;
mod direct;
mod event;
mod events;
mod fault;
mod inflight;
mod jobs;
mod memory;
mod notice;
mod protocol;
mod request;
mod ring;
mod session;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::front::socket::{SocketFile, bind_unix, peer};
use crate::front::{Admit, LogicalBlock, SocketError};
use crate::guests::{Guest, Guests, Seldom};
use crate::host::HostHandle;
use crate::null::Null;
use crate::volume::Volume;
use claim::Disk;
use control::Control;
use device::{Device, Log};
use session::{Ended, Place, Session};

/// What it is called among front ends.
pub(crate) const KIND: &str = "vhost-user";

/// How a volume is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VhostConfig {
    /// The socket, for this user only.
    pub path: PathBuf,
    /// The logical block size that guests are told.
    pub logical_block: LogicalBlock,
    /// Connections at a time. Beyond that, the one that has used nothing for longest is closed, or
    /// the new one. 8 by default; zero counts as one.
    pub connections: u16,
    /// How long a message may take, and how long requests under way are waited for at the end; 30 s
    /// by default.
    pub patience: Duration,
    /// What serves queues; [`VhostThread::ByMemory`] by default.
    pub thread: VhostThread,
}

/// Which thread serves the queues of a VM. One that has other work to do, too, must not wait for a page
/// of the VM's memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum VhostThread {
    /// The volume's, if the VM's memory is no file's or device's, and the machine has no swap area; else one
    /// of its own.
    #[default]
    ByMemory,
    /// One of its own.
    Own,
    /// The volume's: the VM's memory is known to stay where it is.
    Volume,
}

impl VhostConfig {
    /// Serves at `path`, whole blocks, with the default limits.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        let (logical_block, patience) = (LogicalBlock::default(), Duration::from_secs(30));
        let thread = VhostThread::default();
        Self { path, logical_block, connections: 8, patience, thread }
    }
}

/// A volume that is served to virtual machines. Dropping it stops it, without waiting for the end.
#[derive(Debug)]
pub struct VhostServer {
    path: PathBuf,
    disk: Disk,
    stop: watch::Sender<bool>,
    accepting: Option<JoinHandle<()>>,
}

impl VhostServer {
    /// Serves `volume` on the current tokio runtime, which must have I/O and time enabled. Each VM has a
    /// thread of its own.
    ///
    /// # Errors
    /// If the socket can't be had.
    pub async fn start(volume: Volume, config: VhostConfig) -> Result<Self, SocketError> {
        Self::start_with(volume, None, config).await
    }

    /// Serves the array that `host` runs. Queues are served on its thread where they may be
    /// ([`VhostThread`]).
    ///
    /// # Errors
    /// If the socket can't be had.
    ///
    /// # Panics
    /// If `host` is not the array behind `volume`.
    pub async fn start_at(
        volume: Volume,
        host: &HostHandle,
        config: VhostConfig,
    ) -> Result<Self, SocketError> {
        assert!(host.serves(&volume), "a volume of another array");
        let host = host.clone();
        let admit = move |device| drop(host.admit(device));
        Self::start_with(volume, Some(Arc::new(admit)), config).await
    }

    /// The same for a volume that answers at once.
    ///
    /// # Errors
    /// If the socket can't be had.
    pub async fn start_null(null: Null, config: VhostConfig) -> Result<Self, SocketError> {
        let volume = null.volume().clone();
        let admit = move |device| drop(null.admit(device));
        Self::start_with(volume, Some(Arc::new(admit)), config).await
    }

    async fn start_with(
        volume: Volume,
        admit: Option<Admit>,
        config: VhostConfig,
    ) -> Result<Self, SocketError> {
        let (listener, file) = bind_unix(&config.path).await?;
        let path = std::path::absolute(file.path()).unwrap_or_else(|_| file.path().to_owned());
        let (stop, stopping) = watch::channel(false);
        let disk = Disk::default();
        let log = Arc::default();
        let threads = Arc::new(Semaphore::new(config.connections.max(1).into()));
        let service = Service { volume, admit, config, disk: disk.clone(), stopping, threads, log };
        let accepting = tokio::spawn(accept(listener, file, service));
        Ok(Self { path, disk, stop, accepting: Some(accepting) })
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process whose VM uses the disk.
    #[must_use]
    pub fn user(&self) -> Option<String> {
        self.disk.user()
    }

    /// Gives the disk to no VM any more, if none uses it; or, with `may_wait`, if its VMM keeps what
    /// is under way for the next process.
    ///
    /// # Errors
    /// The process whose VM uses it; then nothing has changed.
    pub fn shut(&self, may_wait: bool) -> Result<(), String> {
        self.disk.shut(may_wait)
    }

    /// Undoes [`VhostServer::shut`].
    pub fn reopen(&self) {
        self.disk.reopen();
    }

    /// Stops: takes up no new requests, answers those that the volume has, then closes all
    /// connections.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(accepting) = self.accepting.take()
            && let Err(error) = accepting.await
        {
            tracing::error!(%error, "the vhost-user server has ended early");
        }
    }
}

impl Drop for VhostServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// What every connection has.
#[derive(Clone)]
struct Service {
    volume: Volume,
    /// How the volume's thread takes a device on.
    admit: Option<Admit>,
    config: VhostConfig,
    disk: Disk,
    stopping: watch::Receiver<bool>,
    /// As many as connections.
    threads: Arc<Semaphore>,
    /// Clients' errors are logged at intervals.
    log: Arc<Mutex<Seldom>>,
}

impl Service {
    async fn stops(&self) {
        // An error would mean that the server object is gone, which sets the flag before.
        self.stopping.clone().wait_for(|stop| *stop).await.ok();
    }

    fn tell(&self, peer: &str, ended: &Ended) {
        if matches!(ended, Ended::Closed | Ended::Stopped) {
            tracing::debug!(peer, "{ended}");
            return;
        }
        let said = self.log.lock().unwrap_or_else(PoisonError::into_inner).say();
        if let Some(count) = said {
            tracing::warn!(peer, count, "a connection of a VM was cut: {ended}");
        }
    }

    /// Serves a connection on this thread until its end.
    fn serve(&self, stream: io::Result<std::os::unix::net::UnixStream>, guest: &Guest, at: &At) {
        let (peer, control) = (at.peer.clone(), Arc::clone(&at.control));
        let log = Log { peer: peer.clone(), seldom: Arc::clone(&self.log) };
        let VhostConfig { logical_block, thread, patience, .. } = self.config;
        let device = Device::new(self.volume.clone(), logical_block, Arc::clone(&control), log);
        let place = Place { admit: self.admit.clone(), thread };
        let session = stream
            .and_then(|stream| Session::new(stream, peer, (control, device), place, patience));
        let ended = match session {
            Ok(session) => session.run(&self.disk, guest),
            Err(error) => error.into(),
        };
        self.tell(&at.peer, &ended);
    }
}

/// A connection, as its thread knows it.
struct At {
    peer: String,
    control: Arc<Control>,
}

async fn accept(listener: UnixListener, file: SocketFile, service: Service) {
    let most = usize::from(service.config.connections.max(1));
    let mut connections = Guests::new("vhost-user", most);
    let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
    loop {
        let stream = tokio::select! {
            biased;
            () = service.stops() => break,
            stream = connections.newcomer(accept) => stream,
        };
        let service = service.clone();
        connections.admit(|guest| connection(stream, service, guest));
    }
    drop((listener, file));
    while connections.left().await.is_some() {}
}

/// Ends a session whose task has ended, or was sent away.
struct CutAtEnd(Arc<Control>);

impl Drop for CutAtEnd {
    fn drop(&mut self) {
        self.0.cut();
    }
}

async fn connection(stream: UnixStream, service: Service, guest: Guest) {
    // One that was sent away ends soon, and has its memory and its buffers until then.
    let threads = Arc::clone(&service.threads);
    let thread = tokio::select! {
        Ok(thread) = threads.acquire_owned() => thread,
        () = service.stops() => return,
    };
    let control = match Control::new(&stream) {
        Ok(control) => control,
        Err(error) => return service.tell("a VMM", &error.into()),
    };
    let at = At { peer: peer(&stream), control: Arc::clone(&control) };
    let (ended, mut end) = oneshot::channel::<()>();
    let own = service.clone();
    let stream = stream.into_std();
    let serve = move || {
        own.serve(stream, &guest, &at);
        drop(thread);
        // The receiver is gone if the task was sent away.
        ended.send(()).ok();
    };
    let mut size = service.volume.size().follow();
    let _cut = CutAtEnd(Arc::clone(&control));
    if let Err(error) = thread::Builder::new().name("vhost-user".to_owned()).spawn(serve) {
        return service.tell("a VMM", &error.into());
    }
    loop {
        tokio::select! {
            _ = &mut end => return,
            () = service.stops() => break,
            Ok(()) = size.changed() => control.look(),
        }
    }
    control.stop();
    if timeout(service.config.patience, end).await.is_err() {
        tracing::error!("requests of a VM have not ended in time");
    }
}

//! A server over a back end in memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use raidcore::engine::{Op, RequestError};
use raidcore::units::{BLOCK_BYTES, Lba};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ublkd::front::LogicalBlock;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdLimits, NbdServer};
use ublkd::volume::{Submission, Submissions, Submit, Volume, VolumeConfig};

use crate::client::Client;
use crate::store;

pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks in memory; a block that is not there reads as zeros.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
    pub(crate) log: Vec<Submit>,
    /// Requests that touch one of these fail.
    pub(crate) broken: Vec<u64>,
    /// Whether requests have to wait.
    held: bool,
    /// Requests that wait.
    waiting: usize,
    /// Whether the back end is gone at the next request.
    ended: bool,
}

impl Memory {
    fn serve(&mut self, submission: &mut Submission) -> Result<(), RequestError> {
        let Submit { lba: Lba(lba), blocks, .. } = submission.request;
        self.log.push(submission.request);
        let end = lba + u64::from(blocks);
        if self.broken.iter().any(|block| (lba..end).contains(block)) {
            return Err(RequestError::Io);
        }
        store::serve(&mut self.blocks, submission);
        Ok(())
    }
}

/// The handle of the back end outside its thread.
#[derive(Clone, Default)]
pub(crate) struct BackEnd {
    shared: Arc<(Mutex<Memory>, Condvar)>,
}

impl BackEnd {
    fn start(mut submissions: Submissions) -> Self {
        let back_end = Self::default();
        let served = back_end.clone();
        thread::spawn(move || {
            while let Some(mut submission) = submissions.recv() {
                let mut memory = served.admit();
                if memory.ended {
                    submission.complete(Err(RequestError::Stopping));
                    break;
                }
                let result = memory.serve(&mut submission);
                drop(memory);
                submission.complete(result);
            }
        });
        back_end
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.shared.0.lock().expect("no panic")
    }

    /// Serves nothing from now on.
    pub(crate) fn hold(&self) {
        self.memory().held = true;
    }

    /// Waits until a request is waiting.
    pub(crate) fn wait_for_request(&self) {
        let (_, changed) = &*self.shared;
        let waiting = changed.wait_while(self.memory(), |memory| memory.waiting == 0);
        drop(waiting.expect("no panic"));
    }

    /// Serves again.
    pub(crate) fn release(&self) {
        self.memory().held = false;
        self.shared.1.notify_all();
    }

    /// Goes away at the next request.
    pub(crate) fn end(&self) {
        self.memory().ended = true;
    }

    /// Waits until requests are served.
    fn admit(&self) -> MutexGuard<'_, Memory> {
        let (_, changed) = &*self.shared;
        let mut memory = self.memory();
        memory.waiting += 1;
        changed.notify_all();
        let mut memory = changed.wait_while(memory, |memory| memory.held).expect("no panic");
        memory.waiting -= 1;
        memory
    }
}

/// A server over a [`BackEnd`].
pub(crate) struct World {
    pub(crate) back_end: BackEnd,
    server: Option<NbdServer>,
    pub(crate) volume: Volume,
    pub(crate) runtime: Arc<Runtime>,
    dir: TempDir,
}

/// 64 MiB, with buffers of 256 KiB.
pub(crate) fn config() -> VolumeConfig {
    VolumeConfig {
        name: "tank".to_owned(),
        blocks: 64 << 8,
        chunk_blocks: 16,
        stripe_blocks: 48,
        discard_blocks: 48,
        max_request_blocks: 64,
        tags: 8,
    }
}

impl World {
    /// On a Unix socket, with the default limits.
    pub(crate) fn new() -> Self {
        Self::with(config(), NbdLimits::default())
    }

    pub(crate) fn with(config: VolumeConfig, limits: NbdLimits) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let address = NbdAddress::Unix(dir.path().join("nbd.sock"));
        Self::at(dir, config, NbdConfig { limits, ..NbdConfig::new(address) })
    }

    /// For clients that know blocks of 512 bytes only.
    pub(crate) fn small() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let address = NbdAddress::Unix(dir.path().join("nbd.sock"));
        let nbd = NbdConfig { logical_block: LogicalBlock::Small, ..NbdConfig::new(address) };
        Self::at(dir, config(), nbd)
    }

    /// On TCP, at a port that the kernel chooses.
    pub(crate) fn tcp() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let address = NbdAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self::at(dir, config(), NbdConfig::new(address))
    }

    fn at(dir: TempDir, config: VolumeConfig, nbd: NbdConfig) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (volume, submissions) = Volume::channel(config);
        let back_end = BackEnd::start(submissions);
        let server = runtime.block_on(NbdServer::start(volume.clone(), nbd)).expect("a server");
        Self { back_end, server: Some(server), volume, runtime: Arc::new(runtime), dir }
    }

    pub(crate) fn uri(&self) -> &str {
        self.server().uri()
    }

    pub(crate) fn address(&self) -> &NbdAddress {
        self.server().address()
    }

    /// A file for a client to use.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn connect(&self) -> Client {
        match self.address() {
            NbdAddress::Unix(path) => Client::new(UnixStream::connect(path).expect("a server")),
            NbdAddress::Tcp(_) => panic!("these clients know Unix sockets only"),
        }
    }

    /// Begins to stop the server; [`thread::JoinHandle::join`] waits for the end.
    pub(crate) fn stop(&mut self) -> thread::JoinHandle<()> {
        let server = self.server.take().expect("it was not stopped before");
        let runtime = Arc::clone(&self.runtime);
        thread::spawn(move || runtime.block_on(server.stop()))
    }

    pub(crate) fn log(&self) -> Vec<Submit> {
        self.back_end.memory().log.clone()
    }

    pub(crate) fn count(&self, op: Op) -> usize {
        self.log().iter().filter(|request| request.op == op).count()
    }

    /// Waits until every buffer is back, and takes none.
    pub(crate) fn wait_for_all_buffers(&self) {
        let buffers: Vec<_> = (0..config().tags).map(|_| self.volume.buffer_blocking()).collect();
        drop(buffers);
    }

    fn server(&self) -> &NbdServer {
        self.server.as_ref().expect("it was not stopped")
    }
}

/// Bytes that tell which block they are of.
pub(crate) fn pattern(lba: u64, blocks: u64) -> Vec<u8> {
    (lba..lba + blocks)
        .flat_map(|lba| {
            [(lba + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(); BLOCK_BYTES / 8]
        })
        .flatten()
        .collect()
}

//! A server over a back end in memory.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use raidcore::engine::Op;
use raidcore::units::BLOCK_BYTES;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ublkd::front::LogicalBlock;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdLimits, NbdServer};
use ublkd::volume::{Submit, Volume, VolumeConfig};

use crate::back_end::BackEnd;
use crate::client::Client;

pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

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

    /// At an address, with whatever is asked for.
    pub(crate) fn serving(nbd: NbdConfig) -> Self {
        Self::at(tempfile::tempdir().expect("a temporary directory"), config(), nbd)
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

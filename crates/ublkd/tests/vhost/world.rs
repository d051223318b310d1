//! A server over a back end in memory.

use std::path::PathBuf;
use std::time::Duration;

use raidcore::units::BLOCK_BYTES;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ublkd::front::vhost::{VhostConfig, VhostServer, VhostThread};
use ublkd::null::Null;
use ublkd::volume::{Submit, Volume, VolumeConfig};

use crate::VM_THREAD;
use crate::back_end::BackEnd;
use crate::machine::Vm;

/// Blocks of the volume: 64 MiB.
pub(crate) const BLOCKS: u64 = 64 << 8;

pub(crate) struct World {
    pub(crate) back_end: BackEnd,
    /// The volume, and what takes queues on, if they are not served on threads of their own.
    pub(crate) volume: Volume,
    null: Option<Null>,
    pub(crate) server: Option<VhostServer>,
    pub(crate) runtime: Runtime,
    dir: TempDir,
}

/// With buffers of 256 KiB.
pub(crate) fn config() -> VolumeConfig {
    VolumeConfig {
        name: "tank".to_owned(),
        blocks: BLOCKS,
        chunk_blocks: 16,
        stripe_blocks: 48,
        discard_blocks: 48,
        max_request_blocks: 64,
        tags: 8,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut VhostConfig)) -> Self {
        Self::on(VM_THREAD, change)
    }

    /// Over a volume on whose thread VMs can be served, if they are not served on their own.
    pub(crate) fn on(thread: VhostThread, change: impl FnOnce(&mut VhostConfig)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let runtime = Runtime::new().expect("a runtime");
        let (back_end, volume, null) = match thread {
            VhostThread::Own => {
                let (volume, submissions) = Volume::channel(config());
                (BackEnd::start(submissions), volume, None)
            }
            VhostThread::Volume | VhostThread::ByMemory => {
                let (back_end, null) = BackEnd::start_direct(config());
                (back_end, null.volume().clone(), Some(null))
            }
        };
        let mut world = Self { back_end, volume, null, server: None, runtime, dir };
        world.serve(change);
        world
    }

    /// Starts the server (again).
    pub(crate) fn serve(&mut self, change: impl FnOnce(&mut VhostConfig)) {
        let mut config = VhostConfig::new(self.path());
        config.patience = Duration::from_secs(60);
        config.thread = VM_THREAD;
        change(&mut config);
        let server = self.runtime.block_on(async {
            match self.null.clone() {
                Some(null) => VhostServer::start_null(null, config).await,
                None => VhostServer::start(self.volume.clone(), config).await,
            }
        });
        self.server = Some(server.expect("a server"));
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("vhost.sock")
    }

    /// A VM that runs, with so many queues.
    pub(crate) fn vm(&self, queues: u16) -> Vm {
        let mut vm = Vm::new(queues);
        vm.boot(&self.path());
        vm
    }

    /// Stops the server.
    pub(crate) fn stop(&mut self) {
        let server = self.server.take().expect("it runs");
        self.runtime.block_on(server.stop());
    }

    pub(crate) fn log(&self) -> Vec<Submit> {
        self.back_end.memory().log.clone()
    }

    /// Waits until every buffer is back.
    pub(crate) fn wait_for_all_buffers(&self) {
        let buffers: Vec<_> = (0..config().tags).map(|_| self.volume.buffer_blocking()).collect();
        drop(buffers);
    }

    /// Checks that a new VM is served, and that all buffers are there.
    pub(crate) fn assert_serves(&self) {
        self.wait_for_all_buffers();
        let mut vm = self.vm(1);
        let data = pattern(7, 100);
        vm.write(7 * 8, &data);
        assert!(vm.read(7 * 8, data.len() as u32) == data);
        vm.stop();
    }
}

/// Bytes that tell which block they are of.
pub(crate) fn pattern(lba: u64, blocks: u64) -> Vec<u8> {
    let word = |lba: u64| (lba + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (lba..lba + blocks).flat_map(|lba| [word(lba); BLOCK_BYTES / 8]).flatten().collect()
}

//! A mount over a back end in memory.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use raidcore::engine::{Op, RequestError};
use raidcore::units::BLOCK_BYTES;
use tempfile::TempDir;
use ublkd::front::fuse::{FuseServer, Unmounted};
use ublkd::volume::{Size, Submission, Submissions, Submit, Volume, VolumeConfig};

use crate::store;

pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks in memory; a block that is not there reads as zeros.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
    log: Vec<Submit>,
    pub(crate) failing: bool,
}

impl Memory {
    fn serve(&mut self, submission: &mut Submission) -> Result<(), RequestError> {
        self.log.push(submission.request);
        if self.failing {
            return Err(RequestError::Io);
        }
        store::serve(&mut self.blocks, submission.request, &mut submission.buffer);
        Ok(())
    }
}

/// A mount over a [`Memory`], undone when it is dropped, however the test ends.
pub(crate) struct World {
    server: Option<FuseServer>,
    pub(crate) size: Size,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) dir: TempDir,
}

pub(crate) fn config(blocks: u64) -> VolumeConfig {
    VolumeConfig {
        name: "tank".to_owned(),
        blocks,
        chunk_blocks: 16,
        stripe_blocks: 64,
        discard_blocks: 64,
        max_request_blocks: 256,
        tags: 32,
    }
}

/// # Panics
/// If nothing can be mounted here: these tests check nothing otherwise.
pub(crate) fn check_for_fuse() {
    let root = rustix::process::geteuid().is_root();
    assert!(root, "mounting needs root: run these tests as root");
    let device = Path::new("/dev/fuse").exists();
    assert!(device, "no /dev/fuse: `modprobe fuse` (CONFIG_FUSE_FS)");
}

pub(crate) fn back_end(mut submissions: Submissions) -> Arc<Mutex<Memory>> {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let shared = Arc::clone(&memory);
    thread::spawn(move || {
        while let Some(mut submission) = submissions.recv() {
            let result = shared.lock().expect("no panic").serve(&mut submission);
            submission.complete(result);
        }
    });
    memory
}

impl World {
    pub(crate) fn new(config: VolumeConfig) -> Self {
        check_for_fuse();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (volume, submissions) = Volume::channel(config);
        let (memory, size) = (back_end(submissions), volume.size().clone());
        let server = FuseServer::mount(dir.path(), volume).expect("a mount");
        Self { server: Some(server), size, memory, dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("tank")
    }

    /// The file, opened as programs open a disk.
    pub(crate) fn open(&self) -> File {
        self.open_with(libc::O_DIRECT)
    }

    pub(crate) fn open_with(&self, flags: i32) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        options.open(self.path()).expect("the file opens")
    }

    pub(crate) fn log(&self) -> Vec<Submit> {
        self.memory.lock().expect("no panic").log.clone()
    }

    pub(crate) fn count(&self, op: Op) -> usize {
        self.log().iter().filter(|request| request.op == op).count()
    }

    pub(crate) fn server(&self) -> &FuseServer {
        self.server.as_ref().expect("a mount")
    }

    pub(crate) fn unmount(&mut self) -> Unmounted {
        self.server.take().expect("a mount").unmount().expect("an unmount")
    }
}

/// Bytes that tell which block they are of.
pub(crate) fn pattern(lba: u64, blocks: u64) -> Vec<u8> {
    (lba..lba + blocks)
        .flat_map(|lba| [lba.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(); BLOCK_BYTES / 8])
        .flatten()
        .collect()
}

/// Calls `with` with the bytes, `shift` bytes after a page's start.
pub(crate) fn placed<T>(shift: usize, bytes: &[u8], with: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = vec![0; bytes.len() + 2 * BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES) + shift;
    let place = &mut memory[start..start + bytes.len()];
    place.copy_from_slice(bytes);
    with(place)
}

pub(crate) fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.expect_err("an error").raw_os_error()
}

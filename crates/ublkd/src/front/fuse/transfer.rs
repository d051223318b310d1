//! Requests of the kernel on their way through the volume.
//!
//! Invariants:
//! - A transfer is in the table exactly while the volume has it; its cookie is its place.
//! - A transfer has one buffer from the start, so transfers can't wait for each other. A read or
//!   write larger than a buffer is done as far as it goes, and answered short; a long command is
//!   several transfers, and answered when the last one ends.
//! - The answer is written before the buffer goes back.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use raidcore::engine::{Op, RequestError};
use raidcore::units::{BLOCK_BYTES, Lba};

use crate::front::RANGE_BLOCKS_MAX;
use crate::volume::{Buffer, Port, Share, Submit, Volume};

/// Whom to answer.
#[derive(Debug)]
pub(super) enum Reply {
    Read(ReplyData),
    Write(ReplyWrite),
    Done(Arc<Whole>),
}

/// A command's answer, given when its last part lets go of it.
#[derive(Debug)]
pub(super) struct Whole {
    reply: Option<ReplyEmpty>,
    error: OnceLock<Errno>,
}

/// What is asked for, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) lba: u64,
    pub(super) blocks: u64,
}

/// A request that the volume has.
#[derive(Debug)]
struct Transfer {
    reply: Reply,
    /// How much of the buffer the answer counts or carries.
    bytes: usize,
}

/// The way into the volume.
pub(super) struct Transfers {
    volume: Volume,
    share: Share,
    pending: Arc<Pending>,
    port: Arc<dyn Port>,
}

/// The requests that the volume has.
#[derive(Default)]
struct Pending {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: Vec<Option<Transfer>>,
    free: Vec<usize>,
}

impl Transfers {
    pub(super) fn new(volume: Volume) -> Self {
        let pending = Arc::new(Pending::default());
        Self { share: volume.share(), volume, port: Arc::<Pending>::clone(&pending), pending }
    }

    /// Reads the extent and answers with its bytes. Waits for a free buffer, as all of these do.
    pub(super) fn read(&self, extent: Extent, reply: ReplyData) {
        let buffer = self.share.buffer_blocking();
        self.submit(self.request(Op::Read, extent), Reply::Read(reply), buffer);
    }

    /// Writes `data`, which is as long as the extent.
    pub(super) fn write(&self, extent: Extent, data: &[u8], fua: bool, reply: ReplyWrite) {
        let mut buffer = self.share.buffer_blocking();
        let request = Submit { fua, ..self.request(Op::Write, extent) };
        let length = bytes(request.blocks);
        buffer[..length].copy_from_slice(&data[..length]);
        self.submit(request, Reply::Write(reply), buffer);
    }

    /// Flushes, discards or writes zeroes.
    pub(super) fn command(&self, op: Op, mut extent: Extent, reply: ReplyEmpty) {
        let whole = Arc::new(Whole { reply: Some(reply), error: OnceLock::new() });
        loop {
            let buffer = self.share.buffer_blocking();
            let part = self.request(op, extent);
            extent.lba += u64::from(part.blocks);
            extent.blocks -= u64::from(part.blocks);
            self.submit(part, Reply::Done(Arc::clone(&whole)), buffer);
            if extent.blocks == 0 {
                break;
            }
        }
    }

    fn submit(&self, request: Submit, reply: Reply, buffer: Buffer) {
        let moved = match request.op {
            Op::Read | Op::Write => bytes(request.blocks),
            Op::Flush | Op::Discard | Op::WriteZeroes => 0,
        };
        let cookie = self.pending.table().insert(Transfer { reply, bytes: moved });
        self.volume.submit(&self.port, cookie, request, buffer);
    }

    /// As much of the extent as the volume takes at once.
    fn request(&self, op: Op, extent: Extent) -> Submit {
        let most = match op {
            Op::Read | Op::Write => self.volume.max_request_blocks(),
            Op::Flush | Op::Discard | Op::WriteZeroes => RANGE_BLOCKS_MAX,
        };
        let blocks = u32::try_from(extent.blocks).unwrap_or(u32::MAX).min(most);
        Submit { op, lba: Lba(extent.lba), blocks, fua: false }
    }
}

impl Pending {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Pending {
    fn completed(&self, cookie: u64, buffer: Buffer, result: Result<(), RequestError>) {
        let transfer = self.table().take(cookie);
        let Some(Transfer { reply, bytes }) = transfer else {
            tracing::error!(cookie, "an answer to no FUSE request");
            return;
        };
        match result {
            Ok(()) => reply.success(&buffer[..bytes]),
            Err(error) => reply.error(errno(error)),
        }
    }
}

impl Reply {
    fn success(self, data: &[u8]) {
        match self {
            Self::Read(reply) => reply.data(data),
            // A FUSE message has at most 16 MiB.
            Self::Write(reply) => reply.written(data.len() as u32),
            Self::Done(whole) => drop(whole),
        }
    }

    fn error(self, errno: Errno) {
        match self {
            Self::Read(reply) => reply.error(errno),
            Self::Write(reply) => reply.error(errno),
            Self::Done(whole) => {
                // The first error is as good as any other.
                whole.error.set(errno).ok();
            }
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        match (self.reply.take(), self.error.get()) {
            (Some(reply), Some(errno)) => reply.error(*errno),
            (Some(reply), None) => reply.ok(),
            (None, _) => {}
        }
    }
}

impl Table {
    fn insert(&mut self, transfer: Transfer) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[index] = Some(transfer);
        index as u64
    }

    fn take(&mut self, cookie: u64) -> Option<Transfer> {
        let index = usize::try_from(cookie).ok()?;
        let transfer = self.entries.get_mut(index)?.take()?;
        self.free.push(index);
        Some(transfer)
    }
}

fn bytes(blocks: u32) -> usize {
    blocks as usize * BLOCK_BYTES
}

fn errno(error: RequestError) -> Errno {
    match error {
        RequestError::OutOfRange => Errno::EINVAL,
        RequestError::Io | RequestError::Stopping => Errno::EIO,
    }
}

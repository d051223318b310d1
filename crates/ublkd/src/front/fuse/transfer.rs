//! Requests of the kernel on their way through the volume.
//!
//! Invariants:
//! - A transfer is in the table exactly while the volume has it; its cookie is its index.
//! - A transfer has one buffer from the start, so transfers can't wait for each other. A read of
//!   more than a buffer is cut, and answered short. A larger write or command is several transfers,
//!   and answered when the last one ends.
//! - The answer is written before the buffer goes back.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use raidcore::engine::{Op, RequestError};

use crate::front::RANGE_BLOCKS_MAX;
use crate::volume::{Buffer, Port, Share, Submit, Touched, Volume};

/// Where the answer goes.
#[derive(Debug)]
pub(super) enum Reply {
    Read(ReplyData),
    Write(ReplyWrite),
    Part(Arc<Whole>),
}

/// The answer to a request in several parts, sent when the last part ends.
#[derive(Debug)]
pub(super) struct Whole {
    reply: Option<WholeReply>,
    error: OnceLock<Errno>,
}

#[derive(Debug)]
enum WholeReply {
    Done(ReplyEmpty),
    /// So many bytes.
    Written(ReplyWrite, u32),
}

impl Whole {
    fn of(reply: WholeReply) -> Arc<Self> {
        Arc::new(Self { reply: Some(reply), error: OnceLock::new() })
    }
}

/// A request that the volume has.
#[derive(Debug)]
struct Transfer {
    reply: Reply,
    /// The bytes of the buffer that the answer counts or carries.
    bytes: Range<usize>,
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

    /// Reads what a buffer holds of the extent, and answers with its bytes. Waits for a free buffer,
    /// as all of these do.
    pub(super) fn read(&self, mut extent: Touched, reply: ReplyData) {
        let buffer = self.share.buffer_blocking();
        let part = self.cut(Op::Read, &mut extent);
        self.submit(part, Reply::Read(reply), buffer);
    }

    /// Writes `data`, which is as long as the extent.
    pub(super) fn write(&self, mut extent: Touched, data: &[u8], fua: bool, reply: ReplyWrite) {
        let fits = extent.blocks <= u64::from(self.volume.max_request_blocks());
        if fits {
            self.write_part(&mut extent, data, fua, Reply::Write(reply));
            return;
        }
        // A FUSE message has at most 16 MiB.
        let whole = Whole::of(WholeReply::Written(reply, data.len() as u32));
        let mut rest = data;
        while extent.blocks > 0 {
            let part = Reply::Part(Arc::clone(&whole));
            let written = self.write_part(&mut extent, rest, fua, part);
            rest = &rest[written..];
        }
    }

    /// Flushes, discards or writes zeroes.
    pub(super) fn command(&self, op: Op, mut extent: Touched, reply: ReplyEmpty) {
        let whole = Whole::of(WholeReply::Done(reply));
        loop {
            let buffer = self.share.buffer_blocking();
            let part = self.cut(op, &mut extent);
            self.submit(part, Reply::Part(Arc::clone(&whole)), buffer);
            if extent.blocks == 0 {
                break;
            }
        }
    }

    /// Writes the beginning of `data`, and returns how much of it.
    fn write_part(&self, extent: &mut Touched, data: &[u8], fua: bool, reply: Reply) -> usize {
        let mut buffer = self.share.buffer_blocking();
        let part = Submit { fua, ..self.cut(Op::Write, extent) };
        let bytes = part.edges.within(part.blocks);
        let length = bytes.len();
        buffer[bytes].copy_from_slice(&data[..length]);
        self.submit(part, reply, buffer);
        length
    }

    fn submit(&self, request: Submit, reply: Reply, buffer: Buffer) {
        let bytes = match request.op {
            Op::Read | Op::Write => request.edges.within(request.blocks),
            Op::Flush | Op::Discard | Op::WriteZeroes => 0..0,
        };
        let cookie = self.pending.table().insert(Transfer { reply, bytes });
        self.volume.submit(&self.port, cookie, request, buffer);
    }

    /// Takes as much off the extent as one transfer can do.
    fn cut(&self, op: Op, extent: &mut Touched) -> Submit {
        let most = match op {
            Op::Read | Op::Write => self.volume.max_request_blocks(),
            Op::Flush | Op::Discard | Op::WriteZeroes => RANGE_BLOCKS_MAX,
        };
        let (lba, blocks, edges) = extent.cut(most);
        Submit { op, lba, blocks, fua: false, edges }
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
            Ok(()) => reply.success(&buffer[bytes]),
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
            Self::Part(whole) => drop(whole),
        }
    }

    fn error(self, errno: Errno) {
        match self {
            Self::Read(reply) => reply.error(errno),
            Self::Write(reply) => reply.error(errno),
            Self::Part(whole) => {
                // Any one of the errors will do.
                whole.error.set(errno).ok();
            }
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        match (self.reply.take(), self.error.get()) {
            (Some(WholeReply::Done(reply)), None) => reply.ok(),
            (Some(WholeReply::Done(reply)), Some(errno)) => reply.error(*errno),
            (Some(WholeReply::Written(reply, bytes)), None) => reply.written(bytes),
            (Some(WholeReply::Written(reply, _)), Some(errno)) => reply.error(*errno),
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

fn errno(error: RequestError) -> Errno {
    match error {
        RequestError::OutOfRange => Errno::EINVAL,
        RequestError::Io | RequestError::Stopping => Errno::EIO,
    }
}

//! The kernel's side of the ring, and entries for it.
//!
//! Invariant: entries reach the kernel in the order in which they were made; none is dropped when
//! the queue is full.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::{IoUring, Submitter, cqueue, opcode, squeue, types};
use rustix::fs::{AtFlags, StatxFlags};

use super::{CANCELLED, Ring};
use crate::arena::Arena;
use crate::lease::Permit;
use crate::ops::{Op, OpId, OpKind, Sync, Way};

/// The entries of a ring: of 64 bytes, with results of 16, or twice as large, as commands to NVMe
/// drives need them.
pub(super) enum Entries {
    Small(Queue<squeue::Entry, cqueue::Entry>),
    Large(Queue<squeue::Entry128, cqueue::Entry32>),
}

/// Finds out whether this process may have a ring.
///
/// # Errors
/// As from the kernel.
pub(crate) fn probe(entries: u32) -> io::Result<()> {
    build::<squeue::Entry, cqueue::Entry>(entries).map(drop)
}

/// The most kernel workers once a member is silent: more than there are I/Os for one member.
const WORKERS: u32 = 512;

impl Entries {
    /// A ring for the calling thread that hands over so many entries at once.
    pub(super) fn new(entries: u32, large: bool) -> io::Result<Self> {
        Ok(if large {
            Self::Large(Queue::new(entries)?)
        } else {
            Self::Small(Queue::new(entries)?)
        })
    }

    /// By which files and buffers are registered.
    pub(super) fn submitter(&self) -> Submitter<'_> {
        match self {
            Self::Small(queue) => queue.uring.submitter(),
            Self::Large(queue) => queue.uring.submitter(),
        }
    }

    /// Raises the number of kernel workers. An operation that a file system does not complete at
    /// once occupies a worker, and by default there are four per CPU. A file that hangs could
    /// occupy all of them, and block the I/O of other files. An older kernel keeps its number.
    pub(super) fn more_workers(&mut self) {
        if self.submitter().register_iowq_max_workers(&mut [WORKERS, 0]).is_ok() {
            // The new number counts once there is work.
            let work = opcode::Nop::new().build().flags(squeue::Flags::ASYNC);
            // SAFETY: it names no memory.
            unsafe { self.push(work.user_data(CANCELLED)) };
        }
    }

    /// Nothing is handed over without this permission from now on.
    pub(super) fn under(&mut self, permit: Permit) {
        match self {
            Self::Small(queue) => queue.permit = Some(permit),
            Self::Large(queue) => queue.permit = Some(permit),
        }
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The memory that it names must stay, and be left to the kernel, until it has completed or the
    /// ring is gone.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Small(queue) => queue.push(entry),
                Self::Large(queue) => queue.push(entry.into()),
            }
        }
    }

    /// Adds a large entry.
    ///
    /// # Safety
    /// As of [`Entries::push`].
    ///
    /// # Panics
    /// If entries are small.
    pub(super) unsafe fn push_large(&mut self, entry: squeue::Entry128) {
        let Self::Large(queue) = self else { panic!("a large entry for a ring of small ones") };
        // SAFETY: as the caller promises.
        unsafe { queue.push(entry) };
    }

    /// Hands over what was added, without waiting.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        match self {
            Self::Small(queue) => queue.submit(),
            Self::Large(queue) => queue.submit(),
        }
    }

    /// Hands over what was added, and sleeps until something completes, or `limit` is over.
    pub(super) fn submit_and_sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Small(queue) => queue.submit_and_sleep(limit),
            Self::Large(queue) => queue.submit_and_sleep(limit),
        }
    }

    /// How many entries have completed that were not taken.
    pub(super) fn completions(&mut self) -> usize {
        match self {
            Self::Small(queue) => queue.uring.completion().len(),
            Self::Large(queue) => queue.uring.completion().len(),
        }
    }

    /// An entry that has completed.
    pub(super) fn next_completion(&mut self) -> Option<cqueue::Entry> {
        match self {
            Self::Small(queue) => queue.uring.completion().next(),
            Self::Large(queue) => queue.uring.completion().next().map(Into::into),
        }
    }
}

/// A ring whose entries have one size.
pub(super) struct Queue<S: squeue::EntryMarker, C: cqueue::EntryMarker> {
    uring: IoUring<S, C>,
    /// Entries that have found no room in the submission queue.
    backlog: VecDeque<S>,
    permit: Option<Permit>,
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Queue<S, C> {
    fn new(entries: u32) -> io::Result<Self> {
        let backlog = VecDeque::with_capacity(entries as usize * 2);
        Ok(Self { uring: build(entries)?, backlog, permit: None })
    }

    /// As [`Entries::push`].
    unsafe fn push(&mut self, entry: S) {
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        loop {
            self.refill();
            self.ask()?;
            passing(self.uring.submit())?;
            if self.backlog.is_empty() || self.uring.submission().is_full() {
                return Ok(());
            }
        }
    }

    fn submit_and_sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.refill();
        if !self.backlog.is_empty() {
            return self.submit();
        }
        self.ask()?;
        match limit {
            None => passing(self.uring.submitter().submit_and_wait(1)),
            Some(limit) => {
                let limit = types::Timespec::from(limit);
                let args = types::SubmitArgs::new().timespec(&limit);
                passing(self.uring.submitter().submit_with_args(1, &args))
            }
        }
    }

    /// Asked right before each system call that hands something over.
    fn ask(&self) -> io::Result<()> {
        self.permit.as_ref().map_or(Ok(()), Permit::ask)
    }

    fn try_push(&mut self, entry: &S) -> bool {
        // SAFETY: as the caller that pushed it has promised.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    /// Moves entries from the backlog to the queue.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_push(&entry) {
                self.backlog.push_front(entry);
                return;
            }
        }
    }
}

impl Ring {
    /// Submits the rest of an op.
    pub(super) fn go(&mut self, id: OpId, arena: &mut Arena) {
        let op = self.ops.get(id);
        if op.way == Way::Passthrough {
            return self.pass(id, arena);
        }
        let index = op.member;
        let Some(member) = &self.members[usize::from(index.0)] else {
            unreachable!("a member stays while there is I/O on it");
        };
        // The kernel can't query the size of a registered file.
        let fixed = self.registered_files && !op.asks;
        let target = if fixed { i32::from(index.0) } else { member.device.fd() };
        let moved = op.piece().filter(|_| !op.asks);
        let registered = moved.and_then(|piece| {
            self.buffers.of(&self.entries.submitter(), arena, (piece, op.base, op.bytes))
        });
        let mut entry = entry(op, types::Fd(target), registered).user_data(id.to_bits());
        if fixed {
            entry = entry.flags(squeue::Flags::FIXED_FILE);
        }
        // SAFETY: the memory is the arena's, or the op's own list of parts, which isn't touched while
        // the op is in flight; the arena keeps what is in flight.
        unsafe { self.entries.push(entry) };
    }
}

/// A ring with the options of this kernel for a single thread that waits in it.
fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    entries: u32,
) -> io::Result<IoUring<S, C>> {
    let mut common = IoUring::<S, C>::builder();
    common.setup_clamp().setup_submit_all().setup_cqsize(entries.saturating_mul(8));
    let mut best = common.clone();
    best.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    best.build(entries).or_else(|_| common.setup_coop_taskrun().build(entries))
}

/// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h` (Linux 6.12): takes a byte offset and a length. Hole punching
/// makes zeros of a block device's range, which not every drive does without writing them.
const BLOCK_DISCARD: u32 = 0x12 << 8;

/// The submission entry for what is left of an op, whose memory is a registered buffer or not.
pub(super) fn entry(op: &Op, fd: types::Fd, registered: Option<u16>) -> squeue::Entry {
    let base = op.base.wrapping_add(op.done);
    let left = (op.bytes - op.done) as u32;
    let at = op.offset + op.done as u64;
    if op.asks {
        return look(fd, op.answer);
    }
    if op.sync == Sync::Busy {
        return flush(fd);
    }
    let durable = op.sync == Sync::None;
    match (op.kind, registered) {
        (OpKind::Read(_), Some(buffer)) => {
            opcode::ReadFixed::new(fd, base, left, buffer).offset(at).build()
        }
        (OpKind::Read(_), None) => opcode::Read::new(fd, base, left).offset(at).build(),
        (OpKind::Write { durable: asked }, Some(buffer)) => {
            let write = opcode::WriteFixed::new(fd, base, left, buffer);
            write.offset(at).rw_flags(flags(durable && asked)).build()
        }
        (OpKind::Write { durable: asked }, None) => {
            opcode::Write::new(fd, base, left).offset(at).rw_flags(flags(durable && asked)).build()
        }
        (OpKind::Gather, _) => {
            let parts = &op.iovecs[op.first..];
            let write = opcode::Writev::new(fd, parts.as_ptr(), parts.len() as u32);
            write.offset(at).rw_flags(flags(durable)).build()
        }
        (OpKind::Flush, _) => flush(fd),
        (OpKind::Look, _) => look(fd, op.answer),
        (OpKind::Discard, _) => opcode::Fallocate::new(fd, op.bytes as u64)
            .offset(at)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
        (OpKind::Trim, _) => {
            let mut length = [0; 16];
            length[..8].copy_from_slice(&(op.bytes as u64).to_ne_bytes());
            opcode::UringCmd16::new(fd, BLOCK_DISCARD).cmd(length).addr(Some(at)).build()
        }
    }
}

fn flush(fd: types::Fd) -> squeue::Entry {
    opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
}

/// Queries a file's length from the file system, not from its cache.
fn look(fd: types::Fd, answer: *mut u8) -> squeue::Entry {
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    opcode::Statx::new(fd, c"".as_ptr(), answer.cast())
        .flags(how.bits() as i32)
        .mask(StatxFlags::SIZE.bits())
        .build()
}

fn flags(durable: bool) -> i32 {
    if durable { libc::RWF_DSYNC } else { 0 }
}

/// Temporary errors of submission: a timeout, a signal, or a full completion queue.
fn passing(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
            _ => Err(e),
        },
    }
}

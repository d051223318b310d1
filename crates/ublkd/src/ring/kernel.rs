//! The kernel's side of the ring, and entries for it.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{Submitter, cqueue, opcode, squeue, types};
use rustix::fs::{AtFlags, StatxFlags};

use super::Ring;
use super::crew::{Hand, Ordered};
use super::queue::{Completion, CompletionEntry, Entry, Queue};
use crate::arena::Arena;
use crate::lease::Permit;
use crate::ops::{Lane, Op, OpId, OpKind, Sync, Way};
use crate::thread::give_up_sys_admin;
use crate::volume::Bell;

/// The entries of a ring: of 64 bytes, with results of 16, or twice as large, as commands to NVMe
/// drives need them.
pub(super) enum Entries {
    Small(Lanes<squeue::Entry, cqueue::Entry>),
    Large(Lanes<squeue::Entry128, cqueue::Entry32>),
}

/// The ring of the array's thread, and those of its crew.
pub(super) struct Lanes<S: Entry, C: CompletionEntry> {
    own: Queue<S, C>,
    /// Completions of its own that belong to the pass that it is in.
    counted: usize,
    crew: Vec<Hand<S, C>>,
}

/// Finds out whether this process may have a ring.
///
/// # Errors
/// As from the kernel.
pub(crate) fn probe(entries: u32) -> io::Result<()> {
    let bell = Bell::new()?;
    Queue::<squeue::Entry, cqueue::Entry>::new(entries, bell.fd()).map(drop)
}

macro_rules! lanes {
    ($self:expr, $lanes:ident => $what:expr) => {
        match $self {
            Entries::Small($lanes) => $what,
            Entries::Large($lanes) => $what,
        }
    };
}

impl<S: Entry, C: CompletionEntry> Lanes<S, C> {
    fn new(entries: u32, threads: u16, bell: &Arc<Bell>) -> io::Result<Self> {
        let crew = (1..usize::from(threads)).map(|number| Hand::new(number, entries, bell));
        let own = Queue::new(entries, bell.fd())?;
        Ok(Self { own, counted: 0, crew: crew.collect::<Result<_, _>>()? })
    }

    /// As [`Queue::push`].
    unsafe fn push(&mut self, lane: Lane, entry: S) {
        // SAFETY: as the caller promises.
        unsafe {
            match usize::from(lane.0).checked_sub(1) {
                None => self.own.push(entry),
                Some(hand) => self.crew[hand].push(entry),
            }
        }
    }

    /// Has it done on a lane's thread.
    fn on(
        &mut self,
        lane: Lane,
        what: impl FnOnce(&mut Queue<S, C>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        match usize::from(lane.0).checked_sub(1) {
            None => what(&mut self.own),
            Some(hand) => self.crew[hand].order(what).wait(),
        }
    }

    /// Has it done with every ring; returns the first error.
    fn each(
        &mut self,
        what: impl Fn(&mut Queue<S, C>) -> io::Result<()> + Clone + Send + 'static,
    ) -> io::Result<()> {
        let ordered: Vec<_> = self.crew.iter().map(|hand| hand.order(what.clone())).collect();
        let first = what(&mut self.own);
        ordered.into_iter().map(Ordered::wait).fold(first, Result::and)
    }

    fn submit(&mut self) -> io::Result<()> {
        self.crew.iter_mut().try_for_each(Hand::submit)
    }

    fn reach_kernel(&mut self) -> io::Result<()> {
        self.crew.iter_mut().try_for_each(Hand::reach_kernel)?;
        self.own.submit_all()
    }

    fn count(&mut self) -> usize {
        self.counted = self.own.completions();
        self.counted + self.crew.iter_mut().map(Hand::count).sum::<usize>()
    }

    fn next_completion(&mut self) -> Option<Completion> {
        match self.counted.checked_sub(1) {
            Some(left) => {
                self.counted = left;
                self.own.next_completion()
            }
            None => self.crew.iter_mut().find_map(Hand::next_completion),
        }
    }
}

impl Entries {
    /// Rings for the calling thread and others, `threads` in all, that each hand over so many
    /// entries at once. The calling thread is woken when the bell is rung.
    pub(super) fn new(
        entries: u32,
        large: bool,
        threads: u16,
        bell: &Arc<Bell>,
    ) -> io::Result<Self> {
        Ok(if large {
            Self::Large(Lanes::new(entries, threads, bell)?)
        } else {
            Self::Small(Lanes::new(entries, threads, bell)?)
        })
    }

    /// The lane that takes its part of what is numbered: the array's own if it has no crew.
    pub(super) fn lane(&self, number: u16) -> Lane {
        let crew = lanes!(self, lanes => lanes.crew.len()) as u16;
        Lane(number.checked_rem(crew).map_or(0, |hand| hand as u8 + 1))
    }

    /// Registers or unregisters something with every ring.
    ///
    /// # Errors
    /// The first of the kernel's; other rings may have done it.
    pub(super) fn register(
        &mut self,
        what: impl Fn(&Submitter<'_>) -> io::Result<()> + Clone + Send + 'static,
    ) -> io::Result<()> {
        lanes!(self, lanes => lanes.each(move |queue| what(&queue.submitter())))
    }

    /// Raises the number of kernel workers.
    pub(super) fn more_workers(&mut self) {
        // A thread that has ended is told with the next submission.
        let _ = lanes!(self, lanes => lanes.each(|queue| {
            queue.more_workers();
            Ok(())
        }));
    }

    /// Nothing is handed over without this permission from now on.
    pub(super) fn under(&mut self, permit: &Permit) {
        let permit = permit.clone();
        let _ = lanes!(self, lanes => lanes.each(move |queue| {
            queue.under(permit.clone());
            Ok(())
        }));
    }

    /// The driver that serves a queue from this lane is to trust its thread less.
    pub(super) fn give_up_sys_admin(&mut self, lane: Lane) {
        let _ = lanes!(self, lanes => lanes.on(lane, |_| {
            give_up_sys_admin();
            Ok(())
        }));
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The memory that it names must stay, and be left to the kernel, until it has completed or the
    /// ring is gone.
    pub(super) unsafe fn push(&mut self, lane: Lane, entry: squeue::Entry) {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Small(lanes) => lanes.push(lane, entry),
                Self::Large(lanes) => lanes.push(lane, entry.into()),
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
    pub(super) unsafe fn push_large(&mut self, lane: Lane, entry: squeue::Entry128) {
        let Self::Large(lanes) = self else { panic!("a large entry for a ring of small ones") };
        // SAFETY: as the caller promises.
        unsafe { lanes.push(lane, entry) };
    }

    /// Gives the crew what was added for it.
    ///
    /// # Errors
    /// If one of its threads has ended.
    pub(super) fn hand_over(&mut self) -> io::Result<()> {
        lanes!(self, lanes => lanes.submit())
    }

    /// Returns when all that was added is with the kernel.
    pub(super) fn reach_kernel(&mut self) -> io::Result<()> {
        lanes!(self, lanes => lanes.reach_kernel())
    }

    /// Hands over what was added, without waiting.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        lanes!(self, lanes => {
            lanes.submit()?;
            lanes.own.submit()
        })
    }

    /// Hands over what was added, and sleeps until something completes, or `limit` is over.
    pub(super) fn submit_and_sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        lanes!(self, lanes => {
            // Even if that was just done: whether a hand waits for room is seen for certain only after this
            // thread has said that it sleeps.
            lanes.submit()?;
            lanes.own.submit_and_sleep(limit)
        })
    }

    /// Counts the entries that have completed and were not taken. Those that complete later belong to the
    /// next pass.
    pub(super) fn count(&mut self) -> usize {
        lanes!(self, lanes => lanes.count())
    }

    /// Whether the crew has something to tell.
    pub(super) fn has_news(&self) -> bool {
        lanes!(self, lanes => lanes.crew.iter().any(Hand::has_news))
    }

    /// An entry that has completed and was counted.
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        lanes!(self, lanes => lanes.next_completion())
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
        op.named = member.stream_of(op.kind);
        // The kernel can't query the size of a registered file.
        let fixed = self.registered_files && !op.asks;
        let target = if fixed { i32::from(index.0) } else { member.device.fd() };
        let moved = op.piece().filter(|_| !op.asks);
        let registered = moved.and_then(|piece| {
            self.buffers.of(&mut self.entries, arena, (piece, op.base, op.bytes))
        });
        let lane = op.lane;
        let mut entry = entry(op, types::Fd(target), registered).user_data(id.to_bits());
        if fixed {
            entry = entry.flags(squeue::Flags::FIXED_FILE);
        }
        // SAFETY: the memory is the arena's, or the op's own list of parts, which isn't touched while
        // the op is in flight; the arena keeps what is in flight.
        unsafe { self.entries.push(lane, entry) };
    }
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
        (OpKind::Write { durable: asked, .. }, Some(buffer)) => {
            let write = opcode::WriteFixed::new(fd, base, left, buffer).write_stream(op.named);
            write.offset(at).rw_flags(flags(durable && asked)).build()
        }
        (OpKind::Write { durable: asked, .. }, None) => {
            let write = opcode::Write::new(fd, base, left).write_stream(op.named);
            write.offset(at).rw_flags(flags(durable && asked)).build()
        }
        (OpKind::Gather { .. }, _) => {
            let parts = &op.iovecs[op.first..];
            let write = opcode::Writev::new(fd, parts.as_ptr(), parts.len() as u32);
            write.write_stream(op.named).offset(at).rw_flags(flags(durable)).build()
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

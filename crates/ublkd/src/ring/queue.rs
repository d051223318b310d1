//! One io_uring, and what has found no room in it.
//!
//! Invariant: entries reach the kernel in the order in which they were made; none is dropped when
//! the queue is full.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::{IoUring, Submitter, cqueue, opcode, squeue, types};

use super::{BELL, CANCELLED};
use crate::lease::Permit;
use crate::topology::{Cpus, of_this_thread};

/// The most kernel workers once a member is silent: more than there are I/Os for one member.
const WORKERS: u32 = 512;

/// An entry that has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    /// What the entry was called.
    pub(super) name: u64,
    /// As the kernel tells it: a count, or a negative errno.
    pub(super) result: i32,
}

/// An entry of a ring, of either size.
pub(super) trait Entry: squeue::EntryMarker + From<squeue::Entry> + Send + 'static {}

impl Entry for squeue::Entry {}
impl Entry for squeue::Entry128 {}

/// A completion of a ring, of either size.
pub(super) trait CompletionEntry:
    cqueue::EntryMarker + Into<cqueue::Entry> + 'static
{
}

impl CompletionEntry for cqueue::Entry {}
impl CompletionEntry for cqueue::Entry32 {}

/// A ring whose entries have one size, of one thread.
pub(super) struct Queue<S: Entry, C: CompletionEntry> {
    uring: IoUring<S, C>,
    /// Entries that have found no room in the submission queue.
    backlog: VecDeque<S>,
    /// Completions that were taken off the ring, which needed room.
    completed: VecDeque<cqueue::Entry>,
    permit: Option<Permit>,
    bell: RawFd,
}

impl<S: Entry, C: CompletionEntry> Queue<S, C> {
    /// A ring for the calling thread that hands over so many entries at once, and is woken when
    /// `bell`, an eventfd, is written.
    pub(super) fn new(entries: u32, bell: RawFd) -> io::Result<Self> {
        let backlog = VecDeque::with_capacity(entries as usize * 2);
        let mut queue = Self {
            uring: build(entries)?,
            backlog,
            completed: VecDeque::new(),
            permit: None,
            bell,
        };
        queue.listen();
        queue.keep_workers();
        Ok(queue)
    }

    /// Kernel workers run where this thread may. With an older kernel they run anywhere.
    fn keep_workers(&self) {
        let keep = |cpus: Cpus| self.submitter().register_iowq_aff(&cpus.of_libc());
        if let Err(error) = of_this_thread().and_then(keep) {
            tracing::debug!(%error, "kernel workers run anywhere");
        }
    }

    /// By which files and buffers are registered.
    pub(super) fn submitter(&self) -> Submitter<'_> {
        self.uring.submitter()
    }

    /// Nothing is handed over without this permission from now on.
    pub(super) fn under(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// Raises the number of kernel workers. An operation that a file system does not complete at
    /// once occupies a worker, and by default there are four per CPU. A file that hangs could
    /// occupy all of them, and block the I/O of other files. An older kernel keeps its number.
    pub(super) fn more_workers(&mut self) {
        if self.submitter().register_iowq_max_workers(&mut [WORKERS, 0]).is_ok() {
            // The new number counts once there is work.
            let work = opcode::Nop::new().build().flags(squeue::Flags::ASYNC);
            // SAFETY: it names no memory.
            unsafe { self.push(work.user_data(CANCELLED).into()) };
        }
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The memory that it names must stay, and be left to the kernel, until it has completed or the
    /// ring is gone.
    pub(super) unsafe fn push(&mut self, entry: S) {
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    /// Hands over what was added, without waiting.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        loop {
            self.refill();
            self.ask()?;
            passing(self.uring.submit())?;
            if self.backlog.is_empty() || self.uring.submission().is_full() {
                return Ok(());
            }
        }
    }

    /// Hands over what was added, and sleeps until something completes, or `limit` is over.
    pub(super) fn submit_and_sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.refill();
        if !self.backlog.is_empty() || !self.completed.is_empty() {
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

    /// Hands over all that was added. What has completed needs room meanwhile, and is kept.
    pub(super) fn submit_all(&mut self) -> io::Result<()> {
        loop {
            self.submit()?;
            if self.backlog.is_empty() && self.uring.submission().is_empty() {
                return Ok(());
            }
            let completed = self.uring.completion().map(Into::into);
            self.completed.extend(completed);
            std::thread::yield_now();
        }
    }

    /// How many entries have completed that were not taken.
    pub(super) fn completions(&mut self) -> usize {
        self.completed.len() + self.uring.completion().len()
    }

    /// An entry that has completed.
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        let kept = self.completed.pop_front();
        let entry = kept.or_else(|| self.uring.completion().next().map(Into::into))?;
        let completion = Completion { name: entry.user_data(), result: entry.result() };
        if completion.name == BELL && !cqueue::more(entry.flags()) {
            self.listen();
        }
        Some(completion)
    }

    fn listen(&mut self) {
        let poll = opcode::PollAdd::new(types::Fd(self.bell), libc::POLLIN as u32).multi(true);
        // SAFETY: it names no memory.
        unsafe { self.push(poll.build().user_data(BELL).into()) };
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

/// A ring with the options of this kernel for a single thread that waits in it.
fn build<S: Entry, C: CompletionEntry>(entries: u32) -> io::Result<IoUring<S, C>> {
    let mut common = IoUring::<S, C>::builder();
    common.setup_clamp().setup_submit_all().setup_cqsize(entries.saturating_mul(8));
    let mut best = common.clone();
    best.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    best.build(entries).or_else(|_| common.setup_coop_taskrun().build(entries))
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

//! A die: what it does, and what waits for it.

use super::die_gc::DieGc;
use super::pool::Pool;
use super::work::{NONE, Work};
use crate::ftl::Write;

/// One operation for the host on one die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) kind: JobKind,
    /// The command it is part of; `NONE` for a program of the write buffer.
    pub(crate) command: u32,
    pub(crate) pages: u32,
    pub(crate) queued: u64,
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// A row of this plane, with its number in its block.
    Read { plane: u32, row: u32 },
    /// This logical page.
    Program { write: Write },
    /// The pages in the slots of the write buffer from this one on.
    Destage { slot: u32 },
}

impl Job {
    pub(crate) fn new(kind: JobKind, command: u32, pages: u32, queued: u64) -> Self {
        Self { kind, command, pages, queued, next: NONE }
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.kind, JobKind::Read { .. })
    }

    /// The read of another plane that the same command began, if there is one.
    pub(crate) fn next_plane(&self) -> Option<u32> {
        (self.next != NONE).then_some(self.next)
    }

    /// Makes one command of this read and `next`.
    pub(crate) fn join(&mut self, next: u32) {
        self.next = next;
    }
}

/// What a die is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) work: Work,
    pub(crate) ends: u64,
    /// From when on the array is busy with a program or an erase, which can be suspended.
    pub(crate) array_from: u64,
    pub(crate) suspends: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Die {
    first: u32,
    last: u32,
    pub(crate) waiting: u32,
    /// How many reads have gone before the oldest waiting program.
    pub(crate) overtaken: u32,
    /// How often it has begun something.
    pub(crate) begun: u32,
    pub(crate) running: Option<Running>,
    pub(crate) suspended: Option<Running>,
    pub(crate) gc: DieGc,
}

impl Die {
    pub(crate) fn new() -> Self {
        Self {
            first: NONE,
            last: NONE,
            waiting: 0,
            overtaken: 0,
            begun: 0,
            running: None,
            suspended: None,
            gc: DieGc::default(),
        }
    }

    /// Whether it is erasing, or has suspended an erase.
    pub(crate) fn erases(&self) -> bool {
        [self.running, self.suspended].iter().flatten().any(|it| it.work == Work::Erase)
    }

    pub(crate) fn push(&mut self, jobs: &mut Pool<Job>, id: u32) {
        match self.last {
            NONE => self.first = id,
            last => jobs[last].next = id,
        }
        self.last = id;
        self.waiting += 1;
    }

    /// The waiting jobs, oldest first, each after the one before it.
    pub(crate) fn first_waiting(&self) -> (u32, u32) {
        (NONE, self.first)
    }

    /// The position after `(_, id)`.
    pub(crate) fn after(jobs: &Pool<Job>, (_, id): (u32, u32)) -> (u32, u32) {
        (id, jobs[id].next)
    }

    /// Takes the job at a position off the queue.
    pub(crate) fn unqueue(&mut self, jobs: &mut Pool<Job>, (before, id): (u32, u32)) {
        let next = jobs[id].next;
        match before {
            NONE => self.first = next,
            before => jobs[before].next = next,
        }
        if self.last == id {
            self.last = before;
        }
        jobs[id].next = NONE;
        self.waiting -= 1;
    }
}

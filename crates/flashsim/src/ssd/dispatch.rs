//! What a die does next.

use super::Ssd;
use super::die::{Die, JobKind, Running};
use super::event::Event;
use super::work::{NONE, Work};
use crate::ftl::{Place, Stream};
use crate::profile::CopyPath;

/// Which waiting jobs may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eligible {
    All,
    Reads,
    /// Those of other planes than this one.
    Beside(u32),
}

/// What a job begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Read,
    /// In this plane.
    Program(u32),
}

impl Ssd {
    /// Lets an idle die begin something.
    pub(super) fn kick(&mut self, id: u32) {
        let die = &self.dies[id as usize];
        if die.running.is_some() {
            return;
        }
        let blocked = self.waits_for_channel(id);
        if die.suspended.is_some() {
            match self.find(id, Eligible::Reads) {
                Some(_) if blocked => {}
                Some((at, begins)) => self.start(id, at, Eligible::Reads, begins),
                None => self.resume(id),
            }
            return;
        }
        if blocked || self.collect_next(id) {
            return;
        }
        let eligible = match (self.gc_blocks(id), self.suspend) {
            (true, None) => return,
            (true, Some(_)) => Eligible::Reads,
            (false, _) => Eligible::All,
        };
        if !self.serve(id, eligible) {
            self.await_idleness(id);
        }
    }

    /// Begins a waiting job. False if none may begin.
    pub(super) fn serve(&mut self, id: u32, eligible: Eligible) -> bool {
        if self.dies[id as usize].waiting == 0 {
            return false;
        }
        let Some((at, begins)) = self.find(id, eligible) else { return false };
        self.start(id, at, eligible, begins);
        true
    }

    /// The place in the queue of what begins next: the oldest job that may begin, or a read that
    /// overtakes it.
    fn find(&self, id: u32, eligible: Eligible) -> Option<((u32, u32), Begins)> {
        let die = &self.dies[id as usize];
        let mut found = None;
        let mut at = die.first_waiting();
        while at.1 != NONE {
            // Of programs the oldest counts.
            if found.is_none() || self.jobs[at.1].is_read() {
                match self.may_begin(id, at.1, eligible) {
                    Some(Begins::Read) => return Some((at, Begins::Read)),
                    Some(program) => {
                        found = Some((at, program));
                        if die.overtaken >= self.reads_first {
                            break;
                        }
                    }
                    None => {}
                }
            }
            at = Die::after(&self.jobs, at);
        }
        found
    }

    /// What a job begins with, if it may.
    fn may_begin(&self, id: u32, job: u32, eligible: Eligible) -> Option<Begins> {
        let write = match self.jobs[job].kind {
            JobKind::Read { plane, .. } => {
                return (eligible != Eligible::Beside(plane)).then_some(Begins::Read);
            }
            JobKind::Program { write } => write,
            JobKind::Destage { slot } => self.buffer.as_ref().expect("a write buffer").write(slot),
        };
        if eligible == Eligible::Reads {
            return None;
        }
        let plane = self.ftl.peek_plane(id, write)?;
        (eligible != Eligible::Beside(plane)).then_some(Begins::Program(plane))
    }

    fn start(&mut self, id: u32, at: (u32, u32), eligible: Eligible, begins: Begins) {
        let (before, job) = at;
        let die = &mut self.dies[id as usize];
        let overtakes = self.jobs[job].is_read() && before != NONE;
        die.overtaken = if overtakes { die.overtaken + 1 } else { 0 };
        self.unqueue(id, at);
        match begins {
            Begins::Read => {
                if self.multi_plane_reads {
                    self.join_planes(id, job, eligible);
                }
                self.start_read(id, job);
            }
            Begins::Program(plane) => self.start_program(id, job, plane),
        }
    }

    /// Takes a job off the queue: it begins.
    fn unqueue(&mut self, id: u32, at: (u32, u32)) {
        self.dies[id as usize].unqueue(&mut self.jobs, at);
        let job = at.1;
        let waited = self.now - self.jobs[job].queued;
        if self.jobs[job].is_read() {
            self.stats.read_queue.add(waited);
        } else {
            self.stats.write_queue.add(waited);
        }
        let command = self.jobs[job].command;
        if command != NONE && self.gc_since(id, self.jobs[job].queued) {
            self.commands[command].delayed_by_gc = true;
        }
    }

    /// Reads the row that `job` does in other planes too, of each the oldest job that waits for it.
    fn join_planes(&mut self, id: u32, job: u32, eligible: Eligible) {
        let (mut last, mut at) = (job, self.dies[id as usize].first_waiting());
        while at.1 != NONE {
            if !self.joins(job, at.1) || self.may_begin(id, at.1, eligible).is_none() {
                at = Die::after(&self.jobs, at);
                continue;
            }
            let next = Die::after(&self.jobs, at).1;
            self.unqueue(id, at);
            self.jobs[last].join(at.1);
            (last, at.1) = (at.1, next);
        }
    }

    /// Whether `other` reads the same row as `first`, in a plane that none of the jobs that have
    /// joined it reads.
    fn joins(&self, first: u32, other: u32) -> bool {
        let JobKind::Read { plane, row } = self.jobs[other].kind else { return false };
        let mut joined = Some(first);
        while let Some(job) = joined {
            let JobKind::Read { plane: taken, row: same } = self.jobs[job].kind else {
                return false;
            };
            if taken == plane || same != row {
                return false;
            }
            joined = self.jobs[job].next_plane();
        }
        true
    }

    fn start_read(&mut self, id: u32, job: u32) {
        let (mut reads, mut command) = (0, self.timing.read_command);
        let mut plane = Some(job);
        while let Some(at) = plane {
            reads = reads.max(self.array_reads());
            plane = self.jobs[at].next_plane();
            command += plane.map_or(0, |_| self.timing.plane_command);
        }
        let read = self.command(id, command) + reads * self.timing.read;
        if self.timing.shared_channel || self.jobs[job].next_plane().is_some() {
            self.run(id, Work::HostRead { job }, read, u64::MAX);
        } else {
            let ends = read + u64::from(self.jobs[job].pages) * self.timing.page_transfer;
            self.run(id, Work::Host { job }, ends, u64::MAX);
        }
    }

    /// How often a row has to be read until it can be.
    fn array_reads(&mut self) -> u64 {
        let mut reads = 1;
        if let Some(retry) = self.read_retry {
            let unlikely = (retry.probability * (1u64 << 53) as f64) as u64;
            while reads <= u64::from(retry.limit) && self.prng.next_u64() >> 11 < unlikely {
                reads += 1;
            }
        }
        self.stats.array_reads += reads;
        reads
    }

    fn start_program(&mut self, id: u32, job: u32, plane: u32) {
        self.ftl.take_turn(id, plane);
        let filled = match self.jobs[job].kind {
            JobKind::Destage { slot } => self.write_slots(slot, plane),
            JobKind::Program { write } => {
                self.ftl.stats.programmed += 1;
                self.ftl.write(write.lpn, plane, Stream::Host(write.stream))
            }
            JobKind::Read { .. } => false,
        };
        self.note_free(plane);
        let transfer = u64::from(self.jobs[job].pages) * self.timing.page_transfer;
        let array_from = self.command_with_data(id, self.timing.program_command, transfer);
        let ends = array_from + self.timing.program + u64::from(filled) * self.timing.summary;
        self.run(id, Work::Host { job }, ends, array_from);
    }

    /// Writes what is in these slots of the buffer, and completes the program.
    fn write_slots(&mut self, mut slot: u32, plane: u32) -> bool {
        let (mut left, mut filled) = (self.geometry().pages_per_program, false);
        // All have the stream of the first.
        let buffer = self.buffer.as_ref().expect("a write buffer");
        let stream = Stream::Host(buffer.write(slot).stream);
        while slot != NONE {
            let buffer = self.buffer.as_ref().expect("a write buffer");
            let (lpn, next) = (buffer.write(slot).lpn, buffer.next(slot));
            // A page that was trimmed or overwritten since is not programmed.
            if self.ftl.place(lpn) == Place::Buffer(slot) {
                filled |= self.ftl.write(lpn, plane, stream);
                self.ftl.stats.programmed += 1;
                left -= 1;
            }
            slot = next;
        }
        for _ in 0..left {
            filled |= self.ftl.pad(plane, stream);
        }
        filled
    }

    /// The die does `work` until `ends`.
    pub(super) fn run(&mut self, id: u32, work: Work, ends: u64, array_from: u64) {
        let die = &mut self.dies[id as usize];
        assert!(die.running.is_none(), "die {id} does one thing at a time");
        die.begun = die.begun.wrapping_add(1);
        die.running = Some(Running { work, ends, array_from, suspends: 0 });
        self.events.at(ends, Event::Die { die: id, begun: die.begun });
        self.await_channel(id);
    }

    /// A die has ended an operation, or a part of it.
    pub(super) fn die_done(&mut self, id: u32, begun: u32) {
        let die = &mut self.dies[id as usize];
        if die.begun != begun {
            return;
        }
        let running = die.running.take().expect("a die that is done did something");
        match running.work {
            Work::HostRead { .. } | Work::MoveRead { .. } if self.waits_for_channel(id) => {
                self.wait_for_channel(id, running);
            }
            Work::HostRead { .. } | Work::MoveRead { .. } => self.after_read(id, running.work),
            Work::Host { job } => {
                if let Some(next) = self.jobs[job].next_plane() {
                    self.transfer(id, next);
                }
                self.job_done(job);
            }
            Work::Move => self.page_moved(id),
            Work::Erase => self.block_erased(id),
            Work::Suspending => {}
        }
        self.kick(id);
    }

    /// What was read leaves the die.
    pub(super) fn after_read(&mut self, id: u32, work: Work) {
        match work {
            Work::HostRead { job } => self.transfer(id, job),
            Work::MoveRead { pages, filled } => self.program_moved(id, pages, filled),
            Work::Host { .. } | Work::Move | Work::Erase | Work::Suspending => {}
        }
    }

    fn transfer(&mut self, id: u32, job: u32) {
        let length = u64::from(self.jobs[job].pages) * self.timing.page_transfer;
        let ends = self.use_channel(id, length);
        self.run(id, Work::Host { job }, ends, u64::MAX);
    }

    fn program_moved(&mut self, id: u32, pages: u32, filled: bool) {
        let array_from = match self.timing.copy {
            CopyPath::CopyBack => self.now,
            CopyPath::Controller => {
                let data = 2 * u64::from(pages) * self.timing.page_transfer;
                self.use_channel(id, data + self.timing.program_command)
            }
        };
        let ends = array_from + self.timing.program + u64::from(filled) * self.timing.summary;
        self.run(id, Work::Move, ends, array_from);
    }

    /// A read has been queued: suspends the die's operation, if it can be suspended and that gains
    /// time.
    pub(super) fn suspend_for_read(&mut self, id: u32) {
        let Some(suspend) = self.suspend else { return };
        let die = &mut self.dies[id as usize];
        let Some(mut running) = die.running else { return };
        let possible = match running.work {
            Work::Erase => suspend.erase,
            Work::Host { .. } | Work::Move => suspend.program,
            Work::HostRead { .. } | Work::MoveRead { .. } | Work::Suspending => false,
        };
        let ready = self.now + self.timing.suspend;
        if !possible
            || running.suspends >= suspend.limit
            || self.now < running.array_from
            || ready >= running.ends
        {
            return;
        }
        running.suspends += 1;
        running.ends -= self.now;
        die.suspended = Some(running);
        die.running = None;
        self.stats.suspends += 1;
        self.run(id, Work::Suspending, ready, u64::MAX);
    }

    /// Resumes the suspended operation.
    fn resume(&mut self, id: u32) {
        let die = &mut self.dies[id as usize];
        let Some(suspended) = die.suspended.take() else { return };
        self.run(id, suspended.work, self.now + suspended.ends, self.now);
        if let Some(running) = &mut self.dies[id as usize].running {
            running.suspends = suspended.suspends;
        }
    }
}

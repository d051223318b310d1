//! Commands: how they are cut into jobs, and when they end.

use core::time::Duration;

use det::Instant;

use super::die::{Job, JobKind};
use super::event::Event;
use super::work::NONE;
use super::{Completion, Op, Ssd};
use crate::ftl::{Place, Write};

impl Ssd {
    /// A command has arrived, a write with all its data.
    pub(super) fn arrive(&mut self, id: u32) {
        let command = self.commands[id].command;
        match command.op {
            Op::Read => self.read(id),
            Op::Write if self.buffer.is_some() => {
                self.stats.pages_written += u64::from(command.pages);
                self.write_buffered(id);
            }
            Op::Write => {
                self.stats.pages_written += u64::from(command.pages);
                for lpn in command.page..command.page + command.pages {
                    let write = Write { lpn, stream: command.stream };
                    let die = self.choose_die(write);
                    self.queue(die, JobKind::Program { write }, id, 1);
                }
            }
            Op::Trim => {
                self.stats.pages_trimmed += u64::from(command.pages);
                for lpn in command.page..command.page + command.pages {
                    self.ftl.trim(lpn);
                }
                self.complete(id);
            }
            Op::Flush => self.flush(id),
        }
    }

    /// One job per row that holds pages of the command one after the other.
    fn read(&mut self, id: u32) {
        let command = self.commands[id].command;
        let g = *self.geometry();
        let (mut row, mut pages, mut jobs, mut elsewhere) = (NONE, 0, 0, 0);
        self.commands[id].left = u32::MAX;
        for lpn in command.page..command.page + command.pages {
            let Place::Flash(ppa) = self.ftl.place(lpn) else {
                elsewhere += 1;
                continue;
            };
            if ppa / g.pages_per_row != row && pages > 0 {
                self.queue_read(row, id, pages);
                (jobs, pages) = (jobs + 1, 0);
            }
            row = ppa / g.pages_per_row;
            pages += 1;
        }
        if pages > 0 {
            self.queue_read(row, id, pages);
            jobs += 1;
        }
        self.stats.pages_read += u64::from(command.pages);
        self.stats.pages_read_elsewhere += elsewhere;
        self.commands[id].left = jobs;
        if jobs == 0 {
            self.answer(id);
        }
    }

    fn queue_read(&mut self, row: u32, id: u32, pages: u32) {
        let g = self.geometry();
        let rows_per_block = g.pages_per_block / g.pages_per_row;
        let plane = g.plane_of(row / rows_per_block);
        let die = g.die_of(plane);
        self.queue(die, JobKind::Read { plane, row: row % rows_per_block }, id, pages);
    }

    /// Puts as many pages into the write buffer as there is room for.
    fn write_buffered(&mut self, id: u32) {
        let buffer = self.buffer.as_mut().expect("a write buffer");
        if !buffer.writers.is_empty() || !self.fill_buffer(id) {
            self.stats.buffer_full += 1;
            let buffer = self.buffer.as_mut().expect("a write buffer");
            buffer.writers.push_back(id);
        }
    }

    /// True if all pages of the command are in the buffer: it has been answered then.
    fn fill_buffer(&mut self, id: u32) -> bool {
        let program = self.geometry().pages_per_program;
        let command = self.commands[id].command;
        while self.commands[id].left > 0 {
            let lpn = command.page + command.pages - self.commands[id].left;
            if let Place::Buffer(_) = self.ftl.place(lpn) {
                self.stats.pages_coalesced += 1;
            } else {
                let buffer = self.buffer.as_mut().expect("a write buffer");
                let write = Write { lpn, stream: command.stream };
                let Some(slot) = buffer.add(write) else { return false };
                self.ftl.put_in_buffer(lpn, slot);
                self.destage(command.stream, program);
            }
            self.commands[id].left -= 1;
        }
        self.answer(id);
        true
    }

    /// Queues a program of what the buffer has gathered of a stream, if there are at least `pages` pages.
    pub(super) fn destage(&mut self, stream: u16, pages: u32) {
        let buffer = self.buffer.as_mut().expect("a write buffer");
        let Some(batch) = buffer.batch(stream, pages) else { return };
        let write = buffer.write(batch.slot);
        let die = self.choose_die(write);
        self.queue(die, JobKind::Destage { slot: batch.slot }, NONE, batch.pages);
    }

    fn flush(&mut self, id: u32) {
        let waits = self.buffer.as_ref().is_some_and(|buffer| !buffer.power_safe);
        if !waits {
            self.complete(id);
            return;
        }
        (0..self.ftl.streams()).for_each(|stream| self.destage(stream, 1));
        self.buffer.as_mut().expect("a write buffer").flush(id);
        self.end_flushes();
    }

    fn end_flushes(&mut self) {
        while let Some(flush) = self.buffer.as_mut().and_then(|buffer| buffer.flushed()) {
            self.complete(flush);
        }
    }

    fn choose_die(&mut self, write: Write) -> u32 {
        let dies = &self.dies;
        self.ftl.choose_die(write, |die| {
            let die = &dies[die as usize];
            die.waiting + u32::from(die.running.is_some())
        })
    }

    fn queue(&mut self, die: u32, kind: JobKind, command: u32, pages: u32) {
        if command != NONE && self.waits_for_erase(die) {
            self.commands[command].met_erase = true;
        }
        let job = self.jobs.add(Job::new(kind, command, pages, self.now));
        self.dies[die as usize].push(&mut self.jobs, job);
        if matches!(kind, JobKind::Read { .. }) {
            self.suspend_for_read(die);
        }
        self.kick(die);
    }

    /// A job of the host has ended.
    pub(super) fn job_done(&mut self, id: u32) {
        let job = self.jobs[id];
        self.jobs.remove(id);
        match job.kind {
            JobKind::Destage { slot } => {
                self.buffer.as_mut().expect("a write buffer").release(slot);
                self.end_flushes();
                self.admit_writers();
            }
            JobKind::Read { .. } | JobKind::Program { .. } => {
                let pending = &mut self.commands[job.command];
                pending.left -= 1;
                if pending.left == 0 {
                    self.answer(job.command);
                }
            }
        }
    }

    fn admit_writers(&mut self) {
        while let Some(&writer) = self.buffer.as_ref().and_then(|buffer| buffer.writers.front()) {
            if !self.fill_buffer(writer) {
                return;
            }
            self.buffer.as_mut().expect("a write buffer").writers.pop_front();
        }
    }

    /// All is done; what was read goes to the host.
    fn answer(&mut self, id: u32) {
        let command = self.commands[id].command;
        let length = self.timing.link(command.pages);
        if command.op == Op::Read && length > 0 {
            let at = self.link.send(self.now, length);
            self.events.at(at, Event::Answered { command: id });
        } else {
            self.complete(id);
        }
    }

    pub(super) fn complete(&mut self, id: u32) {
        let pending = self.commands[id];
        self.commands.remove(id);
        match pending.command.op {
            Op::Read => self.stats.reads += 1,
            Op::Write => self.stats.writes += 1,
            Op::Trim | Op::Flush => {}
        }
        self.stats.delayed_by_gc += u64::from(pending.delayed_by_gc);
        self.stats.erase_hits += u64::from(pending.met_erase);
        self.done.push(Completion {
            tag: pending.command.tag,
            op: pending.command.op,
            at: Instant(self.now),
            latency: Duration::from_nanos(self.now - pending.arrived),
            delayed_by_gc: pending.delayed_by_gc,
            met_erase: pending.met_erase,
        });
    }
}

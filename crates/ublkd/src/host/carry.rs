//! Carries out the actions of a machine, and of the engines of its groups.

use raidcore::engine::{Action, Io, IoOp, JobId};
use raidcore::meta::checksum;
use raidcore::units::BLOCK_BYTES;
use raidlog::array::STOP;
use raidlog::{Actions, GroupId, Machine, ONLY};

use super::data::Data;
use super::notes::Happened;
use crate::arena::{Arena, ENTRY_BLOCKS};
use crate::compute;
use crate::ops::IoName;
use crate::ring::Source;

impl Data {
    /// Carries out all actions of a step.
    pub(super) fn carry_out_all(&mut self, actions: &mut Actions) {
        self.checksums.clear();
        for action in actions.of_array.drain(..) {
            self.carry_out(ONLY, action);
        }
        if self.log.is_some() && !self.is_as_said() {
            actions.of_log.clear();
        }
        for action in actions.of_log.drain(..) {
            self.carry_out_of_log(action);
        }
    }

    pub(super) fn carry_out(&mut self, group: GroupId, action: Action) {
        match action {
            Action::Io(io) => {
                self.steering[group.index()].began(self.now, &io);
                self.begin(group, io);
            }
            Action::Compute(job) => self.compute(group, job),
            Action::Complete { tag, result } => self.complete(tag, result),
            Action::Answer { number: STOP, result } => self.stopped = Some(result),
            Action::Answer { number, result } => self.answer(number, result),
            Action::Note(note) => {
                self.remember_former(group, &note);
                self.note(Happened::Array { group, note });
            }
            Action::Release(device) => self.ring.close(&mut self.arena, device),
        }
    }

    fn begin(&mut self, group: GroupId, io: Io) {
        let (now, range) = (self.now, (io.at, io.blocks));
        let who = (IoName { group, id: io.id }, io.device);
        let (machine, ring, arena) = (&self.machine, &mut self.ring, &mut self.arena);
        let place = |mem| self.places.place(machine, group, mem);
        match io.op {
            IoOp::Read(to) => ring.read(now, arena, who, place(to), range),
            IoOp::Write { from, fua } => {
                let from = Source::Mem(place(from));
                ring.write(now, arena, who, from, fua, range);
            }
            IoOp::Store(page) => {
                let pages = arena.take_pages(1);
                arena.fill_pages(pages, 0..1, |_, into| {
                    machine.engine(group).encode(page, io.device, into);
                });
                ring.write(now, arena, who, Source::Pages(pages), true, range);
            }
            IoOp::Journal => self.journal(group, io),
            IoOp::Flush => ring.flush(now, arena, who),
            IoOp::Discard => ring.discard(now, arena, who, range),
        }
    }

    /// Begins to write a journal entry. A small one is copied into one piece of registered memory,
    /// together with those that it continues: that is cheaper than having the kernel look up
    /// scattered blocks.
    fn journal(&mut self, group: GroupId, io: Io) {
        let engine = self.machine.engine(group);
        let place = |mem| self.places.place(&self.machine, group, mem);
        let header = engine.journal_header_blocks(io.id);
        // The engine lists the copies of an entry, one holder after the other.
        let (known, mut next) = (&mut self.checksums, 0);
        let mut encode = |arena: &Arena, head: &mut [u8]| {
            // The header of a ring that was dropped meanwhile can't be encoded: old content of the
            // pages must not be taken for one.
            head.fill(0);
            let crc_of = |mem| {
                let mem = place(mem);
                if known.get(next).is_none_or(|&(of, _)| of != mem) {
                    known.truncate(next);
                    known.push((mem, checksum(arena.blocks(mem, 1))));
                }
                next += 1;
                known[next - 1].1
            };
            engine.encode_journal(io.id, crc_of, head);
        };
        let (now, who) = (self.now, (IoName { group, id: io.id }, io.device));
        let (ring, arena) = (&mut self.ring, &mut self.arena);
        if io.blocks <= ENTRY_BLOCKS {
            ring.write_behind(now, arena, who, (io.at, io.blocks), |arena, into| {
                let (head, mut rest) = into.split_at_mut(header as usize * BLOCK_BYTES);
                encode(arena, head);
                engine.journal_payload(io.id, |mem, blocks| {
                    let from = arena.blocks(place(mem), blocks);
                    let (to, after) = std::mem::take(&mut rest).split_at_mut(from.len());
                    to.copy_from_slice(from);
                    rest = after;
                });
            });
        } else {
            let pages = arena.take_pages(header);
            arena.fill_pages(pages, 0..header, encode);
            ring.gather(now, arena, who, (pages, header), io.at, |visit| {
                engine.journal_payload(io.id, |mem, blocks| visit(place(mem), blocks));
            });
        }
    }

    fn compute(&mut self, group: GroupId, job: JobId) {
        let mut found = std::mem::take(&mut self.found);
        let (kernels, arena) = (self.kernels, &mut self.arena);
        // Each operand of each step is translated, which costs nothing for an array.
        match &self.machine {
            Machine::Array(engine) => engine.steps(job, |step, blocks| {
                found.extend(compute::run(kernels, arena, |mem| mem, step, blocks));
            }),
            machine @ Machine::Log(array) => array.array(group).steps(job, |step, blocks| {
                let place = |mem| self.places.place(machine, group, mem);
                found.extend(compute::run(kernels, arena, place, step, blocks));
            }),
        }
        found.drain(..).for_each(|found| self.machine.found(group, job, found));
        self.found = found;
        self.computed.push_back((group, job));
    }
}

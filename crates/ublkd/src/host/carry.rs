//! Carries out what a machine says, and the engines of its groups.

use raidcore::engine::{Action, Io, IoOp, JobId};
use raidcore::meta::checksum;
use raidcore::units::BLOCK_BYTES;
use raidlog::array::STOP;
use raidlog::{Actions, GroupId, ONLY};

use super::data::Data;
use super::notes::Happened;
use crate::arena::{Arena, ENTRY_BLOCKS};
use crate::compute;
use crate::ops::IoName;
use crate::ring::Source;

impl Data {
    /// Carries out what a step has come to.
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
        match io.op {
            IoOp::Read(to) => ring.read(now, arena, who, to, range),
            IoOp::Write { from, fua } => {
                ring.write(now, arena, who, Source::Mem(from), fua, range);
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

    /// Begins to write an entry of the journal: a small one in one piece, and with those that it
    /// continues, since copying a few blocks into registered memory takes less than the kernel takes
    /// to find scattered ones.
    fn journal(&mut self, group: GroupId, io: Io) {
        let machine = &self.machine;
        let header = machine.engine(group).journal_header_blocks(io.id);
        // The holders of an entry's copies are told one after the other.
        let (known, mut next) = (&mut self.checksums, 0);
        let mut encode = |arena: &Arena, head: &mut [u8]| {
            // A ring that was dropped meanwhile has no header to encode: what the pages held before
            // must not be taken for one.
            head.fill(0);
            let crc_of = |mem| {
                if known.get(next).is_none_or(|&(of, _)| of != mem) {
                    known.truncate(next);
                    known.push((mem, checksum(arena.blocks(mem, 1))));
                }
                next += 1;
                known[next - 1].1
            };
            machine.encode_journal(group, io.id, crc_of, head);
        };
        let (now, who) = (self.now, (IoName { group, id: io.id }, io.device));
        let (ring, arena) = (&mut self.ring, &mut self.arena);
        if io.blocks <= ENTRY_BLOCKS {
            ring.write_behind(now, arena, who, (io.at, io.blocks), |arena, into| {
                let (head, mut rest) = into.split_at_mut(header as usize * BLOCK_BYTES);
                encode(arena, head);
                machine.journal_payload(group, io.id, |mem, blocks| {
                    let from = arena.blocks(mem, blocks);
                    let (to, after) = std::mem::take(&mut rest).split_at_mut(from.len());
                    to.copy_from_slice(from);
                    rest = after;
                });
            });
        } else {
            let pages = arena.take_pages(header);
            arena.fill_pages(pages, 0..header, encode);
            ring.gather(now, arena, who, (pages, header), io.at, |visit| {
                machine.journal_payload(group, io.id, visit);
            });
        }
    }

    fn compute(&mut self, group: GroupId, job: JobId) {
        let mut found = std::mem::take(&mut self.found);
        let (kernels, arena) = (self.kernels, &mut self.arena);
        self.machine.steps(group, job, |step, blocks| {
            found.extend(compute::run(kernels, arena, step, blocks));
        });
        found.drain(..).for_each(|found| self.machine.found(group, job, found));
        self.found = found;
        self.computed.push_back((group, job));
    }
}

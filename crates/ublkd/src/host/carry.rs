//! The data thread as a machine's host: what it says is carried out over the ring and the arena.

use det::Instant;
use raidcore::engine::{Io, IoId, IoOp, RequestError, Stream};
use raidcore::meta::checksum;
use raidcore::plan::{BoundStep, Found};
use raidcore::units::{BLOCK_BYTES, Mem, Tag};
use raidlog::array::Looking;
use raidlog::host::{Host, Memory, Said, Work};
use raidlog::{GroupId, Machine, codec};

use super::data::Data;
use super::notes::Happened;
use crate::arena::{Arena, ENTRY_BLOCKS};
use crate::compute;
use crate::ops::IoName;
use crate::ring::{Ring, Source};

impl Memory for Arena {
    fn compute(&mut self, step: BoundStep<'_>, blocks: u32) -> Option<Found> {
        compute::run(self, step, blocks)
    }

    fn checksum(&self, of: Mem) -> u32 {
        codec::checksum(self.blocks(of, 1))
    }

    fn put(&mut self, to: Mem, bytes: &[u8], _: Option<(GroupId, u64)>) {
        self.put(to, bytes);
    }

    fn copy(&mut self, from: Mem, to: Mem, blocks: u32) {
        self.copy(from, to, blocks);
    }

    fn show(&self, looking: &Looking, to: impl FnOnce(&[u8])) {
        to(self.blocks(looking.from, looking.blocks));
    }
}

impl Host for Data {
    type Memory = Arena;

    fn parts(&mut self) -> (&mut Machine, &mut Work, &mut Arena) {
        (&mut self.machine, &mut self.work, &mut self.arena)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn stepped(&mut self) -> bool {
        if cfg!(debug_assertions)
            && let Machine::Array(engine) = &self.machine
        {
            engine.check();
        }
        if let Machine::Array(engine) = &self.machine
            && engine.capacity() != self.capacity
        {
            self.capacity = engine.capacity();
            self.submissions.size().grow(self.capacity);
        }
        self.checksums.clear();
        let machine = &self.machine;
        let as_said = self.log.as_mut().is_none_or(|log| log.is_as_said(machine));
        if !as_said {
            tracing::error!(
                "the log volume is not what its members' superblocks say; nothing was written"
            );
            self.broken = true;
        }
        as_said
    }

    fn begin(&mut self, group: GroupId, io: Io) {
        self.steering[group.index()].began(self.now, &io);
        let (now, range) = (self.now, (io.at, io.blocks));
        let who = (IoName { group, id: io.id }, io.device);
        let (machine, ring, arena) = (&self.machine, &mut self.ring, &mut self.arena);
        match io.op {
            IoOp::Read(to) => ring.read(now, arena, who, to, range),
            IoOp::Write { from, fua } => {
                let stream = stream(machine, ring, group, io.id);
                ring.write(now, arena, who, Source::Mem(from), (fua, stream), range);
            }
            IoOp::Store(page) => {
                let stream = stream(machine, ring, group, io.id);
                let pages = arena.take_pages(1);
                arena.fill_pages(pages, 0..1, |_, into| {
                    machine.engine(group).encode(page, io.device, into);
                });
                ring.write(now, arena, who, Source::Pages(pages), (true, stream), range);
            }
            IoOp::Journal => self.journal(group, io),
            IoOp::Flush => ring.flush(now, arena, who),
            IoOp::Discard => {
                let rewritten = machine.engine(group).is_rewritten_soon(io.id);
                ring.discard(now, arena, who, range, rewritten);
            }
        }
    }

    fn complete(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.request_ended(tag, result);
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Answer { number, result } => self.answer(number, result),
            Said::Array(group, note) => {
                self.remember_former(group, &note);
                self.note(Happened::Array { group, note });
            }
            Said::Volume(note) => self.note(Happened::Volume(note)),
            Said::Release(_, device) => self.ring.close(&mut self.arena, device),
            Said::Lost(error) => {
                tracing::error!("the log volume can't be started: {error}");
                self.shared.lose(error);
            }
            Said::Stopped(result) => self.stopped = Some(result),
        }
    }
}

/// What a write is of, if a member keeps that apart.
fn stream(machine: &Machine, ring: &Ring, group: GroupId, io: IoId) -> Stream {
    if ring.keeps_streams() { machine.engine(group).stream(io) } else { Stream::Data }
}

impl Data {
    /// Begins to write an entry of the journal: a small one in one piece, and with those that it
    /// continues, since copying a few blocks into registered memory takes less than the kernel takes
    /// to find scattered ones.
    fn journal(&mut self, group: GroupId, io: Io) {
        let machine = &self.machine;
        let header = machine.engine(group).journal_header_blocks(io.id);
        let stream = stream(machine, &self.ring, group, io.id);
        // The holders of an entry's copies are told one after the other.
        let (known, mut next) = (&mut self.checksums, 0);
        let mut encode = |arena: &Arena, head: &mut [u8]| {
            // The header of a ring that was dropped meanwhile can't be encoded: old content of the
            // pages must not be taken for one.
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
            ring.write_behind(now, arena, who, (io.at, io.blocks), stream, |arena, into| {
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
            ring.gather(now, arena, who, (pages, header), (io.at, stream), |visit| {
                machine.journal_payload(group, io.id, visit);
            });
        }
    }
}

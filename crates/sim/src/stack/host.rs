//! The host: carries out the log array's actions in any order, and checks that they are allowed.

use std::rc::Rc;
use std::time::Duration;

use raidcore::engine::{self, IoError, IoOp};
use raidcore::meta::checksum;
use raidcore::units::BLOCK_BYTES;
use raidlog::array::{Action, Input, LogMem};
use raidlog::{Answer, BatchId, GroupId, Pages};

use super::memory::{Below, on};
use super::under_way::{Looking, Payload, Pending};
use super::world::World;
use crate::arithmetic;
use crate::disk::{Block, Kept, Meta};

impl World {
    /// Passes an input to the log array, and carries out its actions.
    pub(super) fn step(&mut self, input: Input<'_>) {
        self.trace(format_args!("{}", short(&input)));
        let mut actions = Vec::new();
        self.array.step(self.now, input, &mut actions);
        self.summary.events += 1;
        if let (Some(volume), true) = (self.array.volume(), self.memory.segments.is_empty()) {
            let blocks = self.shape.segment_blocks() as usize;
            self.memory.segments = vec![vec![Block::ZERO; blocks]; volume.buffers().into()];
        }
        for action in actions {
            self.trace(format_args!("  {action:?}"));
            self.act(action);
        }
        self.give_up();
        // The check looks at every block.
        if self.summary.events.is_multiple_of(64) {
            self.check();
        }
    }

    pub(super) fn check(&self) {
        for group in self.all_groups() {
            self.array.array(group).check();
        }
        if let Some(volume) = self.array.volume() {
            volume.check();
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Array { group, action: engine::Action::Io(io) } => self.begin(group, io),
            Action::Array { group, action: engine::Action::Compute(job) } => {
                self.computes.push((group, job));
            }
            Action::Array { group, action: engine::Action::Release(device) } => {
                self.released.push((group, device));
            }
            Action::Array { .. } => {}
            Action::Summary { batch, buffer, first, .. } => self.summary_of(batch, buffer, first),
            Action::Pages { group, pages, blocks, slot } => self.pages(group, pages, blocks, slot),
            Action::Look { look, slot, blocks, checksums, .. } => {
                self.looks.push(Looking { look, slot, blocks, checksums });
            }
            Action::Copy { from, to, blocks } => {
                for n in 0..blocks {
                    let block = self.memory.block(on(from, n));
                    self.memory.put(on(to, n), block);
                }
            }
            Action::Complete { tag, result } => {
                self.digest.add(u64::from(tag.0) << 1 | u64::from(result.is_ok()));
                let from = &self.memory.payloads[usize::from(tag.0)];
                let to = &mut self.users.payloads[usize::from(tag.0)];
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from.user());
                let beyond = self.beyond;
                self.users.completed(tag, result, |_| beyond);
            }
            Action::Note(note) => self.note(note),
            Action::Lost(error) => self.lost = Some(error),
            Action::Stopped(result) => {
                assert_eq!(result, Ok(()), "a stop");
                self.stopped = true;
            }
        }
    }

    fn summary_of(&mut self, batch: BatchId, buffer: u16, first: u32) {
        let volume = self.array.volume().expect("who writes a batch");
        let mut bytes = vec![0xaa; volume.shape().summary() as usize * BLOCK_BYTES];
        let segment = &mut self.memory.segments[usize::from(buffer)];
        volume.encode_summary(batch, &mut bytes, |at| segment[at as usize].checksum());
        for (block, bytes) in segment[first as usize..].iter_mut().zip(bytes.as_chunks().0) {
            *block = Block::of(bytes);
        }
    }

    fn pages(&mut self, group: GroupId, pages: Pages, blocks: u32, slot: u16) {
        let volume = self.array.volume().expect("who stores pages");
        for n in 0..blocks {
            let page = match pages {
                Pages::Header => Pages::Header,
                Pages::From(first) => Pages::From(first + n),
            };
            let mut bytes = [0xaa; BLOCK_BYTES];
            volume.encode_page(group, page, &mut bytes);
            self.memory.slots[usize::from(slot)][n as usize] = Block::of(&bytes);
        }
    }

    fn blocks(&self, place: LogMem, count: u32) -> Vec<Block> {
        (0..count).map(|n| self.memory.block(on(place, n))).collect()
    }

    fn begin(&mut self, group: GroupId, io: engine::Io) {
        self.digest.add(io.at.0 << 16 | u64::from(io.device.0) << 8 | u64::from(io.blocks));
        for other in self.ios.iter().filter(|other| other.group == group) {
            assert!(!meet(&io, &other.io), "{io:?} begins amid {:?}", other.io);
        }
        let place = match io.op {
            IoOp::Read(mem) | IoOp::Write { from: mem, .. } => Some(self.array.place(group, mem)),
            IoOp::Store(_) | IoOp::Journal | IoOp::Flush | IoOp::Discard => None,
        };
        let payload = match (io.op, place) {
            (IoOp::Write { .. }, Some(place)) => Payload::Data(self.blocks(place, io.blocks)),
            (IoOp::Store(page), _) => {
                let mut bytes = [0; BLOCK_BYTES];
                self.array.array(group).encode(page, io.device, &mut bytes);
                Payload::Meta(vec![Rc::new(bytes)])
            }
            (IoOp::Journal, _) => Payload::Meta(self.journal_entry(group, &io)),
            _ => Payload::None,
        };
        let mark = self.groups[group.index()].disks[io.device.0 as usize].flush_mark();
        self.ios.push(Pending { group, io, place, payload, mark });
    }

    fn journal_entry(&self, group: GroupId, io: &engine::Io) -> Vec<Meta> {
        let engine = self.array.array(group);
        let place = |mem| self.array.place(group, mem);
        let mut header = vec![0; engine.journal_header_blocks(io.id) as usize * BLOCK_BYTES];
        let crc_of = |mem| checksum(&self.memory.block(place(mem)).bytes());
        engine.encode_journal(io.id, crc_of, &mut header);
        let mut blocks: Vec<Meta> = header.as_chunks().0.iter().map(|b| Rc::new(*b)).collect();
        engine.journal_payload(io.id, |mem, count| {
            let payload = self.blocks(place(mem), count);
            blocks.extend(payload.iter().map(|block| Rc::new(block.bytes())));
        });
        assert_eq!(blocks.len(), io.blocks as usize, "an entry is as long as it says");
        blocks
    }

    /// Ends something that is under way.
    pub(super) fn complete_one(&mut self) {
        self.now = self.now + Duration::from_micros(self.source.below(50));
        let (ios, computes) = (self.ios.len(), self.computes.len());
        let all = ios + computes + self.looks.len();
        let pick = self.source.below(all as u64) as usize;
        let hangs = |at: &usize| self.ios.get(*at).is_some_and(|io| self.does_hang(io));
        let Some(pick) = (pick..all).chain(0..pick).find(|at| !hangs(at)) else {
            // Nothing else is under way: the wait is over.
            return self.hangs_end();
        };
        if pick < ios {
            self.end_io(pick);
        } else if pick < ios + computes {
            self.compute(pick - ios);
        } else {
            self.look(pick - ios - computes);
        }
    }

    fn end_io(&mut self, index: usize) {
        let pending = self.ios.swap_remove(index);
        let result = self.carry_out(&pending);
        let Pending { group, io, .. } = pending;
        let input = engine::Input::IoDone { id: io.id, result };
        self.step(Input::Array { group, input });
    }

    fn carry_out(&mut self, pending: &Pending) -> Result<(), IoError> {
        let Pending { group, io, place, payload, mark } = pending;
        if let (Payload::Data(data), Some(place)) = (payload, *place) {
            assert!(self.blocks(place, io.blocks) == *data, "memory changed during {io:?}");
        }
        let disk = &mut self.groups[group.index()].disks[io.device.0 as usize];
        if disk.gone {
            return Err(IoError::Gone);
        }
        if let Some(error) = disk.fails(&io.op) {
            self.write_some(pending);
            return Err(error);
        }
        match (io.op, *place) {
            (IoOp::Read(_), Some(place)) => {
                let extent = io.at.0..io.at.0 + u64::from(io.blocks);
                if disk.bad.range(extent).next().is_some() {
                    return Err(IoError::Medium);
                }
                for (n, at) in (0..io.blocks).zip(io.at.0..) {
                    let block = match at < disk.meta_blocks() {
                        true => Block::of(disk.meta(at)),
                        false => disk.data(at).clone(),
                    };
                    self.memory.put(on(place, n), block);
                }
            }
            (IoOp::Write { fua, .. }, _) => self.write(pending, fua, |_| true),
            (IoOp::Store(_) | IoOp::Journal, _) => self.write(pending, true, |_| true),
            (IoOp::Flush, _) => disk.flushed(*mark),
            (IoOp::Discard, _) => disk.discard(&mut self.source, io.at.0, io.blocks.into()),
            (IoOp::Read(_), None) => panic!("{io:?} reads to nowhere"),
        }
        Ok(())
    }

    fn write(&mut self, pending: &Pending, fua: bool, which: impl Fn(u64) -> bool) {
        let Pending { group, io, payload, .. } = pending;
        let disk = &mut self.groups[group.index()].disks[io.device.0 as usize];
        match payload {
            Payload::None => {}
            Payload::Data(data) => {
                for (at, block) in (io.at.0..).zip(data).filter(|&(at, _)| which(at)) {
                    disk.write_data(at, block.clone(), fua);
                }
            }
            Payload::Meta(meta) => {
                for (at, block) in (io.at.0..).zip(meta).filter(|&(at, _)| which(at)) {
                    disk.write_meta(at, Rc::clone(block), fua);
                }
            }
        }
    }

    /// I/O under way when the host died has happened completely, in part, or not at all.
    pub(super) fn lose_pending(&mut self) {
        self.end_given_up();
        for pending in std::mem::take(&mut self.ios) {
            let disk = &self.groups[pending.group.index()].disks[pending.io.device.0 as usize];
            if !disk.gone {
                self.write_some(&pending);
            }
        }
        self.computes.clear();
        self.looks.clear();
    }

    /// Some blocks of a write that fails or is cut off by a power failure are written.
    pub(super) fn write_some(&mut self, pending: &Pending) {
        let chosen = self.source.below(1 << 32);
        self.write(pending, false, |at| chosen >> (at % 32) & 1 != 0);
    }

    fn compute(&mut self, index: usize) {
        let (group, job) = self.computes.swap_remove(index);
        for (step, blocks) in arithmetic::steps(self.array.array(group), job) {
            let mut below = Below { array: &self.array, group, memory: &mut self.memory };
            let found = arithmetic::carry_out(self.kernels, &mut below, step, blocks);
            if let Some(found) = found {
                self.array.found(group, job, found);
            }
        }
        self.step(Input::Array { group, input: engine::Input::Computed(job) });
    }

    fn look(&mut self, index: usize) {
        let Looking { look, slot, blocks, checksums } = self.looks.swap_remove(index);
        let blocks = self.blocks(LogMem::Slot { slot, at: 0 }, blocks);
        if checksums {
            self.summary.proven += blocks.len() as u64;
            let sums: Vec<u32> = blocks.iter().map(Block::checksum).collect();
            return self.step(Input::Seen { look, answer: Answer::Checksums(&sums) });
        }
        let bytes: Vec<u8> = blocks.iter().flat_map(Block::bytes).collect();
        self.step(Input::Seen { look, answer: Answer::Bytes(&bytes) });
    }
}

/// Whether two I/Os of an array overlap, and one of them writes.
fn meet(io: &engine::Io, other: &engine::Io) -> bool {
    let writes = |io: &engine::Io| !matches!(io.op, IoOp::Read(_));
    let end = |io: &engine::Io| io.at.0 + u64::from(io.blocks);
    let flushes = io.op == IoOp::Flush || other.op == IoOp::Flush;
    let meet = io.at.0 < end(other) && other.at.0 < end(io);
    !flushes && io.device == other.device && meet && (writes(io) || writes(other))
}

fn short(input: &Input<'_>) -> String {
    match input {
        Input::Seen { look, .. } => format!("Seen {look:?}"),
        Input::Request(_) | Input::Array { .. } | Input::Stop | Input::Tick => format!("{input:?}"),
    }
}

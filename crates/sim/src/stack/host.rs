//! The host: does what the log array says, in any order, and checks that it may be done.

use std::rc::Rc;
use std::time::Duration;

use raidcore::engine::{self, IoError, IoOp};
use raidcore::meta::checksum;
use raidcore::units::{BLOCK_BYTES, Mem};
use raidlog::array::{Action, Input};
use raidlog::{Actions, Answer, BatchId, GroupId, Pages};

use super::under_way::{Looking, Payload, Pending};
use super::world::World;
use crate::arithmetic;
use crate::disk::{Block, Kept, Meta};

impl World {
    /// Tells the log array something, and does what it answers.
    pub(super) fn step(&mut self, input: Input<'_>) {
        self.trace(format_args!("{}", short(&input)));
        let mut actions = Actions::default();
        self.machine.step(self.now, input, &mut actions);
        self.summary.events += 1;
        for action in actions.of_log {
            self.trace(format_args!("  {action:?}"));
            self.act(action);
        }
        self.give_up();
        // It looks at every block.
        if self.summary.events.is_multiple_of(64) {
            self.check();
        }
    }

    pub(super) fn check(&self) {
        for group in self.all_groups() {
            self.machine.engine(group).check();
        }
        if let Some(volume) = self.machine.volume() {
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
            Action::Summary { batch, to, .. } => self.summary_of(batch, to),
            Action::Pages { group, pages, blocks, to } => self.pages(group, pages, blocks, to),
            Action::Look { look, from, blocks, checksums, .. } => {
                self.looks.push(Looking { look, from, blocks, checksums });
            }
            Action::Copy { from, to, blocks } => self.memory.copy(from, to, blocks),
            Action::Complete { tag, result } => {
                self.digest.add(u64::from(tag.0) << 1 | u64::from(result.is_ok()));
                let from = &self.memory.payload[usize::from(tag.0)];
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

    fn summary_of(&mut self, batch: BatchId, to: Mem) {
        let volume = self.machine.volume().expect("who writes a batch");
        let mut bytes = vec![0xaa; volume.shape().summary() as usize * BLOCK_BYTES];
        let sum = |mem| self.memory.blocks(mem, 1)[0].checksum();
        volume.encode_summary(batch, &mut bytes, sum);
        self.memory.put(to, volume.shape().summary(), &bytes);
    }

    fn pages(&mut self, group: GroupId, pages: Pages, blocks: u32, to: Mem) {
        let volume = self.machine.volume().expect("who stores pages");
        for n in 0..blocks {
            let page = match pages {
                Pages::Header => Pages::Header,
                Pages::From(first) => Pages::From(first + n),
            };
            let mut bytes = [0xaa; BLOCK_BYTES];
            volume.encode_page(group, page, &mut bytes);
            self.memory.put(to.plus(n), 1, &bytes);
        }
    }

    fn begin(&mut self, group: GroupId, io: engine::Io) {
        self.digest.add(io.at.0 << 16 | u64::from(io.device.0) << 8 | u64::from(io.blocks));
        for other in self.ios.iter().filter(|other| other.group == group) {
            assert!(!meet(&io, &other.io), "{io:?} begins amid {:?}", other.io);
        }
        let payload = match io.op {
            IoOp::Write { from, .. } => Payload::Data(self.memory.blocks(from, io.blocks)),
            IoOp::Store(page) => {
                let mut bytes = [0; BLOCK_BYTES];
                self.machine.engine(group).encode(page, io.device, &mut bytes);
                Payload::Meta(vec![Rc::new(bytes)])
            }
            IoOp::Journal => Payload::Meta(self.journal_entry(group, &io)),
            IoOp::Read(_) | IoOp::Flush | IoOp::Discard => Payload::None,
        };
        let mark = self.groups[group.index()].disks[io.device.0 as usize].flush_mark();
        self.ios.push(Pending { group, io, payload, mark });
    }

    fn journal_entry(&self, group: GroupId, io: &engine::Io) -> Vec<Meta> {
        let engine = self.machine.engine(group);
        let mut header = vec![0; engine.journal_header_blocks(io.id) as usize * BLOCK_BYTES];
        let crc_of = |mem| checksum(&self.memory.blocks(mem, 1)[0].whole());
        self.machine.encode_journal(group, io.id, crc_of, &mut header);
        let mut blocks: Vec<Meta> = header.as_chunks().0.iter().map(|b| Rc::new(*b)).collect();
        self.machine.journal_payload(group, io.id, |mem, count| {
            let payload = self.memory.blocks(mem, count);
            blocks.extend(payload.iter().map(|block| Rc::new(block.whole())));
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
        let Pending { group, io, payload, mark } = pending;
        if let (Payload::Data(data), IoOp::Write { from, .. }) = (payload, io.op) {
            let now = self.memory.blocks(from, io.blocks);
            assert!(now == *data, "memory changed during {io:?}");
        }
        let disk = &mut self.groups[group.index()].disks[io.device.0 as usize];
        if disk.gone {
            return Err(IoError::Gone);
        }
        if let Some(error) = disk.fails(&io.op) {
            self.write_some(pending);
            return Err(error);
        }
        match io.op {
            IoOp::Read(into) => {
                let extent = io.at.0..io.at.0 + u64::from(io.blocks);
                if disk.bad.range(extent).next().is_some() {
                    return Err(IoError::Medium);
                }
                let to = self.memory.blocks_mut(into, io.blocks).iter_mut();
                to.zip(io.at.0..).for_each(|(to, at)| *to = disk.read(at));
            }
            IoOp::Write { fua, .. } => self.write(pending, fua, |_| true),
            IoOp::Store(_) | IoOp::Journal => self.write(pending, true, |_| true),
            IoOp::Flush => disk.flushed(*mark),
            IoOp::Discard => disk.discard(&mut self.source, io.at.0, io.blocks.into()),
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

    /// What was under way when the host died has happened, or in part, or not.
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

    /// What a write that fails, or that the power failed, leaves behind: some of its blocks.
    pub(super) fn write_some(&mut self, pending: &Pending) {
        let chosen = self.source.below(1 << 32);
        self.write(pending, false, |at| chosen >> (at % 32) & 1 != 0);
    }

    fn compute(&mut self, index: usize) {
        let (group, job) = self.computes.swap_remove(index);
        let mut found = Vec::new();
        self.machine.steps(group, job, |step, blocks| {
            found.extend(arithmetic::carry_out(self.kernels, &mut self.memory, step, blocks));
        });
        found.into_iter().for_each(|found| self.machine.found(group, job, found));
        self.step(Input::Array { group, input: engine::Input::Computed(job) });
    }

    fn look(&mut self, index: usize) {
        let Looking { look, from, blocks, checksums } = self.looks.swap_remove(index);
        let blocks = self.memory.blocks(from, blocks);
        if checksums {
            self.summary.proven += blocks.len() as u64;
            let sums: Vec<u32> = blocks.iter().map(Block::checksum).collect();
            return self.step(Input::Seen { look, answer: Answer::Checksums(&sums) });
        }
        let bytes: Vec<u8> = blocks.iter().flat_map(Block::whole).collect();
        self.step(Input::Seen { look, answer: Answer::Bytes(&bytes) });
    }
}

/// Whether two I/Os of an array touch the same, and one of them writes it.
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

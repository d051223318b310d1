//! The host: carries out the volume's actions in any order, and checks that they are allowed.

use std::rc::Rc;
use std::time::Duration;

use raidcore::engine::{IoError, Op};
use raidcore::units::{BLOCK_BYTES, Mem};
use raidlog::{Action, Input, Io, IoOp, Pages};

use super::world::{Pending, World};
use crate::disk::{Block, Kept};

impl World {
    /// Passes an input to the volume, and carries out its actions.
    pub(super) fn step(&mut self, input: Input<'_>) {
        let mut actions = Vec::new();
        self.trace(format_args!("{}", short(&input)));
        self.volume.step(self.now, input, &mut actions);
        self.summary.events += 1;
        for action in actions {
            self.trace(format_args!("  {action:?}"));
            match action {
                Action::Io(io) => self.begin(io),
                Action::Copy { from, to, blocks } => self.copy(from, to, blocks),
                Action::Complete { tag, result } => {
                    self.digest.add(u64::from(tag.0) << 1 | u64::from(result.is_ok()));
                    let (bad_read, bad_write) = (self.read_faults > 0, self.write_fault);
                    self.users.completed(tag, result, |op| match op {
                        Op::Read => bad_read,
                        Op::Write | Op::Flush | Op::Discard | Op::WriteZeroes => bad_write,
                    });
                }
                Action::Note(note) => self.note(note),
                Action::Stopped => self.stopped = true,
            }
        }
        // The check looks at every block.
        if self.summary.events.is_multiple_of(32) {
            self.volume.check();
        }
    }

    fn copy(&mut self, from: Mem, to: Mem, blocks: u32) {
        for n in 0..blocks {
            let block = self.memory(from, n);
            self.put(to, n, block);
        }
    }

    fn memory(&self, mem: Mem, n: u32) -> Block {
        match mem {
            Mem::Payload { tag, at } => {
                Block::Data(self.users.payloads[usize::from(tag.0)][(at + n) as usize])
            }
            Mem::Scratch { buffer, at } => {
                self.buffers[usize::from(buffer)][(at + n) as usize].clone()
            }
            Mem::Zero => Block::ZERO,
        }
    }

    fn put(&mut self, mem: Mem, n: u32, block: Block) {
        match mem {
            Mem::Payload { tag, at } => {
                self.users.payloads[usize::from(tag.0)][(at + n) as usize] = block.user();
            }
            Mem::Scratch { buffer, at } => {
                let at = (at + n) as usize;
                let is_written = |pending: &Pending| {
                    let IoOp::Write { from: Mem::Scratch { buffer: b, at: first }, .. } =
                        pending.io.op
                    else {
                        return false;
                    };
                    let end = first + pending.io.blocks;
                    b == buffer && (first as usize..end as usize).contains(&at)
                };
                assert!(!self.pending.iter().any(is_written), "memory changes while it is written");
                self.buffers[usize::from(buffer)][at] = block;
            }
            Mem::Zero => panic!("zeros are not written to"),
        }
    }

    /// The blocks that an I/O changes, or reads.
    fn extent(io: &Io) -> std::ops::Range<u64> {
        io.at..io.at + u64::from(io.blocks)
    }

    fn begin(&mut self, io: Io) {
        let writes = |io: &Io| matches!(io.op, IoOp::Write { .. } | IoOp::Store(_) | IoOp::Discard);
        for other in &self.pending {
            let (a, b) = (Self::extent(&io), Self::extent(&other.io));
            let meet = io.group == other.io.group && a.start < b.end && b.start < a.end;
            let harm = writes(&io) || writes(&other.io);
            assert!(!meet || !harm, "{io:?} begins amid {:?}", other.io);
        }
        let quick = self.source.chance(1, 2);
        let blocks = match io.op {
            IoOp::Read(_) | IoOp::Load if quick => self.found(&io),
            IoOp::Read(_) | IoOp::Load | IoOp::Flush | IoOp::Discard => Vec::new(),
            IoOp::Write { from, batch } => {
                let Mem::Scratch { buffer, at } = from else {
                    panic!("{io:?} is not of a segment")
                };
                assert!(io.at.is_multiple_of(self.shape.unit().into()), "{io:?} is no full stripe");
                assert!(io.blocks.is_multiple_of(self.shape.unit()), "{io:?} is no full stripe");
                let mut summary = vec![0xaa; self.shape.summary() as usize * BLOCK_BYTES];
                let sum = |mem| self.memory(mem, 0).checksum();
                self.volume.encode_summary(batch, &mut summary, sum);
                for (n, bytes) in (0..).zip(summary.as_chunks().0) {
                    let block = Block::Meta(Rc::new(*bytes));
                    self.buffers[usize::from(buffer)][at as usize + n] = block;
                }
                (0..io.blocks).map(|n| self.memory(from, n)).collect()
            }
            IoOp::Store(pages) => (0..io.blocks).map(|n| self.page(&io, pages, n)).collect(),
        };
        let mark = self.group(io.group).mark();
        let fails = self.fails(&io);
        self.pending.push(Pending { io, blocks, mark, fails });
    }

    fn page(&self, io: &Io, pages: Pages, n: u32) -> Block {
        let mut bytes = [0xaa; BLOCK_BYTES];
        self.volume.encode_page(io.group, pages.plus(n), &mut bytes);
        Block::Meta(Rc::new(bytes))
    }

    fn fails(&mut self, io: &Io) -> bool {
        let one_of = match io.op {
            _ if self.calm => 0,
            IoOp::Read(_) | IoOp::Load => self.scenario.bad_reads,
            IoOp::Write { .. } | IoOp::Store(_) | IoOp::Flush => self.scenario.bad_writes,
            IoOp::Discard => 0,
        };
        let fails = one_of > 0 && self.source.chance(1, one_of);
        match io.op {
            IoOp::Read(_) | IoOp::Load => self.read_faults += u64::from(fails),
            IoOp::Write { .. } | IoOp::Store(_) | IoOp::Flush | IoOp::Discard => {
                self.write_fault |= fails;
            }
        }
        fails
    }

    fn found(&self, io: &Io) -> Vec<Block> {
        let group = &self.groups[io.group.index()];
        Self::extent(io).map(|at| group.read(at).clone()).collect()
    }

    /// Ends some I/O that is under way.
    pub(super) fn complete_one(&mut self) {
        let at = self.source.below(self.pending.len() as u64) as usize;
        let Pending { io, blocks, mark, fails } = self.pending.swap_remove(at);
        self.now = self.now + Duration::from_micros(10);
        self.digest.add(io.at << 8 | u64::from(io.group.0));
        let Io { id, group, op, at, .. } = io;
        if fails {
            let error = Err(IoError::Medium);
            return if op == IoOp::Load {
                self.step(Input::Loaded { id, result: Err(IoError::Medium) });
            } else {
                self.step(Input::IoDone { id, result: error });
            };
        }
        let found = if blocks.is_empty() { self.found(&io) } else { blocks };
        match op {
            IoOp::Read(to) => {
                for (n, block) in (0..).zip(found) {
                    self.put(to, n, block);
                }
            }
            IoOp::Load => {
                let bytes: Vec<u8> = found.iter().flat_map(Block::whole).collect();
                return self.step(Input::Loaded { id, result: Ok(&bytes) });
            }
            IoOp::Write { .. } | IoOp::Store(_) => {
                let fua = matches!(op, IoOp::Store(Pages::Header));
                for (at, block) in (at..).zip(found) {
                    self.group(group).write(at, block, fua);
                }
            }
            IoOp::Flush => self.group(group).flushed(mark),
            IoOp::Discard => self.discard(&io),
        }
        self.step(Input::IoDone { id, result: Ok(()) });
    }

    fn discard(&mut self, io: &Io) {
        let group = &mut self.groups[io.group.index()];
        group.discard(&mut self.source, io.at, io.blocks.into());
    }

    /// I/O under way when the host died has happened completely, in part, or not at all.
    pub(super) fn lose_pending(&mut self) {
        for Pending { io, blocks, .. } in std::mem::take(&mut self.pending) {
            match io.op {
                IoOp::Write { .. } | IoOp::Store(_) => {
                    for (at, block) in (io.at..).zip(blocks) {
                        if self.source.chance(1, 2) {
                            self.group(io.group).write(at, block, false);
                        }
                    }
                }
                IoOp::Discard if self.source.chance(1, 2) => self.discard(&io),
                IoOp::Discard | IoOp::Read(_) | IoOp::Load | IoOp::Flush => {}
            }
        }
    }
}

fn short(input: &Input<'_>) -> String {
    if let Input::Loaded { id, result } = input {
        return format!("Loaded {id:?} {}", result.is_ok());
    }
    format!("{input:?}")
}

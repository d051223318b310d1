//! The world as the engine's host: I/O on disks in memory, arithmetic over plain vectors.

use std::rc::Rc;

use raidcore::engine::{Io, IoError, IoOp, JobId};
use raidcore::meta::checksum;
use raidcore::parity::gf;
use raidcore::plan::{BoundStep, Step};
use raidcore::units::{BLOCK_BYTES, Mem};

use crate::disk::Block;
use crate::world::{Pending, World};

impl World {
    pub(crate) fn begin_io(&mut self, io: Io) {
        self.trace(format_args!("begin {io:?}"));
        let data = match io.op {
            IoOp::Write { from, .. } => self.blocks(from, io.blocks),
            IoOp::Store(page) => {
                let mut bytes = [0; BLOCK_BYTES];
                self.engine.encode(page, io.device, &mut bytes);
                vec![Rc::from(bytes)]
            }
            IoOp::Journal => self.journal_entry(&io),
            IoOp::Read(_) | IoOp::Flush | IoOp::Discard => Vec::new(),
        };
        for other in self.ios.iter().filter(|o| o.io.device == io.device) {
            let writes = |op: IoOp| !matches!(op, IoOp::Read(_) | IoOp::Flush);
            let ends = |io: &Io| io.at.0 + u64::from(io.blocks);
            let overlap = io.at.0 < ends(&other.io) && other.io.at.0 < ends(&io);
            let conflict = overlap
                && (writes(io.op) || writes(other.io.op))
                && !matches!(io.op, IoOp::Flush)
                && !matches!(other.io.op, IoOp::Flush);
            assert!(!conflict, "{io:?} while {:?} is under way", other.io);
        }
        let flush_mark = self.disks[io.device.0 as usize].flush_mark();
        self.ios.push(Pending { io, data, flush_mark });
    }

    pub(crate) fn journal_entry(&self, io: &Io) -> Vec<Block> {
        let headers = self.engine.journal_header_blocks(io.id) as usize;
        let mut header = vec![0; headers * BLOCK_BYTES];
        let crc_of = |mem| checksum(&self.blocks(mem, 1)[0]);
        self.engine.encode_journal(io.id, crc_of, &mut header);
        let mut blocks: Vec<Block> = header.chunks_exact(BLOCK_BYTES).map(Rc::from).collect();
        self.engine.journal_payload(io.id, |mem, count| blocks.extend(self.blocks(mem, count)));
        assert_eq!(blocks.len(), io.blocks as usize, "an entry is as long as it says");
        blocks
    }

    pub(crate) fn carry_out(&mut self, pending: &Pending) -> Result<(), IoError> {
        let io = &pending.io;
        let disk = &self.disks[io.device.0 as usize];
        if disk.gone {
            return Err(IoError::Gone);
        }
        if !matches!(io.op, IoOp::Read(_) | IoOp::Discard)
            && let Some(error) = self.disks[io.device.0 as usize].sick.take()
        {
            self.write_some(pending);
            return Err(error);
        }
        let disk = &self.disks[io.device.0 as usize];
        let range = io.at.0..io.at.0 + u64::from(io.blocks);
        let reads = matches!(io.op, IoOp::Read(_));
        if reads && disk.unreadable
            || !reads && disk.unwritable.range(range.clone()).next().is_some()
        {
            return Err(IoError::Medium);
        }
        match io.op {
            IoOp::Read(into) => {
                if disk.bad.range(range.clone()).next().is_some() {
                    return Err(IoError::Medium);
                }
                let read: Vec<Block> =
                    range.map(|at| disk.read(at).cloned().unwrap_or_else(blank)).collect();
                for (i, block) in (0u32..).zip(read) {
                    self.memory(into.plus(i), 1).copy_from_slice(&block);
                }
            }
            IoOp::Write { from, fua } => {
                let now = self.blocks(from, io.blocks);
                assert!(now == pending.data, "memory changed during {io:?}");
                self.write(io, &pending.data, fua);
            }
            IoOp::Store(_) | IoOp::Journal => self.write(io, &pending.data, true),
            IoOp::Flush => self.disks[io.device.0 as usize].flushed(pending.flush_mark),
            IoOp::Discard => {
                let disk = &mut self.disks[io.device.0 as usize];
                disk.discard(&mut self.prng, io.at.0, io.blocks.into());
            }
        }
        Ok(())
    }

    /// What a write that fails leaves behind: some of its blocks.
    fn write_some(&mut self, pending: &Pending) {
        let disk = &mut self.disks[pending.io.device.0 as usize];
        for (at, block) in (pending.io.at.0..).zip(&pending.data) {
            if self.prng.chance(1, 2) {
                disk.write(at, block.clone(), false);
            }
        }
    }

    pub(crate) fn write(&mut self, io: &Io, data: &[Block], fua: bool) {
        let disk = &mut self.disks[io.device.0 as usize];
        for (at, block) in (io.at.0..).zip(data) {
            disk.write(at, block.clone(), fua);
        }
    }

    pub(crate) fn memory(&mut self, mem: Mem, blocks: u32) -> &mut [u8] {
        let (buffer, at) = match mem {
            Mem::Payload { tag, at } => (&mut self.payload[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (&mut self.scratch[usize::from(buffer)], at),
            Mem::Zero => panic!("zeros are never a destination"),
        };
        let start = at as usize * BLOCK_BYTES;
        &mut buffer[start..start + blocks as usize * BLOCK_BYTES]
    }

    pub(crate) fn bytes(&self, mem: Mem, blocks: u32) -> Vec<u8> {
        let (buffer, at) = match mem {
            Mem::Payload { tag, at } => (&self.payload[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (&self.scratch[usize::from(buffer)], at),
            Mem::Zero => return vec![0; blocks as usize * BLOCK_BYTES],
        };
        let start = at as usize * BLOCK_BYTES;
        buffer[start..start + blocks as usize * BLOCK_BYTES].to_vec()
    }

    pub(crate) fn blocks(&self, mem: Mem, blocks: u32) -> Vec<Block> {
        let bytes = self.bytes(mem, blocks);
        bytes.chunks_exact(BLOCK_BYTES).map(Rc::from).collect()
    }

    pub(crate) fn compute(&mut self, job: JobId) {
        let mut steps: Vec<(Step<Vec<Mem>>, u32)> = Vec::new();
        self.engine.steps(job, |step, blocks| steps.push((owned(step), blocks)));
        for (step, blocks) in steps {
            if !self.arithmetic(step, blocks) {
                self.engine.mismatch(job);
            }
        }
    }

    pub(crate) fn arithmetic(&mut self, step: Step<Vec<Mem>>, n: u32) -> bool {
        let k = self.kernels;
        let sources = |world: &Self, srcs: &[Mem]| -> Vec<Vec<u8>> {
            srcs.iter().map(|&mem| world.bytes(mem, n)).collect()
        };
        match step {
            Step::Xor { dst, srcs } => {
                let srcs = sources(self, &srcs);
                let srcs: Vec<&[u8]> = srcs.iter().map(|s| &s[..]).collect();
                k.xor(self.memory(dst, n), &srcs);
            }
            Step::Pq { p, q, srcs } => {
                let srcs = sources(self, &srcs);
                let srcs: Vec<Option<&[u8]>> = srcs.iter().map(|s| Some(&s[..])).collect();
                let (mut new_p, mut new_q) = (self.bytes(p, n), self.bytes(q, n));
                k.pq(&mut new_p, &mut new_q, &srcs);
                self.memory(p, n).copy_from_slice(&new_p);
                self.memory(q, n).copy_from_slice(&new_q);
            }
            Step::Q { q, srcs } => {
                let srcs = sources(self, &srcs);
                let srcs: Vec<Option<&[u8]>> = srcs.iter().map(|s| Some(&s[..])).collect();
                k.q(self.memory(q, n), &srcs);
            }
            Step::Add { dst, src } => {
                let src = self.bytes(src, n);
                k.add(self.memory(dst, n), &src);
            }
            Step::Delta { p, q, index, old, new } => {
                let (old, new) = (self.bytes(old, n), self.bytes(new, n));
                let (mut new_p, mut new_q) =
                    (p.map(|p| self.bytes(p, n)), q.map(|q| self.bytes(q, n)));
                let (old, new) = (Some(&old[..]), Some(&new[..]));
                k.delta(new_p.as_deref_mut(), new_q.as_deref_mut(), index.into(), old, new);
                for (mem, bytes) in p.zip(new_p).into_iter().chain(q.zip(new_q)) {
                    self.memory(mem, n).copy_from_slice(&bytes);
                }
            }
            Step::Unscale { dst, index } => {
                k.scale(self.memory(dst, n), gf::inv(gf::pow2(index.into())));
            }
            Step::Solve { a, b, x, y } => {
                let (mut new_a, mut new_b) = (self.bytes(a, n), self.bytes(b, n));
                k.solve(&mut new_a, &mut new_b, x.into(), y.into());
                self.memory(a, n).copy_from_slice(&new_a);
                self.memory(b, n).copy_from_slice(&new_b);
            }
            Step::Clear { dst } => self.memory(dst, n).fill(0),
            Step::Compare { a, b } => return self.bytes(a, n) == self.bytes(b, n),
        }
        true
    }
}

fn blank() -> Block {
    Rc::from([0; BLOCK_BYTES])
}

fn owned(step: BoundStep<'_>) -> Step<Vec<Mem>> {
    match step {
        Step::Xor { dst, srcs } => Step::Xor { dst, srcs: srcs.to_vec() },
        Step::Pq { p, q, srcs } => Step::Pq { p, q, srcs: srcs.to_vec() },
        Step::Q { q, srcs } => Step::Q { q, srcs: srcs.to_vec() },
        Step::Add { dst, src } => Step::Add { dst, src },
        Step::Delta { p, q, index, old, new } => Step::Delta { p, q, index, old, new },
        Step::Unscale { dst, index } => Step::Unscale { dst, index },
        Step::Solve { a, b, x, y } => Step::Solve { a, b, x, y },
        Step::Clear { dst } => Step::Clear { dst },
        Step::Compare { a, b } => Step::Compare { a, b },
    }
}

//! The world as the engine's host: I/O on disks in memory, arithmetic over plain vectors.

use std::rc::Rc;

use raidcore::engine::{Io, IoError, IoOp, JobId};
use raidcore::meta::{Image, checksum};
use raidcore::units::{BLOCK_BYTES, Pba};
use raidlog::ONLY;

use crate::arithmetic;
use crate::checks;
use crate::disk::{FOR_GOOD, Kept, Meta};
use crate::under_way::{Payload, Pending};
use crate::world::World;

impl World {
    pub(crate) fn begin_io(&mut self, io: Io) {
        self.trace(format_args!("begin {io:?}"));
        self.digest.add(io.at.0 << 16 | u64::from(io.device.0) << 8 | u64::from(io.blocks));
        let payload = match io.op {
            IoOp::Write { from, .. } => Payload::Data(self.memory.blocks(from, io.blocks)),
            IoOp::Store(page) => {
                let mut bytes = [0; BLOCK_BYTES];
                self.engine().encode(page, io.device, &mut bytes);
                Payload::Meta(vec![Rc::new(bytes)])
            }
            IoOp::Journal => Payload::Meta(self.journal_entry(&io)),
            IoOp::Read(_) | IoOp::Flush | IoOp::Discard => Payload::None,
        };
        checks::overlap::begins(&io, &self.ios);
        let disk = &self.disks[io.device.0 as usize];
        let flush_mark = disk.flush_mark();
        let flash = self.flash.as_mut();
        let tag = flash.map_or(0, |flash| flash.begin(self.now, &io, disk.blocks()));
        self.ios.push(Pending { io, payload, flush_mark, tag });
    }

    fn journal_entry(&self, io: &Io) -> Vec<Meta> {
        let headers = self.engine().journal_header_blocks(io.id) as usize;
        let mut header = vec![0; headers * BLOCK_BYTES];
        let crc_of = |mem| checksum(&self.memory.blocks(mem, 1)[0].whole());
        self.engine().encode_journal(io.id, crc_of, &mut header);
        let (header, _) = header.as_chunks::<BLOCK_BYTES>();
        let mut blocks: Vec<Meta> = header.iter().map(|block| Rc::new(*block)).collect();
        self.engine().journal_payload(io.id, |mem, count| {
            blocks.extend(self.memory.blocks(mem, count).iter().map(|data| Rc::new(data.whole())));
        });
        assert_eq!(blocks.len(), io.blocks as usize, "an entry is as long as it says");
        blocks
    }

    pub(crate) fn carry_out(&mut self, pending: &Pending) -> Result<(), IoError> {
        let io = &pending.io;
        self.spare_the_grown_up(io.device);
        let disk = &mut self.disks[io.device.0 as usize];
        if disk.gone {
            return Err(IoError::Gone);
        }
        if let Some(error) = disk.fails(&io.op) {
            if io.op == IoOp::Flush {
                disk.flush_failed(&mut self.source, pending.flush_mark);
            }
            self.write_some(pending);
            return Err(error);
        }
        let range = io.at.0..io.at.0 + u64::from(io.blocks);
        let reads = matches!(io.op, IoOp::Read(_));
        if reads && disk.unreadable
            || !reads && disk.unwritable.range(range.clone()).next().is_some()
        {
            return Err(IoError::Medium);
        }
        if !reads && disk.full.range(range.clone()).next().is_some() {
            self.write_some(pending);
            return Err(IoError::NoSpace);
        }
        match io.op {
            IoOp::Read(into) => {
                if let Some((&at, left)) = disk.bad.range_mut(range.clone()).next() {
                    if *left != FOR_GOOD {
                        *left -= 1;
                    }
                    if *left == 0 {
                        disk.bad.remove(&at);
                    }
                    return Err(IoError::Medium);
                }
                for (to, at) in self.memory.blocks_mut(into, io.blocks).iter_mut().zip(range) {
                    *to = disk.read(at);
                }
            }
            IoOp::Write { from, fua } => {
                if let Payload::Data(data) = &pending.payload {
                    let now = self.memory.blocks(from, io.blocks);
                    assert!(now == *data, "memory changed during {io:?}");
                }
                self.write(pending, fua, |_| true);
            }
            IoOp::Store(_) | IoOp::Journal => self.write(pending, true, |_| true),
            IoOp::Flush => disk.flushed(pending.flush_mark),
            IoOp::Discard => disk.discard(&mut self.source, io.at.0, io.blocks.into()),
        }
        Ok(())
    }

    /// What a write that fails, or that the power failed, leaves behind: some of its blocks.
    pub(crate) fn write_some(&mut self, pending: &Pending) {
        let chosen = self.source.below(1 << 32);
        self.write(pending, false, |at| chosen >> (at % 32) & 1 != 0);
    }

    fn write(&mut self, pending: &Pending, fua: bool, which: impl Fn(u64) -> bool) {
        let disk = &mut self.disks[pending.io.device.0 as usize];
        let start = pending.io.at.0;
        let copies = self.copies.map(|(Pba(copies), count)| copies..copies + count);
        match &pending.payload {
            Payload::None => {}
            Payload::Data(data) => {
                for (at, block) in (start..).zip(data).filter(|&(at, _)| which(at)) {
                    if copies.iter().any(|copies| copies.contains(&at)) {
                        disk.write_meta(at, Rc::new(block.whole()), fua);
                    } else {
                        disk.write_data(at, *block, fua);
                    }
                }
            }
            Payload::Meta(meta) => {
                for (at, block) in (start..).zip(meta).filter(|&(at, _)| which(at)) {
                    disk.write_meta(at, Rc::clone(block), fua);
                }
            }
        }
    }

    pub(crate) fn compute(&mut self, job: JobId) {
        let mut found = Vec::new();
        self.machine.steps(ONLY, job, |step, blocks| {
            found.extend(arithmetic::carry_out(self.kernels, &mut self.memory, step, blocks));
        });
        found.into_iter().for_each(|found| self.machine.found(ONLY, job, found));
    }
}

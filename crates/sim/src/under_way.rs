//! I/O and requests under way.

use std::ops::Range;
use std::rc::Rc;

use raidcore::engine::{Io, IoError, IoOp, Request};
use raidcore::meta::checksum;
use raidcore::units::{BLOCK_BYTES, DeviceId, Mem};
use raidlog::{GroupId, Machine};

use crate::disk::{Data, Disk, FOR_GOOD, Kept, Meta};
use crate::memory::Memory;
use crate::source::Source;

/// An I/O under way.
pub(crate) struct Pending<B = Data> {
    pub(crate) group: GroupId,
    pub(crate) io: Io,
    pub(crate) payload: Payload<B>,
    /// What a flush will make durable.
    mark: u64,
    /// Its name where SSDs say when it ends.
    pub(crate) tag: u64,
    /// The memory that an entry's payload is written from, and what was there.
    memory: Vec<(Mem, B)>,
}

/// The bytes of a write when it began.
pub(crate) enum Payload<B = Data> {
    None,
    Data(Vec<B>),
    Meta(Vec<Meta>),
}

impl<B: Kept> Payload<B> {
    fn of(machine: &Machine, memory: &Memory<B>, group: GroupId, io: &Io) -> Self {
        match io.op {
            IoOp::Write { from, .. } => Self::Data(memory.blocks(from, io.blocks)),
            IoOp::Store(page) => {
                let mut bytes = [0; BLOCK_BYTES];
                machine.engine(group).encode(page, io.device, &mut bytes);
                Self::Meta(vec![Rc::new(bytes)])
            }
            IoOp::Journal => Self::Meta(journal_entry(machine, memory, group, io)),
            IoOp::Read(_) | IoOp::Flush | IoOp::Discard => Self::None,
        }
    }
}

fn journal_entry<B: Kept>(
    machine: &Machine,
    memory: &Memory<B>,
    group: GroupId,
    io: &Io,
) -> Vec<Meta> {
    let headers = machine.engine(group).journal_header_blocks(io.id) as usize;
    let mut header = vec![0; headers * BLOCK_BYTES];
    let crc_of = |mem| checksum(&memory.blocks(mem, 1)[0].whole());
    machine.encode_journal(group, io.id, crc_of, &mut header);
    let (header, _) = header.as_chunks::<BLOCK_BYTES>();
    let mut blocks: Vec<Meta> = header.iter().map(|block| Rc::new(*block)).collect();
    machine.journal_payload(group, io.id, |mem, count| {
        blocks.extend(memory.blocks(mem, count).iter().map(|block| Rc::new(block.whole())));
    });
    assert_eq!(blocks.len(), io.blocks as usize, "an entry is as long as it says");
    blocks
}

impl<B: Kept> Pending<B> {
    /// An I/O of a group's engine on this disk begins.
    pub(crate) fn new(
        machine: &Machine,
        memory: &Memory<B>,
        disk: &Disk<B>,
        group: GroupId,
        io: Io,
    ) -> Self {
        let payload = Payload::of(machine, memory, group, &io);
        let mut held = Vec::new();
        if io.op == IoOp::Journal {
            machine.journal_payload(group, io.id, |mem, count| {
                let blocks = (0..count).map(|at| mem.plus(at));
                held.extend(blocks.zip(memory.blocks(mem, count)));
            });
        }
        Self { group, io, payload, mark: disk.flush_mark(), tag: 0, memory: held }
    }

    pub(crate) fn at(&self) -> (GroupId, DeviceId) {
        (self.group, self.io.device)
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.io.at.0..self.io.at.0 + u64::from(self.io.blocks)
    }

    /// The disk does it, or fails. `copies` tells where on it data is kept whole, `forgets` whether
    /// a flush that fails loses some of what it was to make durable, and `late` whether no request waits for it.
    pub(crate) fn carry_out(
        &self,
        disk: &mut Disk<B>,
        memory: &mut Memory<B>,
        source: &mut Source,
        (copies, forgets, late): (&[Range<u64>], bool, bool),
    ) -> Result<(), IoError> {
        let Self { io, payload, mark, .. } = self;
        if disk.gone {
            return Err(IoError::Gone);
        }
        if let Some(error) = disk.fails(&io.op) {
            if io.op == IoOp::Flush && forgets {
                disk.flush_failed(source, *mark);
            }
            self.write_some(disk, source, copies);
            return Err(error);
        }
        let range = self.range();
        let reads = matches!(io.op, IoOp::Read(_));
        if reads && disk.unreadable
            || !reads && disk.unwritable.range(range.clone()).next().is_some()
        {
            return Err(IoError::Medium);
        }
        if !reads && disk.full.range(range.clone()).next().is_some() {
            self.write_some(disk, source, copies);
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
                let blocks = memory.blocks_mut(into, io.blocks).iter_mut();
                blocks.zip(range).for_each(|(to, at)| *to = disk.read(at));
            }
            IoOp::Write { from, fua } => {
                if let Payload::Data(data) = payload {
                    let now = memory.blocks(from, io.blocks);
                    assert!(now == *data, "memory changed during {io:?}");
                }
                self.write(disk, fua, copies, |_| true);
            }
            IoOp::Store(_) => self.write(disk, true, copies, |_| true),
            IoOp::Journal => {
                self.write(disk, true, copies, |_| true);
                self.write_changed(disk, memory, late);
            }
            IoOp::Flush => disk.flushed(*mark),
            IoOp::Discard => disk.discard(source, io.at.0, io.blocks.into()),
        }
        Ok(())
    }

    /// Blocks of an entry's payload whose memory has changed since are written as it is now. That may be so only
    /// if the entry is `late`: its request has ended.
    fn write_changed(&self, disk: &mut Disk<B>, memory: &Memory<B>, late: bool) {
        let first = self.range().end - self.memory.len() as u64;
        for (at, (mem, before)) in (first..).zip(&self.memory) {
            let [now] = &memory.blocks(*mem, 1)[..] else { unreachable!("one block") };
            if now != before {
                assert!(late, "memory changed during {:?}", self.io);
                disk.write_meta(at, Rc::new(now.whole()), true);
            }
        }
    }

    /// What a write that fails, or that the power failed, leaves behind: some of its blocks.
    pub(crate) fn write_some(
        &self,
        disk: &mut Disk<B>,
        source: &mut Source,
        copies: &[Range<u64>],
    ) {
        let chosen = source.below(1 << 32);
        let is_chosen = |at: u64| chosen >> (at % 32) & 1 != 0;
        if self.io.op == IoOp::Discard {
            self.range().filter(|&at| is_chosen(at)).for_each(|at| disk.discard(source, at, 1));
        }
        self.write(disk, false, copies, is_chosen);
    }

    fn write(
        &self,
        disk: &mut Disk<B>,
        fua: bool,
        copies: &[Range<u64>],
        which: impl Fn(u64) -> bool,
    ) {
        match &self.payload {
            Payload::None => {}
            Payload::Data(data) => {
                for (at, block) in self.range().zip(data).filter(|&(at, _)| which(at)) {
                    if copies.iter().any(|copies| copies.contains(&at)) {
                        disk.write_meta(at, Rc::new(block.whole()), fua);
                    } else {
                        disk.write_data(at, block.clone(), fua);
                    }
                }
            }
            Payload::Meta(meta) => {
                for (at, block) in self.range().zip(meta).filter(|&(at, _)| which(at)) {
                    disk.write_meta(at, Rc::clone(block), fua);
                }
            }
        }
    }
}

/// A request under way.
pub(crate) struct Outstanding {
    pub(crate) request: Request,
    /// When it began, by the model's clock.
    pub(crate) begun: u64,
    /// Whole stripes overwritten when it began, if nothing was under way; a flush settles those.
    pub(crate) full: u64,
    /// It reads the whole array, and the caller checks the bytes.
    pub(crate) survey: bool,
}

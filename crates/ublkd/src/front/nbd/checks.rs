//! What a request asks for, if it is valid.

use raidcore::engine::Op;

use super::PAYLOAD_BYTES_MAX;
use super::ledger::Stream;
use super::session::Session;
use super::wire::{Command, Errno, Header, flag};
use crate::front::extent::Extent;
use crate::front::{LogicalBlock, RANGE_BLOCKS_MAX};
use crate::volume::{Touched, Volume};

/// The task of a valid request.
pub(super) enum Task {
    Volume {
        op: Op,
        extent: Extent,
    },
    Stream(Stream),
    /// Nothing: it has no bytes.
    Nothing,
    Status,
}

/// What requests are checked by.
#[derive(Clone)]
pub(super) struct Checks {
    pub(super) volume: Volume,
    pub(super) session: Session,
    pub(super) logical_block: LogicalBlock,
}

impl Checks {
    /// The task of a request, if it is valid.
    pub(super) fn check(&self, header: &Header) -> Result<Task, Errno> {
        let session = self.session;
        let set = |flag: u16| header.flags & flag != 0;
        let check = |own_flags: u16, beyond| {
            if header.flags & !(flag::FUA | own_flags) != 0 {
                return Err(Errno::Invalid);
            }
            self.check_range(header, beyond)
        };
        match header.command {
            Command::Read => {
                let df = if session.structured { flag::DF } else { 0 };
                let range = check(df, Errno::Invalid)?;
                self.read(header, range, !session.structured || set(flag::DF))
            }
            Command::Write => {
                let range = check(0, Errno::NoSpace)?;
                Ok(self.task(Op::Write, range))
            }
            Command::Trim => {
                let range = check(0, Errno::Invalid)?;
                Ok(self.task(Op::Discard, range))
            }
            Command::WriteZeroes => {
                let range = check(flag::NO_HOLE | flag::FAST_ZERO, Errno::NoSpace)?;
                if set(flag::FAST_ZERO) && !self.are_stripes(range) {
                    return Err(Errno::NotSupported);
                }
                // With NO_HOLE members keep the space, otherwise they may free it; the blocks are
                // zeros either way.
                let op = if set(flag::NO_HOLE) { Op::WriteZeroes } else { Op::Discard };
                Ok(self.task(op, range))
            }
            Command::BlockStatus => {
                let range = check(flag::REQ_ONE, Errno::Invalid)?;
                if !session.allocation || range.blocks == 0 {
                    return Err(Errno::Invalid);
                }
                Ok(Task::Status)
            }
            Command::Flush => {
                check(0, Errno::Invalid)?;
                if (header.offset, header.length) != (0, 0) {
                    return Err(Errno::Invalid);
                }
                let extent = Extent::new(Touched::default(), 1, &self.volume);
                Ok(Task::Volume { op: Op::Flush, extent })
            }
            Command::Disconnect | Command::Other(_) => Err(Errno::Invalid),
        }
    }

    /// A read; `whole` if its data has to be sent in one piece.
    fn read(&self, header: &Header, range: Touched, whole: bool) -> Result<Task, Errno> {
        let structured = self.session.structured;
        if header.length > PAYLOAD_BYTES_MAX {
            return Err(if structured { Errno::Overflow } else { Errno::Invalid });
        }
        let task = self.task(Op::Read, range);
        if let Task::Volume { extent, .. } = task
            && whole
            && extent.pieces() > 1
        {
            return Ok(Task::Stream(Stream { handle: header.handle, extent, structured }));
        }
        Ok(task)
    }

    fn task(&self, op: Op, range: Touched) -> Task {
        let most = match op {
            Op::Read | Op::Write => self.volume.max_request_blocks(),
            Op::Flush | Op::Discard | Op::WriteZeroes => RANGE_BLOCKS_MAX,
        };
        if range.blocks == 0 {
            return Task::Nothing;
        }
        let extent = Extent::new(range, most, &self.volume);
        Task::Volume { op, extent }
    }

    /// Whether a discard is of whole stripes, for which only a map is written.
    fn are_stripes(&self, Touched { lba, blocks, edges }: Touched) -> bool {
        let unit = u64::from(self.volume.discard_blocks().max(1));
        edges.is_none() && lba.is_multiple_of(unit) && blocks.is_multiple_of(unit)
    }

    /// The blocks of a request, if they are logical blocks; the error `beyond` if they are past the
    /// end.
    fn check_range(&self, header: &Header, beyond: Errno) -> Result<Touched, Errno> {
        let (unit, length) = (u64::from(self.logical_block.bytes()), u64::from(header.length));
        if !header.offset.is_multiple_of(unit) || !length.is_multiple_of(unit) {
            return Err(Errno::Invalid);
        }
        let range = Touched::by(header.offset, length).ok_or(beyond)?;
        if range.lba + range.blocks > self.volume.blocks() {
            return Err(beyond);
        }
        Ok(range)
    }
}

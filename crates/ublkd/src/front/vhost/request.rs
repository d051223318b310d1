//! A chain of descriptors as a request.
//!
//! Invariant: a guest chooses every number here. A chain that loops, or that leads out of its table
//! or out of memory, ends in an error after at most as many steps as a request may have segments.

use raidcore::engine::Op;
use virtio_bindings::bindings::virtio_blk as blk;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{ByteValued, GuestAddress};

use super::config::{DATA_BYTES_MAX, ID_BYTES, RANGE_SECTORS_MAX, SECTOR_BYTES, SEGMENTS_MAX};
use super::memory::{Ram, Segment, Segments};
use super::view::View;
use crate::volume::{Touched, Volume};

/// The size of a request's head: its kind, and where.
const HEAD_BYTES: usize = 16;
/// The size of a descriptor.
const DESCRIPTOR_BYTES: u64 = 16;
/// The most descriptors of a chain. Head and status may be cut into some.
const DESCRIPTORS_MAX: u32 = SEGMENTS_MAX + 16;

/// Why a queue can't be continued: its driver is broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("a chain of descriptors leads out of its table")]
    Outside,
    #[error("a chain has more than {DESCRIPTORS_MAX} descriptors, or is a loop")]
    Long,
    #[error("a descriptor is not in memory")]
    NoMemory,
    #[error("an indirect table is within another, or its size is none")]
    Indirect,
    #[error("a chain has memory to read from behind memory to write to")]
    Disorder,
    #[error("a chain has no place for the head or the status of a request")]
    NoPlace,
    #[error("a chain is made available although it is under way")]
    Twice,
    #[error("the ring can't be used: {0}")]
    Ring(String),
}

/// A chain's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    /// What the guest has written.
    readable: Segments,
    /// What it lets be written.
    writable: Segments,
}

/// What is asked, and where its data are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) what: What,
    /// Where data are to be had from, or go to, from byte `skip` on.
    pub(super) data: Segments,
    pub(super) skip: u64,
    /// Where the status goes.
    pub(super) status: Segment,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Of the volume.
    Volume { op: Op, range: Touched },
    /// The serial number.
    Id,
    /// What has this status at once.
    Answered(u8),
}

pub(super) const OK: u8 = blk::VIRTIO_BLK_S_OK as u8;
pub(super) const FAILED: u8 = blk::VIRTIO_BLK_S_IOERR as u8;
pub(super) const UNSUPPORTED: u8 = blk::VIRTIO_BLK_S_UNSUPP as u8;

impl Chain {
    /// Follows the chain that begins at `head` of a table of `size` descriptors.
    ///
    /// `virtio-queue`'s own iterator ends without an error where a chain is broken, and can't begin
    /// at a head that is not in the ring.
    pub(super) fn follow(memory: &View, table: u64, size: u16, head: u16) -> Result<Self, Broken> {
        let mut chain = Self { readable: Segments::new(), writable: Segments::new() };
        let (mut table, mut size, mut index) = (table, u32::from(size), u32::from(head));
        let mut is_indirect = false;
        for _ in 0..DESCRIPTORS_MAX {
            if index >= size {
                return Err(Broken::Outside);
            }
            let at = table.checked_add(u64::from(index) * DESCRIPTOR_BYTES);
            let at = at.ok_or(Broken::NoMemory)?;
            let mut descriptor = Descriptor::default();
            let read = memory.read(descriptor.as_mut_slice(), GuestAddress(at));
            read.ok_or(Broken::NoMemory)?;
            if descriptor.refers_to_indirect_table() {
                let bytes = descriptor.len();
                if is_indirect || bytes == 0 || !u64::from(bytes).is_multiple_of(DESCRIPTOR_BYTES) {
                    return Err(Broken::Indirect);
                }
                is_indirect = true;
                (table, size, index) = (descriptor.addr().0, bytes / DESCRIPTOR_BYTES as u32, 0);
                continue;
            }
            chain.push(&descriptor)?;
            if !descriptor.has_next() {
                return Ok(chain);
            }
            index = descriptor.next().into();
        }
        Err(Broken::Long)
    }

    fn push(&mut self, descriptor: &Descriptor) -> Result<(), Broken> {
        let segment = Segment { at: descriptor.addr().0, bytes: descriptor.len() };
        if descriptor.is_write_only() {
            self.writable.push(segment);
        } else if self.writable.is_empty() {
            self.readable.push(segment);
        } else {
            return Err(Broken::Disorder);
        }
        Ok(())
    }

    /// The request of the chain.
    pub(super) fn request(mut self, ram: &Ram, volume: &Volume) -> Result<Asked, Broken> {
        let mut head = [0; HEAD_BYTES];
        if !ram.read(&self.readable, 0, &mut head) {
            return Err(Broken::NoPlace);
        }
        let status = self.take_status().ok_or(Broken::NoPlace)?;
        let (kind, rest) = head.split_at(4);
        let kind = number(kind) as u32;
        let sector = number(&rest[4..]);
        let to_write = sum(&self.writable);
        let to_read = sum(&self.readable) - HEAD_BYTES as u64;
        let what = match kind {
            blk::VIRTIO_BLK_T_IN => range(volume, Op::Read, sector, to_write),
            blk::VIRTIO_BLK_T_OUT => range(volume, Op::Write, sector, to_read),
            blk::VIRTIO_BLK_T_FLUSH => What::Volume { op: Op::Flush, range: Touched::default() },
            blk::VIRTIO_BLK_T_GET_ID if to_write >= ID_BYTES as u64 => What::Id,
            blk::VIRTIO_BLK_T_GET_ID => What::Answered(FAILED),
            blk::VIRTIO_BLK_T_DISCARD | blk::VIRTIO_BLK_T_WRITE_ZEROES => {
                self.ranges(ram, volume, kind)
            }
            _ => What::Answered(UNSUPPORTED),
        };
        let writes = matches!(what, What::Volume { op: Op::Write, .. });
        let (data, skip) =
            if writes { (self.readable, HEAD_BYTES as u64) } else { (self.writable, 0) };
        Ok(Asked { what, data, skip, status })
    }

    /// The last byte that may be written is the status.
    fn take_status(&mut self) -> Option<Segment> {
        let last = self.writable.iter_mut().rev().find(|segment| segment.bytes > 0)?;
        last.bytes -= 1;
        let at = last.at.checked_add(last.bytes.into())?;
        Some(Segment { at, bytes: 1 })
    }

    /// A discard, or zeros.
    fn ranges(&self, ram: &Ram, volume: &Volume, kind: u32) -> What {
        let mut one = [0; 16];
        let is_one = sum(&self.readable) == (HEAD_BYTES + one.len()) as u64;
        if !is_one || !ram.read(&self.readable, HEAD_BYTES as u64, &mut one) {
            return What::Answered(FAILED);
        }
        let (sector, sectors, flags) =
            (number(&one[..8]), number(&one[8..12]) as u32, number(&one[12..]));
        let op = match (kind, flags) {
            // Discarded blocks are zeros.
            (blk::VIRTIO_BLK_T_DISCARD, 0) | (blk::VIRTIO_BLK_T_WRITE_ZEROES, 1) => Op::Discard,
            (blk::VIRTIO_BLK_T_WRITE_ZEROES, 0) => Op::WriteZeroes,
            _ => return What::Answered(UNSUPPORTED),
        };
        if sectors > RANGE_SECTORS_MAX {
            return What::Answered(FAILED);
        }
        range(volume, op, sector, u64::from(sectors) * SECTOR_BYTES)
    }
}

/// A little-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// At most [`DESCRIPTORS_MAX`] times 4 GiB.
fn sum(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.bytes)).sum()
}

/// A request of so many bytes from a sector on, if they are sectors of the volume, and not too many.
fn range(volume: &Volume, op: Op, sector: u64, bytes: u64) -> What {
    let is_valid = bytes.is_multiple_of(SECTOR_BYTES) && bytes <= DATA_BYTES_MAX;
    let offset = sector.checked_mul(SECTOR_BYTES).filter(|_| is_valid);
    let touched = offset.and_then(|offset| Touched::by(offset, bytes));
    match touched {
        Some(range) if range.blocks == 0 => What::Answered(OK),
        Some(range) if range.lba + range.blocks <= volume.blocks() => What::Volume { op, range },
        _ => What::Answered(FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::VolumeConfig;

    #[test]
    fn more_than_can_be_told_is_refused() {
        let (volume, _submissions) = Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 1 << 40,
            chunk_blocks: 16,
            stripe_blocks: 48,
            discard_blocks: 48,
            max_request_blocks: 64,
            tags: 1,
        });
        let asked = |bytes| range(&volume, Op::Read, 1, bytes);
        assert!(matches!(asked(DATA_BYTES_MAX), What::Volume { .. }));
        for bytes in [DATA_BYTES_MAX + SECTOR_BYTES, 1 << 32, 126 * u64::from(u32::MAX - 511)] {
            assert_eq!(asked(bytes), What::Answered(FAILED), "{bytes}");
        }
    }
}

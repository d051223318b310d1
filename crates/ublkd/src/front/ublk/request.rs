//! Requests of the driver as requests of the volume.

use raidcore::engine::{Op, RequestError};
use raidcore::units::{BLOCK_BYTES, Lba};

use super::abi::{Descriptor, Params, SECTOR_BYTES};
use crate::front::{LogicalBlock, RANGE_BLOCKS_MAX};
use crate::volume::{Submit, Touched, Volume};

const BLOCK_SECTORS: u32 = BLOCK_BYTES as u32 / SECTOR_BYTES;

/// The volume's request, and the result for the driver on success: the bytes of a read or write,
/// since the driver issues again what is missing.
///
/// # Errors
/// The negative errno for a request that the device does not offer.
pub(super) fn translate(descriptor: Descriptor) -> Result<(Submit, i32), i32> {
    let op = match descriptor.op() {
        Descriptor::READ => Op::Read,
        Descriptor::WRITE => Op::Write,
        Descriptor::FLUSH => Op::Flush,
        Descriptor::DISCARD => Op::Discard,
        Descriptor::WRITE_ZEROES => Op::WriteZeroes,
        _ => return Err(-libc::EOPNOTSUPP),
    };
    // A flush has no sectors, whatever the descriptor's fields hold.
    let (start, sectors) = match op {
        Op::Flush => (0, 0),
        Op::Read | Op::Write | Op::Discard | Op::WriteZeroes => {
            (descriptor.start, descriptor.sectors)
        }
    };
    let sector = u64::from(SECTOR_BYTES);
    let offset = start.checked_mul(sector).ok_or(-libc::EINVAL)?;
    let Touched { lba, blocks, edges } =
        Touched::by(offset, u64::from(sectors) * sector).ok_or(-libc::EINVAL)?;
    let request = Submit {
        op,
        lba: Lba(lba),
        // No more than the sectors.
        blocks: blocks as u32,
        fua: descriptor.fua(),
        edges,
    };
    let moved = match op {
        Op::Read | Op::Write => i32::try_from(u64::from(sectors) * u64::from(SECTOR_BYTES)),
        Op::Flush | Op::Discard | Op::WriteZeroes => Ok(0),
    };
    Ok((request, moved.map_err(|_| -libc::EINVAL)?))
}

/// The negative errno for a request that failed.
pub(super) fn errno(error: RequestError) -> i32 {
    match error {
        RequestError::OutOfRange => -libc::EINVAL,
        RequestError::Io | RequestError::Stopping => -libc::EIO,
    }
}

/// The driver's parameters of the volume, for requests of at most `request_bytes`.
///
/// The driver takes only powers of two as the best size of I/O. If a stripe is none, the parameter
/// is the largest one that divides a stripe; requests are cut at stripes anyway.
pub(super) fn params(volume: &Volume, request_bytes: u32, logical_block: LogicalBlock) -> Params {
    let block_shift = BLOCK_BYTES.trailing_zeros() as u8;
    let shift = |blocks: u32| block_shift + blocks.max(1).trailing_zeros() as u8;
    let stripe = volume.stripe_blocks().max(1);
    let boundary = stripe.saturating_mul(BLOCK_SECTORS);
    let most = request_bytes / SECTOR_BYTES;
    // A request that begins within a block touches one more, unless a stripe's end cuts it before.
    let touches_more = logical_block == LogicalBlock::Small && boundary > most;
    Params {
        logical_shift: logical_block.bytes().trailing_zeros() as u8,
        block_shift,
        io_min_shift: shift(volume.chunk_blocks()).min(shift(stripe)),
        io_opt_shift: shift(stripe),
        max: if touches_more { most - BLOCK_SECTORS } else { most },
        boundary,
        capacity: sectors(volume.blocks()),
        // The block layer expects a power of two here.
        discard_granularity: volume
            .discard_blocks()
            .max(1)
            .saturating_mul(BLOCK_BYTES as u32)
            .checked_next_power_of_two()
            .unwrap_or(BLOCK_BYTES as u32),
        max_range: RANGE_BLOCKS_MAX * BLOCK_SECTORS,
    }
}

/// So many blocks in sectors.
pub(super) fn sectors(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_SECTORS.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{Edges, VolumeConfig};

    fn descriptor(op_and_flags: u32, sectors: u32, start: u64) -> Descriptor {
        let mut bytes = [0; Descriptor::BYTES];
        bytes[..4].copy_from_slice(&op_and_flags.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&start.to_ne_bytes());
        Descriptor::decode(&bytes)
    }

    #[test]
    fn each_request_has_its_counterpart() {
        let fua = 1 << 13;
        let cases = [
            (0, Op::Read, false, 16 * 512),
            (1, Op::Write, false, 16 * 512),
            (1 | fua, Op::Write, true, 16 * 512),
            (3, Op::Discard, false, 0),
            (5 | fua, Op::WriteZeroes, true, 0),
            (5 | 1 << 15, Op::WriteZeroes, false, 0),
        ];
        for (word, op, fua, result) in cases {
            let request = Submit { op, lba: Lba(3), blocks: 2, fua, edges: Edges::NONE };
            assert_eq!(translate(descriptor(word, 16, 24)), Ok((request, result)));
        }
        let (flush, result) = translate(descriptor(2, 0, 0)).expect("a flush");
        assert_eq!((flush.op, result), (Op::Flush, 0));
    }

    #[test]
    fn what_the_device_never_offered_is_refused() {
        for op in [4, 10, 15, 18, 255] {
            assert_eq!(translate(descriptor(op, 8, 0)), Err(-libc::EOPNOTSUPP));
        }
        assert_eq!(translate(descriptor(1, 8, u64::MAX / 512 + 1)), Err(-libc::EINVAL));
        assert_eq!(translate(descriptor(1, 1 << 22, 0)), Err(-libc::EINVAL));
        assert!(translate(descriptor(2, 0, u64::MAX)).is_ok(), "a flush has no place");
    }

    #[test]
    fn sectors_are_parts_of_blocks() {
        let (write, moved) = translate(descriptor(1, 9, 23)).expect("a write");
        assert_eq!((write.lba, write.blocks, moved), (Lba(2), 2, 9 * 512));
        assert_eq!(write.edges, Edges { front: 7 * 512, back: 0 });
        let (read, _) = translate(descriptor(0, 1, 25)).expect("a read");
        assert_eq!((read.lba, read.blocks), (Lba(3), 1));
        assert_eq!(read.edges, Edges { front: 512, back: 6 * 512 });
    }

    fn volume(chunk_blocks: u32, stripe_blocks: u32) -> Volume {
        let config = VolumeConfig {
            name: "tank".to_owned(),
            blocks: 1000,
            chunk_blocks,
            stripe_blocks,
            discard_blocks: stripe_blocks,
            max_request_blocks: 256,
            tags: 1,
        };
        Volume::channel(config).0
    }

    #[test]
    fn the_disk_is_told_the_arrays_geometry() {
        let expected = Params {
            logical_shift: 12,
            block_shift: 12,
            io_min_shift: 16,
            io_opt_shift: 18,
            max: 2048,
            boundary: 512,
            capacity: 8000,
            discard_granularity: 256 << 10,
            max_range: 1 << 21,
        };
        assert_eq!(params(&volume(16, 64), 1 << 20, LogicalBlock::Whole), expected);
        let small = Params { logical_shift: 9, ..expected };
        assert_eq!(params(&volume(16, 64), 1 << 20, LogicalBlock::Small), small);
        let long = params(&volume(256, 1024), 1 << 20, LogicalBlock::Small);
        assert_eq!(long.max, 2040, "it may begin within a block");
    }

    #[test]
    fn a_stripe_that_is_no_power_of_two_is_a_boundary() {
        let five = params(&volume(16, 80), 1 << 20, LogicalBlock::Whole);
        assert_eq!((five.io_min_shift, five.io_opt_shift), (16, 16));
        assert_eq!((five.boundary, five.discard_granularity), (640, 512 << 10));
    }
}

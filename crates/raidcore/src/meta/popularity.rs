//! How often users asked for each of an array's ranges before it was stopped, so that a failure after the
//! next start knows what is popular.
//!
//! Every member that serves has it, in a block between the superblocks. It is advice: a block that is
//! damaged or absent makes a rebuild begin elsewhere, and no more. It is written at a stop, and stays as it
//! is until the next one, so after a crash it tells of the time before.

use alloc::vec::Vec;

use super::codec::{CodecError, Field, PREFIX_BYTES, open, seal};
use super::image::{Image, there};
use super::layout::POPULARITY;
use super::ranges::Ranges;
use super::record::{ArrayId, ArrayRecord};

const MAGIC: [u8; 8] = *b"EKpop\r\n\x1a";

const EVENTS: Field<8> = Field { at: PREFIX_BYTES };
const STRIPES: Field<8> = EVENTS.then();
const SHIFT: Field<1> = STRIPES.then();
const RESERVED: Field<15> = SHIFT.then();
const COUNTS: Field<2048> = RESERVED.then();

const _: () = assert!(COUNTS.at == 64 && COUNTS.end() == 2112);

/// The most bits by which counts can be shifted: they have 32.
const SHIFT_MAX: u32 = 16;

/// Writes what users asked for of each range, as it was after so many changes of the record.
pub(crate) fn encode(
    (array, events): (ArrayId, u64),
    stripes: u64,
    counts: &[u32],
    into: &mut [u8],
) {
    into.fill(0);
    let most = counts.iter().copied().max().unwrap_or(0);
    let shift = (u32::BITS - most.leading_zeros()).saturating_sub(u16::BITS);
    EVENTS.put(into, events.to_le_bytes());
    STRIPES.put(into, stripes.to_le_bytes());
    SHIFT.put(into, [shift as u8]);
    let (places, _) = into[COUNTS.at..COUNTS.end()].as_chunks_mut();
    for (place, count) in places.iter_mut().zip(counts) {
        *place = ((count >> shift) as u16).to_le_bytes();
    }
    seal(into, MAGIC, array);
}

/// What a block tells: after how many changes of the record it was written, and the count of each range.
fn decode(array: ArrayId, stripes: u64, block: &[u8]) -> Result<(u64, Vec<u32>), CodecError> {
    let found = open(block, MAGIC)?;
    if found != array {
        return Err(CodecError::OtherArray(found));
    }
    if STRIPES.u64(block) != stripes {
        return Err(CodecError::Misplaced);
    }
    let shift = u32::from(SHIFT.u8(block));
    if shift > SHIFT_MAX {
        return Err(CodecError::Invalid("shift"));
    }
    let (places, _) = block[COUNTS.at..COUNTS.end()].as_chunks();
    let count = |bytes: &[u8; 2]| u32::from(u16::from_le_bytes(*bytes)) << shift;
    let ranges = Ranges::none(stripes).count() as usize;
    let counts = places.iter().take(ranges).map(count).collect();
    Ok((EVENTS.count(block, "events")?, counts))
}

/// The newest counts that members have; nothing if none has any.
pub(super) fn load<I: Image>(record: &ArrayRecord, members: &[Option<&I>]) -> Vec<u32> {
    let (array, stripes) = (record.array, record.areas.stripes());
    let blocks = members.iter().flatten().filter_map(|image| there(*image, POPULARITY));
    let pages = blocks.filter_map(|block| decode(array, stripes, block).ok());
    pages.max_by_key(|&(events, _)| events).map_or_else(Vec::new, |(_, counts)| counts)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::units::BLOCK_BYTES;

    const ARRAY: ArrayId = ArrayId([3; 16]);

    #[test]
    fn large_counts_come_back_in_proportion() {
        let mut block = [0xff; BLOCK_BYTES];
        let counts = [70_000, 9, 0, 0x1_ffff, 2];
        encode((ARRAY, 5), 5, &counts, &mut block);
        assert_eq!(decode(ARRAY, 5, &block), Ok((5, vec![70_000, 8, 0, 0x1_fffe, 2])));
        encode((ARRAY, 6), 5, &[u32::MAX; 5], &mut block);
        assert_eq!(decode(ARRAY, 5, &block), Ok((6, vec![0xffff_0000; 5])));
    }

    #[test]
    fn what_is_of_another_array_or_shape_or_damaged_is_not_believed() {
        let mut block = [0; BLOCK_BYTES];
        encode((ARRAY, 5), 1 << 20, &[1; 1024], &mut block);
        assert!(decode(ARRAY, 1 << 20, &block).is_ok_and(|(_, counts)| counts == [1; 1024]));
        assert_eq!(decode(ARRAY, 9, &block), Err(CodecError::Misplaced));
        let other = ArrayId([4; 16]);
        assert_eq!(decode(other, 1 << 20, &block), Err(CodecError::OtherArray(ARRAY)));
        for byte in [0, 13, 40, 48, 70, 4095] {
            block[byte] ^= 1;
            assert!(decode(ARRAY, 1 << 20, &block).is_err(), "byte {byte}");
            block[byte] ^= 1;
        }
        SHIFT.put(&mut block, [17]);
        seal(&mut block, MAGIC, ARRAY);
        assert_eq!(decode(ARRAY, 1 << 20, &block), Err(CodecError::Invalid("shift")));
    }
}

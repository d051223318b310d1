//! A forged superblock.

use raidcore::geometry::Geometry;
use raidcore::meta::{
    CodecError, FORMAT, STAGING_MAX, SUPERBLOCK_COPIES, Superblock, SuperblockError, checksum,
    choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, MEMBERS_MAX};

use crate::images::{flip, reseal, superblock as encode};

/// How many bits of a block are flipped, one after the other.
const FLIPS: u32 = 64;

/// The bytes are a superblock, as they are and with a prefix that is right; zeros follow them.
pub fn superblock(bytes: &[u8]) {
    check(Superblock::decode(bytes));
    let mut block = [0; BLOCK_BYTES];
    let length = bytes.len().min(BLOCK_BYTES);
    block[..length].copy_from_slice(&bytes[..length]);
    check(Superblock::decode(&block));
    block[..8].copy_from_slice(b"Evenkeel");
    block[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    reseal(&mut block);
    if let Some(found) = check(Superblock::decode(&block)) {
        every_flip_is_refused(&mut block);
        two_copies_are_a_quorum(&block, &found);
    }
}

/// An accepted superblock is within bounds, and comes back if it is encoded.
fn check(decoded: Result<Superblock, CodecError>) -> Option<Superblock> {
    let found = match decoded {
        Ok(found) => found,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let (areas, geometry) = (&found.record.areas, &found.record.geometry);
    let (stripes, bits) = (found.record.stripes(), areas.stripes());
    assert!(stripes <= bits && bits <= data_blocks(geometry) + (1 << 16));
    assert!(areas.meta_blocks() < areas.member_blocks());
    assert!(areas.meta_blocks() <= bits / 16_128 + (1 << 18) + (1 << 13));
    assert!(areas.regions() <= 1 << 16);
    assert!(geometry.capacity() > 0 && geometry.capacity() < 1 << 56);
    assert!((geometry.members()..=MEMBERS_MAX).contains(&found.record.slots.len()));
    assert!(areas.staging_device_blocks() <= areas.meta_blocks() + STAGING_MAX);
    assert!(found.record.slots.iter().all(|slot| slot.watermark() <= stripes));
    let again = encode(&found.record, found.device);
    assert_eq!(Superblock::decode(&again).as_ref(), Ok(&found));
    Some(found)
}

/// The blocks of a member's chunks.
fn data_blocks(geometry: &Geometry) -> u64 {
    geometry.stripes() * u64::from(geometry.chunk())
}

/// Some bits, spread by the block's own checksum.
fn every_flip_is_refused(block: &mut [u8; BLOCK_BYTES]) {
    let start = checksum(block);
    for flipped in 0..FLIPS {
        let bit =
            start.wrapping_add(flipped.wrapping_mul(0x9e37_79b9)) as usize % (BLOCK_BYTES * 8);
        flip(block, bit);
        assert!(Superblock::decode(block).is_err(), "bit {bit}");
        flip(block, bit);
    }
}

fn two_copies_are_a_quorum(block: &[u8; BLOCK_BYTES], found: &Superblock) {
    let good = Some(&block[..]);
    let copies: [_; SUPERBLOCK_COPIES] = [good, None, good, None];
    assert_eq!(choose_superblock(&copies).as_ref(), Ok(found));
    let alone = choose_superblock(&[None, None, None, good]);
    assert_eq!(alone, Err(SuperblockError::Damaged { valid: 1 }));
}

//! What the device is: its features, and its configuration space.

use raidcore::units::BLOCK_BYTES;
use vhost::vhost_user::VhostUserProtocolFeatures;
use vhost::vhost_user::message::VhostUserVirtioFeatures;
use virtio_bindings::bindings::virtio_blk as blk;
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};

use crate::front::{LogicalBlock, RANGE_BLOCKS_MAX};
use crate::volume::Volume;

/// The unit of addresses and sizes, whatever the logical block size is.
pub(super) const SECTOR_BYTES: u64 = 512;
/// The most queues.
pub(super) const QUEUES_MAX: u16 = 64;
/// The most descriptors of a queue, which are as many as QEMU allows.
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;
/// The most segments of a request's data: what fits into QEMU's queues, of 128 descriptors, beside
/// the request's head and its status.
pub(super) const SEGMENTS_MAX: u32 = 126;
/// The most regions of memory.
pub(super) const REGIONS_MAX: usize = 64;
/// The size of a serial number.
pub(super) const ID_BYTES: usize = 20;

/// The most bytes of a request's data. A guest is told in 32 bits how much was written, and they lie
/// in at most 2^20 blocks, the first and the last of which they may share with others.
pub(super) const DATA_BYTES_MAX: u64 = (1 << 32) - 2 * BLOCK_BYTES as u64;

const BLOCK_SECTORS: u32 = BLOCK_BYTES as u32 / SECTOR_BYTES as u32;
/// The most sectors of a discard or write-zeroes.
pub(super) const RANGE_SECTORS_MAX: u32 = RANGE_BLOCKS_MAX * BLOCK_SECTORS;
/// The size of what a VMM may ask for.
pub(super) const SPACE_BYTES: usize = 256;

/// The features that are offered.
pub(super) fn features() -> u64 {
    let bits = [
        blk::VIRTIO_BLK_F_SEG_MAX,
        blk::VIRTIO_BLK_F_BLK_SIZE,
        blk::VIRTIO_BLK_F_FLUSH,
        blk::VIRTIO_BLK_F_TOPOLOGY,
        blk::VIRTIO_BLK_F_MQ,
        blk::VIRTIO_BLK_F_DISCARD,
        blk::VIRTIO_BLK_F_WRITE_ZEROES,
        VIRTIO_RING_F_INDIRECT_DESC,
        VIRTIO_RING_F_EVENT_IDX,
        VIRTIO_F_VERSION_1,
    ];
    let offered = bits.into_iter().fold(0, |all, bit| all | 1 << bit);
    offered | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
}

/// The features of the protocol that are offered.
pub(super) fn protocol_features() -> VhostUserProtocolFeatures {
    VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::CONFIG
        | VhostUserProtocolFeatures::BACKEND_REQ
        | VhostUserProtocolFeatures::INFLIGHT_SHMFD
        | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
}

/// Whether a feature was taken.
pub(super) fn has(features: u64, bit: u32) -> bool {
    features & 1 << bit != 0
}

/// The configuration space, `struct virtio_blk_config`, and zeros behind it.
pub(super) fn space(volume: &Volume, logical_block: LogicalBlock) -> [u8; SPACE_BYTES] {
    let block = logical_block.bytes();
    let sectors = |blocks: u32| blocks.max(1).saturating_mul(BLOCK_SECTORS);
    // In logical blocks; what does not fit is left out.
    let blocks = |blocks: u32| blocks.max(1).saturating_mul(BLOCK_BYTES as u32 / block);
    let least = u16::try_from(blocks(volume.chunk_blocks())).unwrap_or(0);
    // The block layer expects a power of two here.
    let granularity = sectors(volume.discard_blocks()).checked_next_power_of_two();
    let fields: [(usize, &[u8]); 14] = [
        (0, &volume.blocks().saturating_mul(BLOCK_SECTORS.into()).to_le_bytes()),
        (12, &SEGMENTS_MAX.to_le_bytes()),
        (20, &block.to_le_bytes()),
        // How many logical blocks are a block of the array, as a power of two.
        (24, &[(BLOCK_BYTES as u32 / block).trailing_zeros() as u8]),
        (26, &least.to_le_bytes()),
        (28, &blocks(volume.stripe_blocks()).to_le_bytes()),
        // There is a cache, which flushes empty.
        (32, &[1]),
        (34, &QUEUES_MAX.to_le_bytes()),
        (36, &RANGE_SECTORS_MAX.to_le_bytes()),
        (40, &1u32.to_le_bytes()),
        (44, &granularity.unwrap_or(BLOCK_SECTORS).to_le_bytes()),
        (48, &RANGE_SECTORS_MAX.to_le_bytes()),
        (52, &1u32.to_le_bytes()),
        // Zeros may be had by discarding.
        (56, &[1]),
    ];
    let mut space = [0; SPACE_BYTES];
    for (at, bytes) in fields {
        space[at..at + bytes.len()].copy_from_slice(bytes);
    }
    space
}

/// The serial number: the array's name.
pub(super) fn id(volume: &Volume) -> [u8; ID_BYTES] {
    let mut id = [0; ID_BYTES];
    for (to, byte) in id.iter_mut().zip(volume.name().bytes()) {
        *to = byte;
    }
    id
}

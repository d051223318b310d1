//! Reads devices' metadata.

use raidcore::meta::{
    MemberImage, SUPERBLOCK_COPIES, SUPERBLOCKS, SievedImage, StagedRing, Superblock,
    choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, Pba};

use super::AttachError;
use crate::members::Device;
use crate::paths::shown;

/// The blocks that hold all copies of the superblock.
const HEAD_BLOCKS: u64 = SUPERBLOCKS[SUPERBLOCK_COPIES - 1].0 + 1;

/// How much is read at once; where that fails, block by block.
const READ_BLOCKS: usize = 256;

/// What devices are read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To start their array.
    Start,
    /// To check whether their array, which another process runs, could be started after a clean
    /// stop: nothing is staged then.
    Preview,
}

/// A device's image for assembly, and its superblock, if it has one. The staging log, which is last
/// and can be large, is not read from a device that was stopped cleanly: it is void, even if a
/// crash during the next start left it so, since nothing was staged since.
pub(super) fn read_image(
    device: &Device,
    purpose: Purpose,
) -> Result<(SievedImage, Option<Superblock>), AttachError> {
    let (head, unreadable) = read_head(device);
    let superblock = choose_superblock(&copies(&head, &unreadable));
    let (blocks, ring) = match &superblock {
        Ok(Superblock { record, device: uuid }) => {
            let place = record.member_of(*uuid);
            let (start, ring) =
                place.map_or(record.areas.staging(), |place| record.staging_of(place));
            let void = record.clean || purpose == Purpose::Preview;
            (start.0.min(device.blocks()), if void { 0 } else { ring })
        }
        Err(_) => (head.len() as u64 / BLOCK_BYTES as u64, 0),
    };
    let mut meta = Vec::new();
    let bytes = usize::try_from(blocks).ok().and_then(|b| b.checked_mul(BLOCK_BYTES));
    let room = bytes.map(|bytes| meta.try_reserve_exact(bytes));
    if !matches!(room, Some(Ok(()))) {
        return Err(AttachError::Memory { path: device.path().to_path_buf(), blocks });
    }
    let (meta, unreadable) = read(device, blocks, meta);
    let pending = superblock.as_ref().is_ok_and(|superblock| superblock.record.is_pending());
    if superblock.is_ok() && !pending && is_md(&meta) {
        return Err(AttachError::IsMd { path: device.path().to_path_buf() });
    }
    let label = shown(device.path()).to_string();
    let image = MemberImage { label, blocks: device.blocks(), meta, unreadable };
    let image = SievedImage { image, ring: read_ring(device, Pba(blocks), ring) };
    Ok((image, superblock.ok()))
}

/// Whether md's superblock 1.2 is there, by its magic number and version. It leaves three of Evenkeel's
/// superblocks as they were.
fn is_md(meta: &[u8]) -> bool {
    let (magic, version) = (0xa92b_4efc_u32.to_le_bytes(), 1_u32.to_le_bytes());
    let superblock = meta.get(BLOCK_BYTES..).unwrap_or(&[]);
    superblock.starts_with(&[magic, version].concat())
}

/// A device's part of the staging log, which has so many blocks.
fn read_ring(device: &Device, start: Pba, blocks: u64) -> StagedRing {
    let mut ring = StagedRing::new(start);
    let end = (start.0 + blocks).min(device.blocks());
    let mut bytes = vec![0; READ_BLOCKS * BLOCK_BYTES];
    for at in (start.0..end).step_by(READ_BLOCKS) {
        let count = READ_BLOCKS.min((end - at) as usize);
        let (part, _) = bytes[..count * BLOCK_BYTES].as_chunks_mut::<BLOCK_BYTES>();
        let unreadable = read_part(device, Pba(at), part.as_flattened_mut());
        for (block, at) in part.iter().zip(at..) {
            ring.push((!unreadable.contains(&Pba(at))).then_some(block));
        }
    }
    ring
}

/// The blocks of a device that hold all copies of the superblock; those that can't be read are zeros
/// and are listed.
pub(super) fn read_head(device: &Device) -> (Vec<u8>, Vec<Pba>) {
    read(device, HEAD_BLOCKS.min(device.blocks()), Vec::new())
}

/// The first `blocks` blocks of a device into `bytes`; those that can't be read are zeros and are
/// listed.
fn read(device: &Device, blocks: u64, mut bytes: Vec<u8>) -> (Vec<u8>, Vec<Pba>) {
    bytes.resize(blocks as usize * BLOCK_BYTES, 0);
    let parts = bytes.chunks_mut(READ_BLOCKS * BLOCK_BYTES);
    let parts = parts.zip((0..).step_by(READ_BLOCKS));
    let unreadable = parts.flat_map(|(part, at)| read_part(device, Pba(at), part)).collect();
    (bytes, unreadable)
}

/// Some blocks of a device; those that can't be read are zeros and are listed.
fn read_part(device: &Device, start: Pba, part: &mut [u8]) -> Vec<Pba> {
    let mut unreadable = Vec::new();
    if device.read_at(start, part).is_ok() {
        return unreadable;
    }
    for (block, at) in part.chunks_mut(BLOCK_BYTES).zip(start.0..) {
        if let Err(error) = device.read_at(Pba(at), block) {
            tracing::warn!(path = %shown(device.path()), block = at, %error, "can't read");
            block.fill(0);
            unreadable.push(Pba(at));
        }
    }
    unreadable
}

/// The copies of the superblock, as far as they are there and can be read.
pub(super) fn copies<'a>(
    head: &'a [u8],
    unreadable: &[Pba],
) -> [Option<&'a [u8]>; SUPERBLOCK_COPIES] {
    SUPERBLOCKS.map(|at| {
        let start = at.0 as usize * BLOCK_BYTES;
        let block = head.get(start..start + BLOCK_BYTES);
        // Beyond the end of a device that is too small there is no magic number, which differs from
        // an unreadable one.
        let block = block.unwrap_or(&[]);
        (!unreadable.contains(&at)).then_some(block)
    })
}

#[cfg(test)]
mod tests {
    use raidcore::geometry::Level;

    use super::*;
    use crate::attach::open;
    use crate::create::{CreateConfig, StagingSize, create};

    #[test]
    fn a_staging_log_is_read_only_where_something_may_be_in_it_and_not_kept() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let paths = [0, 1, 2].map(|member| dir.path().join(format!("m{member}")));
        let mut config = CreateConfig::new("tank", Level::Raid5, paths.to_vec());
        (config.file_blocks, config.staging) = (Some(8192), Some(StagingSize::Blocks(1000)));
        let mut record = create(&config).expect("it is created").record;
        let device = open(&paths[1]).expect("a device");
        let (start, len) = record.areas.staging();
        let read = || {
            let (SievedImage { image, ring }, _) =
                read_image(&device, Purpose::Start).expect("it is read");
            assert_eq!(image.meta.len() / BLOCK_BYTES, start.0 as usize);
            (ring.blocks() as u64, ring.kept())
        };
        assert_eq!(read(), (0, 0));
        record.clean = false;
        let uuid = record.slots[1].device;
        for (at, block) in record.superblocks(uuid) {
            device.write_at(at, &block).expect("it is written");
        }
        assert_eq!(read(), (len, 0));
    }

    #[test]
    fn what_md_has_made_its_own_is_not_started() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let paths = [0, 1, 2].map(|member| dir.path().join(format!("m{member}")));
        let mut config = CreateConfig::new("tank", Level::Raid5, paths.to_vec());
        config.file_blocks = Some(8192);
        create(&config).expect("it is created");
        let device = open(&paths[1]).expect("a device");
        let mut block = [0; BLOCK_BYTES];
        let mut read = |begins: [u8; 8]| {
            block[..8].copy_from_slice(&begins);
            device.write_at(Pba(1), &block).expect("it is written");
            read_image(&device, Purpose::Start).map(|(_, superblock)| superblock.is_some())
        };
        let md = [0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0];
        assert!(matches!(read(md), Err(AttachError::IsMd { .. })));
        assert!(matches!(read([0; 8]), Ok(true)), "md's superblock is erased");
    }
}

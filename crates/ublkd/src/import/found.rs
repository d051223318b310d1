//! A device that is to be imported, or is being: what of md and of Evenkeel is on it.

use raidcore::meta::{
    FORMER_SUPERBLOCK, SUPERBLOCK_COPIES, SUPERBLOCKS, Superblock, SuperblockError,
    choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, Pba};

use super::md::{AT, MdSuperblock, bitmap_blocks};
use super::problem::{ImportError, InTheWay};
use crate::members::Device;
use crate::signature::Signature;

/// A block's bytes.
pub(super) type Block = [u8; BLOCK_BYTES];

/// What is on a device.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) device: Device,
    /// The block where md has its superblock.
    pub(super) md: Box<Block>,
    /// The block where an import keeps what was there.
    former: Box<Block>,
    copies: Vec<Box<Block>>,
}

impl Found {
    /// Reads it.
    ///
    /// # Errors
    /// If that fails.
    pub(super) fn read(device: Device) -> Result<Self, ImportError> {
        let block = |at| read_block(&device, at);
        let copies = SUPERBLOCKS.into_iter().map(block).collect::<Result<_, _>>()?;
        let (md, former) = (block(AT)?, block(FORMER_SUPERBLOCK)?);
        Ok(Self { device, md, former, copies })
    }

    /// md's superblock.
    pub(super) fn md(&self) -> Result<MdSuperblock, ImportError> {
        let path = || self.device.path().to_path_buf();
        MdSuperblock::decode(&self.md).map_err(|error| ImportError::Md { path: path(), error })
    }

    /// The block that md's superblock was before an import, if one was begun and it can go back there.
    pub(super) fn former(&self) -> Option<&Block> {
        let former = MdSuperblock::decode(&self.former).ok()?;
        let same = |md: MdSuperblock| (md.set, md.device) == (former.set, former.device);
        // What an import left that was undone under another array says nothing of this one.
        MdSuperblock::decode(&self.md).map_or(true, same).then_some(&self.former)
    }

    /// What is prepared on it, if that is complete.
    ///
    /// # Errors
    /// If it is a member of an array of Evenkeel's that is not only prepared, or of a later release.
    pub(super) fn prepared(&self) -> Result<Option<Superblock>, ImportError> {
        let path = || self.device.path().to_path_buf();
        let taken = |name| ImportError::Taken { path: path(), name };
        let decoded = self.copies.iter().filter_map(|copy| Superblock::decode(&**copy).ok());
        for Superblock { record, .. } in decoded {
            if !record.is_pending() {
                return Err(taken(record.name));
            }
        }
        match choose_superblock(&self.copies()) {
            Ok(superblock) => Ok(Some(superblock)),
            Err(SuperblockError::NotAMember | SuperblockError::Damaged { .. }) => Ok(None),
            Err(error) => Err(ImportError::Superblock { path: path(), error }),
        }
    }

    /// Another block of the device.
    ///
    /// # Errors
    /// If it can't be read.
    pub(super) fn block(&self, at: Pba) -> Result<Box<Block>, ImportError> {
        read_block(&self.device, at)
    }

    /// Whether something is where an import writes superblocks.
    pub(super) fn has_copies(&self) -> bool {
        self.copies.iter().any(|copy| copy.iter().any(|&byte| byte != 0))
    }

    /// Checks that what is before the data is md's or nothing, and not in the way of what is written
    /// before `end`.
    ///
    /// # Errors
    /// If so, or if it can't be read.
    pub(super) fn check_room(&self, md: &MdSuperblock, end: Pba) -> Result<(), ImportError> {
        let path = || self.device.path().to_path_buf();
        let in_the_way = |what| Err(ImportError::InTheWay { path: path(), what });
        if self.former().is_none() {
            if self.copies[0].iter().any(|&byte| byte != 0) {
                return in_the_way(InTheWay::FirstBlock);
            }
            let unreadable = |source| ImportError::Unreadable { path: path(), source };
            match Signature::find(&self.device).map_err(unreadable)? {
                Some(signature) if signature.at != AT.0 * BLOCK_BYTES as u64 => {
                    return Err(ImportError::Other { path: path(), signature });
                }
                Some(_) | None => {}
            }
        }
        if let Some(at) = md.bitmap_at() {
            let is_there = at > AT && at.0 < self.device.blocks();
            let header = if is_there { Some(self.block(at)?) } else { None };
            let blocks = header.and_then(|header| bitmap_blocks(at, &header[..]));
            if blocks.is_none_or(|blocks| meets(&blocks, end)) {
                return in_the_way(InTheWay::Bitmap);
            }
        }
        match md.bad_blocks() {
            Some(blocks) if !meets(&blocks, end) => Ok(()),
            Some(_) | None => in_the_way(InTheWay::BadBlocks),
        }
    }

    fn copies(&self) -> [Option<&[u8]>; SUPERBLOCK_COPIES] {
        std::array::from_fn(|copy| self.copies.get(copy).map(|copy| &copy[..]))
    }
}

/// Whether one of these blocks is written by an import of which everything is before `end`.
fn meets(blocks: &std::ops::Range<u64>, end: Pba) -> bool {
    let maps = SUPERBLOCKS[SUPERBLOCK_COPIES - 1].0..end.0;
    let single = SUPERBLOCKS.into_iter().chain([AT, FORMER_SUPERBLOCK]);
    let in_maps = blocks.start < maps.end && maps.start < blocks.end;
    in_maps || single.into_iter().any(|at| blocks.contains(&at.0))
}

fn read_block(device: &Device, at: Pba) -> Result<Box<Block>, ImportError> {
    let path = || device.path().to_path_buf();
    let mut block = Box::new([0; BLOCK_BYTES]);
    // Where the device has ended, there is nothing.
    if at.0 < device.blocks() {
        let read = device.read_at(at, &mut block[..]);
        read.map_err(|source| ImportError::Unreadable { path: path(), source })?;
    }
    Ok(block)
}

//! The superblock of Linux md's version 1.2 and its bitmap's, from their bytes: `struct
//! mdp_superblock_1` of the kernel's `md_p.h`, and `bitmap_super_t`.
//!
//! Invariants:
//! - Only what has md's checksum is decoded, and no number in it is believed to be in bounds:
//!   [`array`](super::array) checks each.
//! - All numbers are little-endian; positions and sizes are in sectors of 512 bytes.

use raidcore::units::{BLOCK_BYTES, Pba};

/// Where version 1.2 has its superblock on every member.
pub(super) const AT: Pba = Pba(1);

/// Sectors of a block of 4096 bytes.
pub(super) const BLOCK_SECTORS: u64 = (BLOCK_BYTES / 512) as u64;

const MAGIC: u32 = 0xa92b_4efc;
const BITMAP_MAGIC: u32 = 0x6d74_6962;

/// The bytes before the table of roles.
const FIXED: usize = 256;
const CHECKSUM: usize = 216;

/// The bytes before a bitmap's bits.
const BITMAP_HEADER: u64 = 256;

/// The numbers of roles from here on are states: a spare, a failed device, a journal.
pub(super) const ROLE_JOURNAL: u16 = 0xfffd;
pub(super) const ROLE_FAILED: u16 = 0xfffe;
pub(super) const ROLE_SPARE: u16 = 0xffff;

/// Feature bits of a superblock.
pub(super) mod feature {
    pub(in super::super) const BITMAP: u32 = 1;
    pub(in super::super) const RECOVERY: u32 = 2;
    pub(in super::super) const RESHAPE: u32 = 4;
    pub(in super::super) const BAD_BLOCKS: u32 = 8;
    pub(in super::super) const REPLACEMENT: u32 = 16;
    pub(in super::super) const CLUSTER: u32 = 256;
    pub(in super::super) const JOURNAL: u32 = 512;
    pub(in super::super) const PPL: u32 = 1024 | 2048;
    pub(in super::super) const RAID0_LAYOUT: u32 = 4096;
}

/// Why a block is no superblock of version 1.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MdError {
    /// There is none.
    #[error("it has no superblock of md's metadata version 1.2")]
    NoMagic,
    /// Its checksum is wrong.
    #[error("the checksum of its md superblock does not match: it is damaged, or was torn")]
    Checksum,
    /// It has another major version.
    #[error("its md superblock is of version {0}, not 1")]
    Version(u32),
    /// It says that it is somewhere else.
    #[error("its md superblock was written for sector {0}, not 8: it is a copy")]
    Misplaced(u64),
    /// Its table of roles would not fit into a block.
    #[error("its md superblock has a table of {0} devices, which is absurd")]
    Devices(u32),
    /// Its own number is beyond that table.
    #[error("its md superblock says that it is device {0}, which its table does not have")]
    Number(u32),
}

/// A superblock, as it is on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MdSuperblock {
    /// Feature bits.
    pub features: u32,
    /// The array's identity.
    pub set: [u8; 16],
    /// The array's name, as `host:name` or `name`, up to the first zero.
    pub name: Vec<u8>,
    /// The level, which is negative for some.
    pub level: i32,
    /// The layout, by md's number.
    pub layout: u32,
    /// Sectors that are used of each device; 0 for RAID0.
    pub size: u64,
    /// Sectors of a chunk; 0 for RAID1.
    pub chunk: u32,
    /// How many active devices the array has.
    pub raid_disks: u32,
    /// Where the bitmap begins, in sectors from the superblock's start.
    pub bitmap_offset: i32,
    /// The sector at which the data begins.
    pub data_offset: u64,
    /// Sectors that could be used on this device.
    pub data_size: u64,
    /// This device's number in the table of roles.
    pub number: u32,
    /// This device's identity.
    pub device: [u8; 16],
    /// Sectors of the list of bad blocks.
    pub bad_blocks_size: u16,
    /// Where that begins, in sectors from the superblock's start.
    pub bad_blocks_offset: i32,
    /// Counts the changes.
    pub events: u64,
    /// The sector up to which redundancy was made; the greatest number if all is in step.
    pub resync_offset: u64,
    /// The role of each device by its number.
    pub roles: Vec<u16>,
}

impl MdSuperblock {
    /// Decodes the block at 4 KiB of a device.
    ///
    /// # Errors
    /// If it is no intact superblock, see [`MdError`].
    pub fn decode(block: &[u8; BLOCK_BYTES]) -> Result<Self, MdError> {
        if u32_at(block, 0) != MAGIC {
            return Err(MdError::NoMagic);
        }
        let max_dev = u32_at(block, 220);
        let end = usize::try_from(max_dev).ok().and_then(|devices| devices.checked_mul(2));
        let end = end.and_then(|bytes| bytes.checked_add(FIXED));
        let Some(bytes) = end.and_then(|end| block.get(..end)) else {
            return Err(MdError::Devices(max_dev));
        };
        if checksum(bytes) != u32_at(block, CHECKSUM) {
            return Err(MdError::Checksum);
        }
        let (major, sector) = (u32_at(block, 4), u64_at(block, 144));
        if major != 1 {
            return Err(MdError::Version(major));
        }
        if sector != AT.0 * BLOCK_SECTORS {
            return Err(MdError::Misplaced(sector));
        }
        let roles = bytes[FIXED..].chunks_exact(2);
        let roles: Vec<u16> = roles.map(|role| u16::from_le_bytes([role[0], role[1]])).collect();
        let number = u32_at(block, 160);
        if number >= max_dev {
            return Err(MdError::Number(number));
        }
        let name = &block[32..64];
        Ok(Self {
            features: u32_at(block, 8),
            set: array_at(block, 16),
            name: name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec(),
            level: u32_at(block, 72).cast_signed(),
            layout: u32_at(block, 76),
            size: u64_at(block, 80),
            chunk: u32_at(block, 88),
            raid_disks: u32_at(block, 92),
            bitmap_offset: u32_at(block, 96).cast_signed(),
            data_offset: u64_at(block, 128),
            data_size: u64_at(block, 136),
            number,
            device: array_at(block, 168),
            bad_blocks_size: u16::from_le_bytes(array_at(block, 186)),
            bad_blocks_offset: u32_at(block, 188).cast_signed(),
            events: u64_at(block, 200),
            resync_offset: u64_at(block, 208),
            roles,
        })
    }

    /// Whether it has this feature, or one of these.
    pub(super) fn has(&self, features: u32) -> bool {
        self.features & features != 0
    }

    /// What this device is for the array.
    pub(super) fn role(&self) -> u16 {
        self.roles.get(self.number as usize).copied().unwrap_or(ROLE_FAILED)
    }

    /// The block at which the bitmap begins, if there is one and it is a block of the device.
    pub(super) fn bitmap_at(&self) -> Option<Pba> {
        let sector = sector_of(self.bitmap_offset).filter(|_| self.has(feature::BITMAP))?;
        Some(Pba(sector / BLOCK_SECTORS))
    }

    /// The blocks of the list of bad blocks, if there is one; `None` if they are nowhere.
    pub(super) fn bad_blocks(&self) -> Option<std::ops::Range<u64>> {
        if self.bad_blocks_size == 0 || self.bad_blocks_offset == 0 {
            return Some(0..0);
        }
        let start = sector_of(self.bad_blocks_offset)?;
        Some(blocks_of(start, u64::from(self.bad_blocks_size)))
    }
}

/// The blocks of a bitmap, whose first bytes are `header`; `None` if that is no bitmap's.
pub(super) fn bitmap_blocks(at: Pba, header: &[u8]) -> Option<std::ops::Range<u64>> {
    let chunk = header.get(52..56).map(|bytes| u32_at(bytes, 0))?;
    if u32_at(header, 0) != BITMAP_MAGIC || chunk < 512 {
        return None;
    }
    let bits = u64_at(header, 40).div_ceil(u64::from(chunk / 512));
    let used = (BITMAP_HEADER + bits.div_ceil(8)).div_ceil(512);
    Some(blocks_of(at.0 * BLOCK_SECTORS, used))
}

/// The sector that is so far from the superblock's start.
fn sector_of(offset: i32) -> Option<u64> {
    (AT.0 * BLOCK_SECTORS).checked_add_signed(i64::from(offset))
}

fn blocks_of(start: u64, sectors: u64) -> std::ops::Range<u64> {
    start / BLOCK_SECTORS..start.saturating_add(sectors).div_ceil(BLOCK_SECTORS)
}

/// md's checksum of a superblock: the sum of its 32-bit words, with the checksum's own as zero, and of a
/// last half word, with what goes beyond 32 bits added once.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(4).enumerate().filter(|(at, _)| at * 4 != CHECKSUM);
    let sum: u64 = words
        .map(|(_, word)| {
            let mut whole = [0; 4];
            whole[..word.len()].copy_from_slice(word);
            u64::from(u32::from_le_bytes(whole))
        })
        .sum();
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

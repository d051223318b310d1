//! Files that are members of md: their superblocks in md's format, and data.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use det::Prng;
use raidcore::meta::FORMER_SUPERBLOCK;
use raidcore::units::{BLOCK_BYTES, Pba};
use tempfile::TempDir;

use crate::import::ImportConfig;
use crate::import::found::Block;
use crate::import::md::{AT, MdError, MdSuperblock, checksum};

const BITMAP_AT: u64 = 2;

/// The array's identity.
const SET: [u8; 16] = [0x5e; 16];

/// What the superblocks of an array say.
#[derive(Clone, Debug)]
pub(super) struct MdShape {
    pub(super) level: i32,
    pub(super) layout: u32,
    pub(super) features: u32,
    pub(super) raid_disks: u32,
    /// The rest in sectors.
    pub(super) chunk: u32,
    pub(super) size: u64,
    pub(super) data_offset: u64,
    pub(super) data_size: u64,
    pub(super) bitmap_offset: i32,
    pub(super) bad_blocks: (i32, u16),
    pub(super) events: u64,
    pub(super) resync_offset: u64,
    /// The role of each device by its number.
    pub(super) roles: Vec<u16>,
}

impl Default for MdShape {
    /// RAID5 of four members with a bitmap, 256 KiB of each from 2 MiB on.
    fn default() -> Self {
        Self {
            level: 5,
            layout: 2,
            features: 1,
            raid_disks: 4,
            chunk: 64,
            size: 512,
            data_offset: 4096,
            data_size: 512,
            bitmap_offset: 8,
            bad_blocks: (72, 8),
            events: 7,
            resync_offset: u64::MAX,
            roles: vec![0, 1, 2, 3],
        }
    }
}

impl MdShape {
    /// The superblock of the device with this number.
    pub(super) fn block(&self, number: u32) -> Box<Block> {
        let mut block = Box::new([0; BLOCK_BYTES]);
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &0xa92b_4efc_u32.to_le_bytes());
        put(4, &1u32.to_le_bytes());
        put(8, &self.features.to_le_bytes());
        put(16, &SET);
        put(32, b"host:data");
        put(72, &self.level.to_le_bytes());
        put(76, &self.layout.to_le_bytes());
        put(80, &self.size.to_le_bytes());
        put(88, &self.chunk.to_le_bytes());
        put(92, &self.raid_disks.to_le_bytes());
        put(96, &self.bitmap_offset.to_le_bytes());
        put(128, &self.data_offset.to_le_bytes());
        put(136, &self.data_size.to_le_bytes());
        put(144, &8u64.to_le_bytes());
        put(160, &number.to_le_bytes());
        put(168, &[0xd0 + number as u8; 16]);
        put(186, &self.bad_blocks.1.to_le_bytes());
        put(188, &self.bad_blocks.0.to_le_bytes());
        put(200, &self.events.to_le_bytes());
        put(208, &self.resync_offset.to_le_bytes());
        put(220, &(self.roles.len() as u32).to_le_bytes());
        for (at, role) in self.roles.iter().enumerate() {
            put(256 + 2 * at, &role.to_le_bytes());
        }
        let sum = checksum(&block[..256 + 2 * self.roles.len()]);
        block[216..220].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// md's bitmap, with a chunk of 64 MiB.
    fn bitmap(&self) -> Block {
        let mut block = [0; BLOCK_BYTES];
        block[..4].copy_from_slice(b"bitm");
        block[4..8].copy_from_slice(&4u32.to_le_bytes());
        block[8..24].copy_from_slice(&SET);
        block[40..48].copy_from_slice(&self.size.to_le_bytes());
        block[52..56].copy_from_slice(&(64u32 << 20).to_le_bytes());
        block
    }
}

/// The members of an array, in the order of their numbers.
pub(super) struct MdMembers {
    _dir: TempDir,
    pub(super) paths: Vec<PathBuf>,
    pub(super) shape: MdShape,
}

impl MdMembers {
    pub(super) fn new(shape: MdShape) -> Self {
        // In memory if that is possible: what is written need not outlive a crash of this machine.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.expect("a temporary directory");
        let paths: Vec<_> =
            (0..shape.roles.len()).map(|index| dir.path().join(format!("m{index}"))).collect();
        let mut chance = Prng::new(5);
        for path in &paths {
            let file = File::create(path).expect("a file");
            let start = shape.data_offset * 512;
            let mut data = vec![0; shape.data_size as usize * 512];
            chance.fill(&mut data);
            file.write_all_at(&data, start).expect("it can be written");
            file.write_all_at(&shape.bitmap(), BITMAP_AT * BLOCK_BYTES as u64).expect("written");
        }
        let members = Self { _dir: dir, paths, shape };
        members.rewrite_from_shape(0, &members.shape);
        members
    }

    pub(super) fn config(&self) -> ImportConfig {
        ImportConfig {
            paths: self.paths.clone(),
            name: None,
            consistency: None,
            assume_clean: false,
        }
    }

    pub(super) fn data_start(&self) -> Pba {
        Pba(self.shape.data_offset / 8)
    }

    /// Writes all superblocks anew.
    pub(super) fn rewrite(&self, change: impl FnOnce(&mut MdShape)) {
        self.rewrite_from(0, change);
    }

    /// Those of the devices from this number on.
    pub(super) fn rewrite_from(&self, from: usize, change: impl FnOnce(&mut MdShape)) {
        let mut shape = self.shape.clone();
        change(&mut shape);
        self.rewrite_from_shape(from, &shape);
    }

    fn rewrite_from_shape(&self, from: usize, shape: &MdShape) {
        for number in from..self.paths.len() {
            self.put(number, AT, &shape.block(number as u32)[..]);
        }
    }

    /// Makes md's superblock void.
    pub(super) fn erase(&self, number: usize) {
        self.put(number, AT, &[0; BLOCK_BYTES]);
    }

    pub(super) fn put(&self, number: usize, at: Pba, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.paths[number]).expect("the file");
        file.write_all_at(bytes, at.0 * BLOCK_BYTES as u64).expect("it can be written");
    }

    /// All bytes of all members.
    pub(super) fn whole(&self) -> Vec<Vec<u8>> {
        self.paths.iter().map(|path| fs::read(path).expect("it can be read")).collect()
    }

    /// Makes all members these.
    pub(super) fn restore(&self, whole: &[Vec<u8>]) {
        for (path, bytes) in self.paths.iter().zip(whole) {
            let file = File::create(path).expect("the file");
            file.set_len(bytes.len() as u64).expect("it has room");
            let blocks = bytes.chunks(BLOCK_BYTES).enumerate();
            for (at, block) in blocks.filter(|(_, block)| **block != [0; BLOCK_BYTES][..]) {
                file.write_all_at(block, (at * BLOCK_BYTES) as u64).expect("it can be written");
            }
        }
    }

    /// Without the blocks that md does not use, and to which maps are written.
    pub(super) fn without_maps(&self, whole: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let end = self.data_start().0 as usize * BLOCK_BYTES;
        let without = |bytes: &Vec<u8>| [&bytes[..256 * BLOCK_BYTES], &bytes[end..]].concat();
        whole.iter().map(without).collect()
    }

    /// The members' data and parity.
    pub(super) fn data(&self) -> Vec<Vec<u8>> {
        let start = self.data_start().0 as usize * BLOCK_BYTES;
        self.whole().into_iter().map(|bytes| bytes[start..].to_vec()).collect()
    }

    /// What is where md has its superblocks.
    pub(super) fn md(&self) -> Vec<Result<MdSuperblock, MdError>> {
        let block = |bytes: &Vec<u8>| {
            let at = AT.0 as usize * BLOCK_BYTES;
            bytes[at..at + BLOCK_BYTES].try_into().expect("a block")
        };
        self.whole().iter().map(|bytes| MdSuperblock::decode(&block(bytes))).collect()
    }

    /// Whether md could assemble the array with its bitmap.
    pub(super) fn is_mds(&self) -> bool {
        let whole = self.whole();
        let is = |(number, bytes): (usize, &Vec<u8>)| {
            let block = |at: u64| &bytes[at as usize * BLOCK_BYTES..][..BLOCK_BYTES];
            block(AT.0) == &self.shape.block(number as u32)[..]
                && block(BITMAP_AT) == self.shape.bitmap()
        };
        assert!(FORMER_SUPERBLOCK != AT);
        whole.iter().enumerate().all(is)
    }
}

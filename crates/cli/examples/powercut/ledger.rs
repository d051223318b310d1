//! The expected content of an array: for each point and block, the version that is certain, and the
//! latest that is possible. A block that was never written has version 0.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use raidcore::units::{BLOCK_BYTES, Pba};
use ublkd::members::{BlockBuffer, Device, OpenOptions};

/// Blocks of the array that are written. Few, so that each is written again and again.
pub(crate) const BLOCKS: usize = 1536;

/// A version of each block.
pub(crate) type Versions = Vec<u64>;

/// The certain and possible versions at a point.
pub(crate) struct Point {
    pub(crate) least: Versions,
    pub(crate) most: Versions,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Ledger(pub(crate) Vec<Point>);

/// A block with unexpected content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    lba: usize,
    held: Option<u64>,
    least: u64,
    most: u64,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lba, held, least, most } = self;
        match held {
            Some(held) => write!(f, "block {lba}: version {held}, not {least} to {most}"),
            None => write!(f, "block {lba} is torn, or another; not version {least} to {most}"),
        }
    }
}

impl Ledger {
    pub(crate) fn store(&self, path: &Path) -> Result<()> {
        let all = self.0.iter().flat_map(|point| point.least.iter().chain(&point.most));
        let bytes: Vec<u8> = all.flat_map(|version| version.to_le_bytes()).collect();
        std::fs::write(path, bytes).with_context(|| path.display().to_string())
    }

    pub(crate) fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let (versions, rest) = bytes.as_chunks();
        let versions: Versions = versions.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect();
        let points = versions.chunks_exact(2 * BLOCKS);
        ensure!(rest.is_empty() && points.remainder().is_empty(), "the ledger is cut off");
        let point = |both: &[u64]| {
            let (least, most) = both.split_at(BLOCKS);
            Point { least: least.to_vec(), most: most.to_vec() }
        };
        Ok(Self(points.map(point).collect()))
    }

    /// Reads the whole array after a power failure at a point; returns what is wrong.
    pub(crate) fn check(&self, disk: &Path, point: u32) -> Result<Vec<Wrong>> {
        let point = self.0.get(point as usize).context("there is no such point")?;
        let disk = Device::open(disk, OpenOptions { direct: true, read_only: true })?;
        let mut held = BlockBuffer::new(BLOCKS * BLOCK_BYTES)?;
        disk.read_at(Pba(0), &mut held)?;
        Ok(point.compare(&held))
    }
}

impl Point {
    fn compare(&self, held: &[u8]) -> Vec<Wrong> {
        let wrong = held.chunks(BLOCK_BYTES).enumerate().filter_map(|(lba, block)| {
            let (least, most) = (self.least[lba], self.most[lba]);
            let held = version_of(lba, block);
            let right = held.is_some_and(|held| (least..=most).contains(&held));
            (!right).then_some(Wrong { lba, held, least, most })
        });
        wrong.collect()
    }
}

/// Fills a block so that each of its words names the block and the version.
pub(crate) fn fill(lba: usize, version: u64, block: &mut [u8]) {
    let (words, _) = block.as_chunks_mut();
    for (index, word) in words.iter_mut().enumerate() {
        *word = self::word(lba, version, index).to_le_bytes();
    }
}

/// The version of a block, if its content is consistent and names this block.
fn version_of(lba: usize, block: &[u8]) -> Option<u64> {
    let (words, _) = block.as_chunks();
    let mut words = words.iter().map(|&word| u64::from_le_bytes(word)).enumerate();
    let (_, version) = words.next()?;
    words.all(|(index, word)| word == self::word(lba, version, index)).then_some(version)
}

fn word(lba: usize, version: u64, index: usize) -> u64 {
    match (index, version) {
        (0, _) | (_, 0) => version,
        _ => ((lba as u64) << 32 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_newer_torn_or_elsewhere_is_wrong() {
        let point = Point { least: vec![0, 3, 3, 3, 3, 3], most: vec![2, 4, 4, 4, 4, 4] };
        let mut held = vec![0; 6 * BLOCK_BYTES];
        let mut blocks: Vec<_> = held.chunks_mut(BLOCK_BYTES).collect();
        fill(1, 4, blocks[1]);
        fill(2, 2, blocks[2]);
        fill(3, 5, blocks[3]);
        fill(4, 3, blocks[4]);
        blocks[4][4000] ^= 1;
        fill(4, 3, blocks[5]);
        let wrong = point.compare(&held);
        let wrong: Vec<_> = wrong.iter().map(|wrong| (wrong.lba, wrong.held)).collect();
        assert_eq!(wrong, [(2, Some(2)), (3, Some(5)), (4, None), (5, None)]);
    }
}

//! The description of an array of the paper on popular data backup.

use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// `[pdb]`: an array by "PDB: A Reliability-Driven Data Reconstruction Strategy Based on Popular Data Backup for
/// RAID4 SSD Arrays" (Liu, Pan et al., 2014), or its baseline.
///
/// The paper leaves open how popular is popular, how large a mirroring zone is, whether one table counts for all
/// SSDs, what of a popular region is copied, how many stripes are rebuilt at once, and which data are rebuilt.
/// Here the first two and the last three are keys, one table counts for all SSDs, and a whole SSD is rebuilt.
/// Striping is by pages, as in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PdbSpec {
    /// Where parity is.
    pub layout: Parity,
    /// How many SSDs' worth of data.
    pub data: u8,
    /// How many smaller SSDs share the parity of `spd-raid4`: each has this part of a data SSD's blocks.
    #[serde(default = "two")]
    pub parity: u8,
    /// The size of a chunk; a page by default, at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Whether the SSD `failed` fails when the measurement begins. A new one replaces it.
    #[serde(default)]
    pub fails: bool,
    /// Whether the measurement goes on when all of it is rebuilt, so that all strategies are compared over the
    /// same requests.
    #[serde(default)]
    pub goes_on: bool,
    /// Which one fails: data SSDs come first.
    #[serde(default)]
    pub failed: u8,
    /// How much is rebuilt at a time, on demand and in order; a page by default, at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Bytes>,
    /// How many units are rebuilt at once, in order (stripe-oriented reconstruction, SOR).
    #[serde(default = "one")]
    pub in_flight: u32,
    /// Whether what a user's read has reconstructed is written home.
    #[serde(default)]
    pub write_back: bool,
    /// Whether the regions that were read most are rebuilt first.
    #[serde(default)]
    pub popular_first: bool,
    /// The size of each data SSD's mirroring zone, for popular regions of its neighbour; none by default.
    #[serde(default = "none")]
    pub zone: Bytes,
    /// The size of a region.
    #[serde(default = "region")]
    pub region: Bytes,
    /// How many reads make a region popular.
    #[serde(default = "threshold")]
    pub threshold: u32,
    /// Of how many regions reads are counted (RPT).
    #[serde(default = "counted")]
    pub counted: u32,
    /// What is copied of a popular region.
    #[serde(default)]
    pub copies: Copies,
}

/// The layouts of parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parity {
    /// On an SSD of its own.
    Raid4,
    /// On all in turn.
    Raid5,
    /// On several smaller SSDs of its own, in turn.
    SpdRaid4,
}

/// What is copied of a popular region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// What is read of it, when it has been read.
    #[default]
    Read,
    /// All of it, when it becomes popular.
    Region,
}

/// Why an array of the paper is impossible.
#[derive(Debug, thiserror::Error)]
pub enum PdbError {
    /// Too few or too many SSDs.
    #[error("pdb.{key} is {found}, but must be from {least} to {most}")]
    Count {
        /// The key.
        key: &'static str,
        /// Its value.
        found: u64,
        /// The least possible one …
        least: u64,
        /// … and the greatest.
        most: u64,
    },
    /// A size is impossible.
    #[error("pdb.{key} is {found}, but must be a multiple of {of}, from {of} to {most}")]
    Size {
        /// The key.
        key: &'static str,
        /// Its value.
        found: Bytes,
        /// What it must be a multiple of.
        of: Bytes,
        /// The most that is possible.
        most: Bytes,
    },
    /// Zones don't fit.
    #[error(
        "pdb.zone is {zone}, but must be a multiple of the region, {region}, and less than an SSD's {ssd}"
    )]
    Zone {
        /// Its size.
        zone: Bytes,
        /// The size of a region.
        region: Bytes,
        /// The size of an SSD.
        ssd: Bytes,
    },
    /// Parity goes round over all SSDs: none has a neighbour whose data alone it copies.
    #[error("pdb.zone needs SSDs of data alone: layout = \"raid4\" or \"spd-raid4\"")]
    NoNeighbours,
    /// A split parity SSD has no blocks.
    #[error(
        "ssd.blocks is {blocks}: it can't be split for pdb.parity = {parity} SSDs, so must be a multiple of it"
    )]
    Split {
        /// The blocks of a data SSD.
        blocks: u32,
        /// How many SSDs share the parity.
        parity: u8,
    },
}

impl PdbSpec {
    /// Checks all but what depends on the SSDs.
    ///
    /// # Errors
    /// What is impossible.
    pub fn check(&self) -> Result<(), PdbError> {
        let count = |key, found, least, most| {
            let possible = (least..=most).contains(&found);
            if possible { Ok(()) } else { Err(PdbError::Count { key, found, least, most }) }
        };
        count("data", self.data.into(), 2, 32)?;
        count("parity", self.parity.into(), 1, 32)?;
        count("failed", self.failed.into(), 0, self.members() as u64 - 1)?;
        count("in_flight", self.in_flight.into(), 1, 4096)?;
        count("threshold", self.threshold.into(), 1, u32::MAX.into())?;
        count("counted", self.counted.into(), 1, 1 << 20)?;
        let size = |key, found: Bytes, of: Bytes, most: Bytes| {
            let possible = found.0 >= of.0 && found.0.is_multiple_of(of.0) && found <= most;
            if possible { Ok(()) } else { Err(PdbError::Size { key, found, of, most }) }
        };
        let block = Bytes(BLOCK_BYTES as u64);
        size("chunk", self.chunk.unwrap_or(block), block, Bytes(1 << 20))?;
        size("unit", self.unit.unwrap_or(block), block, Bytes(1 << 20))?;
        size("region", self.region, block, REGION_MAX)?;
        if self.zone.0 > 0 && self.layout == Parity::Raid5 {
            return Err(PdbError::NoNeighbours);
        }
        Ok(())
    }

    /// The SSDs of data and parity.
    #[must_use]
    pub fn members(&self) -> usize {
        usize::from(self.data) + usize::from(self.parities())
    }

    /// The SSDs of parity; with RAID5 as many as there would be.
    #[must_use]
    pub fn parities(&self) -> u8 {
        if self.layout == Parity::SpdRaid4 { self.parity } else { 1 }
    }
}

/// The most that a region has: which of its blocks are copied is noted in words.
const REGION_MAX: Bytes = Bytes(1 << 20);

fn two() -> u8 {
    2
}

fn one() -> u32 {
    1
}

fn none() -> Bytes {
    Bytes(0)
}

fn region() -> Bytes {
    Bytes(128 << 10)
}

fn threshold() -> u32 {
    2
}

fn counted() -> u32 {
    1024
}

//! The description of an array with a write cache in memory.

use std::time::Duration;

use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::system::array_spec::chunk;
use crate::system::stripes::Parity;
use crate::units::{Bytes, Span};

/// `[cached]`: an array with a write cache in memory, as the paper on SIW (a synchronous independent write cache)
/// compares them. A power failure loses what is cached.
///
/// The paper leaves open the size of the cache, its thresholds, how long caches wait for each other, how many
/// groups WOW has in flight, and what starts SIW: here they are keys, and SIW starts at the same occupancy as WOW.
/// SIW caches strips, and those of parity apart from those of data, so for a while data and parity on the SSDs
/// don't agree. The engine's arrays keep that they do, or that a journal or log tells what makes them; so SIW is
/// in the laboratory alone. Its caches inside the SSDs (ISC) are their own buffers, `ssd.set.buffer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachedSpec {
    /// The level.
    pub level: CachedLevel,
    /// How many SSDs, with that of parity.
    pub members: u8,
    /// The size of a strip: what of a stripe is on one SSD.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// What is cached, and when it is written to the SSDs.
    pub policy: CachePolicy,
    /// The size of the cache.
    #[serde(default = "size")]
    pub size: Bytes,
    /// How many groups WOW has in flight.
    #[serde(default = "one")]
    pub groups: u32,
    /// The share of the cache in use above which it is emptied, by one group at first …
    #[serde(default = "low")]
    pub low: f64,
    /// … and at which by as many as may be in flight.
    #[serde(default = "high")]
    pub high: f64,
    /// How long an SSD that is ready for SIW's next round waits for the others.
    #[serde(default = "wait")]
    pub wait: Span,
    /// Whether SIW knows parity without reading the old data and parity: what computing it in advance costs
    /// without these reads.
    #[serde(default)]
    pub parity_is_known: bool,
}

/// The levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachedLevel {
    /// Striping.
    Raid0,
    /// Striping with rotating parity.
    Raid5,
}

/// The policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// Nothing is cached.
    None,
    /// Whole write groups in the order of their addresses (Gill and Modha, "WOW: Wise Ordering for Writes", FAST
    /// 2005).
    Wow,
    /// Strips of each SSD by themselves, all SSDs at once.
    Siw,
}

/// Why such an array is impossible.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Too few or too many of something.
    #[error("cached.{key} is {found}, but must be from {least} to {most}")]
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
    /// A strip is not whole blocks, or too large.
    #[error("cached.chunk is {0}, but must be a multiple of 4KiB, and at most 1MiB")]
    Chunk(Bytes),
    /// A stripe does not fit in the cache.
    #[error("cached.size is {size}, but must be at least {least}: a strip of {chunk} for each SSD")]
    Size {
        /// The cache's size.
        size: Bytes,
        /// What it must be at least.
        least: Bytes,
        /// The strip's size.
        chunk: Bytes,
    },
    /// The thresholds are out of order.
    #[error(
        "cached.low and .high are {low} and {high}, but must be shares, and low the smaller one"
    )]
    Thresholds {
        /// The lower one.
        low: f64,
        /// The upper one.
        high: f64,
    },
    /// The SSDs hold no stripe.
    #[error("the SSDs are too small for a strip of {0}")]
    TooSmall(Bytes),
}

impl CachedSpec {
    /// Checks all but what depends on the SSDs.
    ///
    /// # Errors
    /// What is impossible.
    pub fn check(&self) -> Result<(), CacheError> {
        let count = |key, found, least, most| {
            let possible = (least..=most).contains(&found);
            if possible { Ok(()) } else { Err(CacheError::Count { key, found, least, most }) }
        };
        let least = if self.level == CachedLevel::Raid0 { 1 } else { 3 };
        count("members", self.members.into(), least, 32)?;
        count("groups", self.groups.into(), 1, 4096)?;
        let block = BLOCK_BYTES as u64;
        let Bytes(chunk) = self.chunk;
        if chunk == 0 || !chunk.is_multiple_of(block) || chunk > 1 << 20 {
            return Err(CacheError::Chunk(self.chunk));
        }
        let least = Bytes(chunk * u64::from(self.members));
        if self.policy != CachePolicy::None && self.size < least {
            return Err(CacheError::Size { size: self.size, least, chunk: self.chunk });
        }
        let (low, high) = (self.low, self.high);
        if !(0.0..=1.0).contains(&low) || !(0.0..=1.0).contains(&high) || low >= high {
            return Err(CacheError::Thresholds { low, high });
        }
        Ok(())
    }

    /// Where parity is, and how many SSDs' worth of data there is.
    pub(super) fn parity(&self) -> (Parity, u8) {
        match self.level {
            CachedLevel::Raid0 => (Parity::None, self.members),
            CachedLevel::Raid5 => (Parity::Rotating, self.members - 1),
        }
    }
}

fn size() -> Bytes {
    Bytes(4 << 20)
}

fn one() -> u32 {
    1
}

fn wait() -> Span {
    Span(Duration::from_millis(10))
}

fn low() -> f64 {
    0.6
}

fn high() -> f64 {
    0.9
}

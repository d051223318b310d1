//! What work in the background could not do.

use std::fmt;

use raidcore::engine::LeftStripe;
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

/// A stripe of which more can't be read than redundancy makes up for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftReport {
    /// Its number.
    pub stripe: u64,
    /// What the stripe is of what users see. Overwritten or discarded as a whole, it is done after all.
    pub range: Extent,
    /// What is lost of that, as far as it is known.
    pub lost: Vec<Extent>,
    /// What members could not read.
    pub unreadable: Vec<Unreadable>,
}

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

/// A range of a member that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreadable {
    /// Which member.
    pub member: u8,
    /// Where it is on its device.
    #[serde(flatten)]
    pub extent: Extent,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset_bytes, self.length_bytes)
    }
}

impl Extent {
    fn of(at: u64, blocks: u64) -> Self {
        let block = BLOCK_BYTES as u64;
        Self { offset_bytes: at * block, length_bytes: blocks * block }
    }
}

impl LeftReport {
    pub(super) fn of(left: &LeftStripe) -> Self {
        let unreadable = left.unreadable.iter().map(|&(member, at, blocks)| Unreadable {
            member: member.0,
            extent: Extent::of(at.0, blocks),
        });
        Self {
            stripe: left.stripe.0,
            range: Extent::of(left.at.0, left.blocks),
            lost: left.lost.iter().map(|&(at, blocks)| Extent::of(at.0, blocks)).collect(),
            unreadable: unreadable.collect(),
        }
    }
}

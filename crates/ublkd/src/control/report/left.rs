//! What work in the background could not do.

use raidcore::engine::LeftStripe;
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::host::ByteRange;

/// The most ranges that a report has of a stripe, of each kind.
const RANGES_MAX: usize = 64;

/// A stripe of which more can't be read than redundancy makes up for, or that could not be written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftReport {
    /// Its number.
    pub stripe: u64,
    /// What the stripe is of what users see. Overwritten or discarded as a whole, it is done after all.
    pub range: ByteRange,
    /// What is lost of that: nothing, as far as it is known, or the first 64 ranges.
    pub lost: Vec<ByteRange>,
    /// What members could not read, the first 64 ranges.
    pub unreadable: Vec<Unreadable>,
}

/// A range of a member that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreadable {
    /// Which member.
    pub member: u8,
    /// Where it is on its device.
    #[serde(flatten)]
    pub range: ByteRange,
}

impl LeftReport {
    pub(super) fn of(left: &LeftStripe) -> Self {
        let range = |at: u64, blocks: u64| {
            let [offset, bytes] = [at, blocks].map(|blocks| blocks * BLOCK_BYTES as u64);
            ByteRange::from((offset, bytes))
        };
        let lost = left.lost.iter().map(|&(at, blocks)| range(at.0, blocks));
        let unreadable = left.unreadable.iter().map(|&(member, at, blocks)| Unreadable {
            member: member.0,
            range: range(at.0, blocks),
        });
        Self {
            stripe: left.stripe.0,
            range: range(left.at.0, left.blocks),
            lost: lost.take(RANGES_MAX).collect(),
            unreadable: unreadable.take(RANGES_MAX).collect(),
        }
    }
}

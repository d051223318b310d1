//! What an array of a shape can have, and what it takes.

use super::headers::PAYLOAD_MAX;
use super::journal::header_blocks;
use super::record::Consistency;
use crate::geometry::Geometry;
use crate::units::Stripe;

/// How many of the largest entries a journal has room for, at least.
const JOURNAL_ENTRIES_MIN: u64 = 4;

/// Whether an array of that shape can have a staging log: RAID4, 5 and 6. A mirror gains nothing
/// from one. Without redundancy, a failed write could reappear after a crash. And a reclaim needs
/// two scratch buffers for every data chunk, of which a set can name 64.
#[must_use]
pub fn can_stage(geometry: &Geometry) -> bool {
    geometry.parities() > 0 && geometry.width() + 2 + geometry.data() <= 64
}

/// Whether an array of that shape can have partial entries in its journal: RAID4, 5 and 6 of at most 31
/// members. Each parity's partial one needs a scratch buffer beside those of the members, of which a set
/// can name 64.
#[must_use]
pub(super) fn can_leave_out(geometry: &Geometry) -> bool {
    geometry.parities() > 0 && 2 * geometry.width() < 64
}

/// Whether an array of that shape can have a distributed spare: RAID4, 5 and 6. In a mirror, all
/// members hold the same.
#[must_use]
pub fn can_distribute(geometry: &Geometry) -> bool {
    geometry.parities() > 0
}

/// How many members hold a copy of each chunk on the distributed spare: one more than may be lost.
#[must_use]
pub fn spare_copies(geometry: &Geometry) -> usize {
    geometry.redundancy() + 1
}

/// The blocks of a distributed spare on each member, for so many stripes of a shape.
pub(super) fn spare_blocks(shape: &Geometry, stripes: u64) -> u64 {
    let chunks = stripes * spare_copies(shape) as u64;
    chunks.div_ceil(shape.members() as u64 - 1) * u64::from(shape.chunk())
}

/// The blocks that this many stripes take on the member with the most of their chunks.
pub(super) fn data_blocks(shape: &Geometry, stripes: u64) -> u64 {
    let blocks = shape.member_set().map(|member| shape.blocks_before(Stripe(stripes), member));
    blocks.max().unwrap_or(0)
}

/// The least blocks that the journal needs. An entry can be a whole stripe, at worst with a run for
/// every block.
pub(super) fn journal_least(shape: &Geometry, consistency: Consistency) -> u64 {
    match consistency {
        Consistency::Journal if shape.parities() > 0 => {
            let payload = (shape.width() as u32 * shape.chunk()).min(PAYLOAD_MAX);
            JOURNAL_ENTRIES_MIN * u64::from(header_blocks(payload, payload) + payload)
        }
        Consistency::Journal | Consistency::Bitmap | Consistency::Resync => 0,
    }
}

//! What becomes of a block of which only some sectors were written.

use raidcore::units::BLOCK_BYTES;

use crate::source::Source;

/// The atomic unit of a disk that does not write whole blocks atomically.
const SECTOR: usize = 512;

/// A block with some old and some new sectors.
pub(crate) fn mixed(
    source: &mut Source,
    old: &[u8; BLOCK_BYTES],
    new: &[u8; BLOCK_BYTES],
) -> [u8; BLOCK_BYTES] {
    let mut mixed = *old;
    for (to, from) in mixed.chunks_mut(SECTOR).zip(new.chunks(SECTOR)) {
        if source.chance(1, 2) {
            to.copy_from_slice(from);
        }
    }
    mixed
}

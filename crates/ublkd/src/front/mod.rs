//! The protocols that serve a [`Volume`](crate::volume::Volume) to its users. They don't know each
//! other.

use raidcore::units::BLOCK_BYTES;

pub mod fuse;
pub mod nbd;
pub mod ublk;

/// The most blocks of a discard or write-zeroes that go to the volume at once (1 GiB), so that
/// other requests get their turn.
const RANGE_BLOCKS_MAX: u32 = 1 << 18;

/// The smallest piece that users read and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogicalBlock {
    /// The array's own blocks.
    #[default]
    Whole,
    /// 512 bytes, for users that know nothing else. What is less than a block of the array is read,
    /// changed and written.
    Small,
}

impl LogicalBlock {
    /// The size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Whole => BLOCK_BYTES as u32,
            Self::Small => 512,
        }
    }
}

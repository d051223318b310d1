//! The protocols that serve a [`Volume`](crate::volume::Volume) to its users. They don't know each
//! other.

pub mod fuse;
pub mod nbd;
pub mod ublk;

/// The most blocks of a discard or write-zeroes that go to the volume at once (1 GiB), so that
/// other requests get their turn.
const RANGE_BLOCKS_MAX: u32 = 1 << 18;

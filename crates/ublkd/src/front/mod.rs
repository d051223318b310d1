//! The protocols that serve a [`Volume`](crate::volume::Volume) to its users. They are independent
//! of each other.

use std::sync::Arc;

use raidcore::units::BLOCK_BYTES;

use crate::resident::Resident;

mod extent;
pub mod fuse;
pub mod nbd;
mod socket;
pub mod ublk;
pub mod vhost;

pub use socket::SocketError;

/// The most blocks of a discard or write-zeroes in one request of the volume (1 GiB), so that
/// others get their turn.
const RANGE_BLOCKS_MAX: u32 = 1 << 18;

/// The most bytes that the volume's thread moves each way for a user before others have their turn, which
/// takes some tens of microseconds.
const MOVE_BYTES: usize = 256 << 10;

/// Gives the volume's thread a front end, or drops it if that thread has ended.
type Admit = Arc<dyn Fn(Box<dyn Resident>) + Send + Sync>;

/// The logical block size for users.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogicalBlock {
    /// The array's own blocks.
    #[default]
    Whole,
    /// 512 bytes, for users that can't use larger ones. Parts of the array's blocks are read,
    /// modified and written.
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

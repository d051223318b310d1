//! Why an array can't be laid out. Its own module, since decoding reports it, too.

use crate::geometry::GeometryError;

/// Why there is no such layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// There is no room for a single stripe.
    #[error(
        "the smallest member has {have} blocks of 4 KiB; this array needs at least {need} of each"
    )]
    TooSmall {
        /// Blocks of the smallest member.
        have: u64,
        /// Blocks needed.
        need: u64,
    },
    /// Data that is there already begins where no array's can.
    #[error("the data begins at {} KiB, which is no multiple of 1024 KiB", .data_start.saturating_mul(4))]
    Alignment {
        /// The block that it begins at.
        data_start: u64,
    },
    /// There is no room for metadata before data that is there already.
    #[error(
        "there are {} KiB before the data; this array's metadata needs {} KiB",
        .have.saturating_mul(4),
        .need.saturating_mul(4)
    )]
    BeforeData {
        /// Blocks before the data.
        have: u64,
        /// Blocks needed.
        need: u64,
    },
    /// The shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Without parity there is no distributed spare.
    #[error("a distributed spare takes parity to fill it from: RAID4, RAID5 or RAID6")]
    NoDistributedSpare,
    /// An area is out of place or too small.
    #[error("the {0} is out of place or has the wrong size")]
    Area(&'static str),
    /// The maps can't grow.
    #[error("there is no room for the maps of so many stripes before the data")]
    NoMapRoom,
}

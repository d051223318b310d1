//! A log-structured volume above arrays: nothing is written in place.
//!
//! A volume lies above one or more *groups*. A group is a block device with a volatile cache: here
//! an Evenkeel array, whose redundancy, spares and rebuilds the volume does not know of. With one
//! group it is a Log-RAID. With several it is SWAN (Kim et al., USENIX ATC '19): one group at the
//! front takes all writes of users, while those at the back are cleaned.
//!
//! Like the engine below it, the [`LogVolume`] is a sans-IO state machine: it is given events, and
//! answers with actions. It owns no file, clock or thread, and never sees a byte of users' data.
#![no_std]

extern crate alloc;

pub mod array;
mod buckets;
pub mod cache;
pub mod codec;
pub mod host;
mod layout;
mod machine;
mod map;
mod recovery;
mod segments;
mod shape;
mod sizes;
mod units;
mod volume;

pub use array::LogArray;
pub use cache::CachedArray;
pub use codec::VolumeId;
pub use layout::{Layout, LayoutNameError};
pub use machine::{Actions, Machine, ONLY, Pool};
pub use map::Map;
pub use recovery::{Answer, Found, Recovery, RecoveryError, Wanted};
pub use segments::{Choice, SegmentState};
pub use shape::{Shape, ShapeError, Wish};
pub use units::{GroupId, Pba, Segment};
pub use volume::{
    Action, Batch, BatchId, Cleaning, Config, Counters, Input, Io, IoId, IoOp, LogVolume, Note,
    Pages, Status,
};

//! What jobs wait for.

use crate::meta::MapKind;

/// What a job waits for besides its own I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// A metadata page to be durable in this version, with what the job has changed of a bit.
    Page { kind: MapKind, index: u32, version: u64, bit: u64, change: Change },
    /// A flush round to end.
    Flush(u64),
    /// The array's record to be durable.
    Record(u64),
    /// Room in the journal.
    Space,
    /// Room in the staging log.
    Staging,
}

/// What a job has changed of its bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// It was clear.
    Set,
    /// It was set.
    Cleared,
    /// It has changed nothing; members are told of the bit as it is.
    None,
}

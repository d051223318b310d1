//! Requests of a trace or generator.

use det::Instant;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Says that the range is not needed.
    Discard,
    /// Makes durable what was written. It has no range.
    Flush,
}

/// A request of a trace or generator: in bytes, which need not be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its time, counted from the start of the workload. Zero in a closed loop, where a request
    /// comes when an earlier one has ended.
    pub at: Instant,
    /// What it does.
    pub kind: Kind,
    /// The first byte.
    pub offset: u64,
    /// How many bytes: at least one, but for a flush.
    pub bytes: u32,
}

//! Users' requests and members' I/Os, as plain data.

use serde::{Deserialize, Serialize};

/// Users' requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IoReport {
    /// When counting began, in nanoseconds of the system's monotonic clock.
    pub since_ns: u64,
    /// When this was the state of it.
    pub at_ns: u64,
    /// The upper bounds of the buckets of all latencies, members' too; a last bucket is for longer ones.
    pub bounds_ns: Vec<u64>,
    /// Requests that have succeeded, by kind and size; of each kind in the order of their sizes.
    pub requests: Vec<TransfersReport>,
}

/// Requests or I/Os of a kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransfersReport {
    /// "read", "write", "flush", "discard" or "write-zeroes".
    pub op: String,
    /// If they are told apart by size, that of the largest; those of the last size have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_bytes: Option<u64>,
    /// What they have moved.
    pub bytes: u64,
    /// The sum of their latencies.
    pub time_ns: u64,
    /// How many took at most each bound and more than the one before.
    pub buckets: Vec<u64>,
}

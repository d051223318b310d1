//! Counters of I/O in reports: what was asked for since the start, and how long it took. Whoever wants
//! rates takes the difference of two reports.

use serde::{Deserialize, Serialize};

use crate::host::{IoStats, KindStats, LATENCY_BOUNDS_NS, RequestSize, RequestStats, Transfers};

/// Users' requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

impl IoReport {
    pub(super) fn of(stats: &RequestStats) -> Self {
        let requests = stats.kinds().map(|KindStats { op, size, stats }| {
            let up_to_bytes = match size {
                RequestSize::UpTo(bytes) => Some(bytes),
                RequestSize::Any | RequestSize::Larger => None,
            };
            TransfersReport { up_to_bytes, ..TransfersReport::of(op, stats) }
        });
        Self {
            since_ns: stats.since.0,
            at_ns: stats.at.0,
            bounds_ns: LATENCY_BOUNDS_NS.to_vec(),
            requests: requests.collect(),
        }
    }
}

impl TransfersReport {
    /// The reads and writes of a device.
    pub(super) fn of_device(io: &IoStats) -> Vec<Self> {
        vec![Self::of("read", &io.reads), Self::of("write", &io.writes)]
    }

    fn of(op: &str, stats: &Transfers) -> Self {
        Self {
            op: op.to_owned(),
            up_to_bytes: None,
            bytes: stats.bytes,
            time_ns: stats.nanos,
            buckets: stats.buckets.to_vec(),
        }
    }
}

//! Counters of I/O in reports: what was asked for since the start, and how long it took. Whoever wants
//! rates takes the difference of two reports.

use evenkeel_client::{IoReport, TransfersReport};

use crate::host::{IoStats, KindStats, LATENCY_BOUNDS_NS, RequestSize, RequestStats, Transfers};

pub(super) fn io_report(stats: &RequestStats) -> IoReport {
    let requests = stats.kinds().map(|KindStats { op, size, stats }| {
        let up_to_bytes = match size {
            RequestSize::UpTo(bytes) => Some(bytes),
            RequestSize::Any | RequestSize::Larger => None,
        };
        TransfersReport { up_to_bytes, ..transfers(op, stats) }
    });
    IoReport {
        since_ns: stats.since.0,
        at_ns: stats.at.0,
        bounds_ns: LATENCY_BOUNDS_NS.to_vec(),
        requests: requests.collect(),
    }
}

/// The reads and writes of a device.
pub(super) fn transfers_of_device(io: &IoStats) -> Vec<TransfersReport> {
    vec![transfers("read", &io.reads), transfers("write", &io.writes)]
}

fn transfers(op: &str, stats: &Transfers) -> TransfersReport {
    TransfersReport {
        op: op.to_owned(),
        up_to_bytes: None,
        bytes: stats.bytes,
        time_ns: stats.nanos,
        buckets: stats.buckets.to_vec(),
    }
}

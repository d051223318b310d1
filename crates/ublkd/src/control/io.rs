//! Counters of I/O in reports: what was asked for since the start, and how long it took. Whoever wants
//! rates takes the difference of two reports.

use evenkeel_client::{ArrayReport, IoReport, TransfersReport};

use crate::host::{
    KindStats, LATENCY_BOUNDS_NS, MemberMetrics, RequestSize, RequestStats, Transfers,
};

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

/// Adds the reads and writes of members' devices to a report.
pub(super) fn add_io(report: &mut ArrayReport, members: &[MemberMetrics]) {
    for (member, MemberMetrics { io, .. }) in report.members.iter_mut().zip(members) {
        member.io = vec![transfers("read", &io.reads), transfers("write", &io.writes)];
    }
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

//! A snapshot of an array, for metrics.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Engine, Status};
use steering::Steering;
use steering::scheme::Scheme;

use crate::ring::{IoStats, Ring};

/// A snapshot of an array.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The engine's state.
    pub status: Status,
    /// The scheme against garbage collection.
    pub scheme: Scheme,
    /// Memory of I/O that is registered with the kernel, which keeps it in RAM, in bytes; of a log volume
    /// that of all its groups.
    pub registered_bytes: u64,
    /// The members, in order.
    pub members: Vec<MemberMetrics>,
}

/// A snapshot of a member.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemberMetrics {
    /// The I/O of its device since it was opened; nothing if it has none.
    pub io: IoStats,
    /// Whether it collects garbage and for how long it has since it was opened, if it reports that.
    pub collecting: Option<(bool, Duration)>,
    /// Whether reads go around it now and for how long they have, if the policy has them.
    pub busy: Option<(bool, Duration)>,
    /// Verdicts from its latencies that it is busy which were right, and which were wrong, if it is
    /// watched.
    pub verdicts: Option<(u64, u64)>,
    /// The share of I/Os that were late among those that began in its current mood; none if it is
    /// not watched, or there were none.
    pub late: Option<f64>,
}

impl Metrics {
    pub(super) fn new(
        now: Instant,
        engine: &Engine,
        steering: &Steering,
        ring: &mut Ring,
        registered_bytes: u64,
    ) -> Self {
        let status = engine.status();
        let members = status.members.iter().map(|member| {
            let score = steering.score(member.member);
            MemberMetrics {
                io: member.device.map(|device| ring.stats(device)).unwrap_or_default(),
                collecting: member.device.and_then(|device| ring.collecting(now, device)),
                busy: steering.busy(now, member.member),
                verdicts: score.map(|(_, score)| (score.right, score.wrong)),
                late: score.and_then(|(busy, score)| {
                    if busy { score.precision_of_ios() } else { score.late_otherwise() }
                }),
            }
        });
        let members = members.collect();
        Self { status, scheme: steering.scheme(), registered_bytes, members }
    }
}

//! Metrics of users' requests.

use super::text::{Labels, Text};
use crate::host::{KindStats, LATENCY_BOUNDS_NS, RequestSize, RequestStats};

/// Those of an array, or of a log volume.
pub(super) fn asked(text: &mut Text, array: &str, stats: &RequestStats) {
    let bounds = LATENCY_BOUNDS_NS.map(|nanos| nanos as f64 / 1e9);
    let mut latency = text.histogram(
        "evenkeel_request_seconds",
        "How long users' requests took that succeeded, from when the array's thread took one up. Reads \
         and writes by their size: the largest it can be, in bytes.",
    );
    each(array, stats, |labels, KindStats { stats, .. }| {
        let sum = stats.nanos as f64 / 1e9;
        latency.distribution(labels, bounds.into_iter(), &stats.buckets, sum);
    });
    let mut bytes = text.counter(
        "evenkeel_request_bytes_total",
        "What these requests have read, written or discarded.",
    );
    each(array, stats, |labels, kind| bytes.sample(labels, kind.stats.bytes));
}

fn each(array: &str, stats: &RequestStats, mut visit: impl FnMut(Labels<'_>, KindStats<'_>)) {
    for kind in stats.kinds() {
        let size = match kind.size {
            RequestSize::Any => None,
            RequestSize::UpTo(bytes) => Some(bytes.to_string()),
            RequestSize::Larger => Some("+Inf".to_owned()),
        };
        let size = size.as_deref().map(|size| ("size", size));
        let labels: Vec<_> = [("array", array), ("op", kind.op)].into_iter().chain(size).collect();
        visit(&labels, kind);
    }
}

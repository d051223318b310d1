//! A device's I/O statistics: counts, bytes, and latencies in fixed buckets. Counting takes a few
//! additions, and a copy is the size of a page.

use std::time::Duration;

use crate::ops::OpKind;

/// The upper bounds of the buckets, in nanoseconds: 1, 2, 5 and so on, from 10 µs to 10 s.
pub const LATENCY_BOUNDS_NS: [u64; 19] = {
    let mut bounds = [0; 19];
    let (mut at, mut unit) = (0, 10_000);
    while at < bounds.len() {
        bounds[at] = unit * [1, 2, 5][at % 3];
        if at % 3 == 2 {
            unit *= 10;
        }
        at += 1;
    }
    bounds
};

/// What a device has done since it was opened. Flushes and discards are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoStats {
    /// Reads that have succeeded.
    pub reads: Transfers,
    /// Writes that have succeeded, metadata and journal included.
    pub writes: Transfers,
}

/// I/Os of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// How many bytes they moved.
    pub bytes: u64,
    /// The sum of their latencies.
    pub time: Duration,
    /// How many took at most each of [`LATENCY_BOUNDS_NS`] and more than the bound before; the last
    /// bucket is for longer ones.
    pub buckets: [u64; LATENCY_BOUNDS_NS.len() + 1],
}

impl Transfers {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, bytes: usize, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.bytes += bytes as u64;
        self.time += took;
        self.buckets[LATENCY_BOUNDS_NS.partition_point(|&bound| bound < nanos)] += 1;
    }
}

impl IoStats {
    /// An I/O has succeeded.
    pub(crate) fn add(&mut self, kind: OpKind, bytes: usize, took: Duration) {
        match kind {
            OpKind::Read(_) => self.reads.add(bytes, took),
            OpKind::Write { .. } | OpKind::Gather => self.writes.add(bytes, took),
            OpKind::Flush | OpKind::Discard | OpKind::Trim | OpKind::Look => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_is_in_the_bucket_of_the_next_bound() {
        assert_eq!(LATENCY_BOUNDS_NS[..4], [10_000, 20_000, 50_000, 100_000]);
        assert_eq!(LATENCY_BOUNDS_NS[18], 10_000_000_000);
        let mut stats = IoStats::default();
        for nanos in [0, 10_000, 10_001, 20_000, 10_000_000_001] {
            stats.add(OpKind::Gather, 4096, Duration::from_nanos(nanos));
        }
        stats.add(OpKind::Flush, 0, Duration::ZERO);
        let writes = stats.writes;
        assert_eq!((writes.buckets[0], writes.buckets[1], writes.buckets[19]), (2, 2, 1));
        assert_eq!((writes.count(), writes.bytes), (5, 5 * 4096));
        assert_eq!(writes.time, Duration::from_nanos(10_000_040_002));
        assert_eq!(stats.reads, Transfers::default());
    }
}

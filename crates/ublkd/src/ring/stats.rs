//! A device's I/O statistics: counts, bytes, and latencies in fixed buckets. Counting takes a few
//! additions, and a copy is the size of a page.

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

/// By the binary digits of a number of nanoseconds, how many bounds are below all such numbers. Bounds are
/// at least twice the one before, so at most one more is below the number itself.
const BELOW: [u8; 65] = {
    let mut below = [0; 65];
    let mut digits = 1;
    while digits <= 64 {
        let least = 1 << (digits - 1);
        while (below[digits] as usize) < LATENCY_BOUNDS_NS.len()
            && LATENCY_BOUNDS_NS[below[digits] as usize] < least
        {
            below[digits] += 1;
        }
        digits += 1;
    }
    below
};

/// The bucket of a latency: how many bounds are below it.
fn bucket(nanos: u64) -> usize {
    let below = usize::from(BELOW[(u64::BITS - nanos.leading_zeros()) as usize]);
    below + usize::from(LATENCY_BOUNDS_NS.get(below).is_some_and(|&bound| bound < nanos))
}

/// What a device has done since it was opened. Flushes and discards are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoStats {
    /// Reads that have succeeded.
    pub reads: Transfers,
    /// Writes that have succeeded, metadata and journal included.
    pub writes: Transfers,
}

/// I/Os of a kind, or requests of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// How many bytes they moved.
    pub bytes: u64,
    /// The sum of their latencies, in nanoseconds.
    pub nanos: u64,
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

    /// One more, of so many bytes, that took so many nanoseconds.
    pub(crate) fn add(&mut self, bytes: u64, nanos: u64) {
        self.bytes += bytes;
        self.nanos += nanos;
        self.buckets[bucket(nanos)] += 1;
    }
}

impl IoStats {
    /// An I/O has succeeded, after so many nanoseconds.
    pub(crate) fn add(&mut self, kind: OpKind, bytes: usize, nanos: u64) {
        match kind {
            OpKind::Read(_) => self.reads.add(bytes as u64, nanos),
            OpKind::Write { .. } | OpKind::Gather { .. } => self.writes.add(bytes as u64, nanos),
            OpKind::Flush | OpKind::Discard | OpKind::Trim | OpKind::Look => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use raidcore::engine::Stream;

    use super::*;

    #[test]
    fn an_io_is_in_the_bucket_of_the_next_bound() {
        assert_eq!(LATENCY_BOUNDS_NS[..4], [10_000, 20_000, 50_000, 100_000]);
        assert_eq!(LATENCY_BOUNDS_NS[18], 10_000_000_000);
        let mut stats = IoStats::default();
        for nanos in [0, 10_000, 10_001, 20_000, 10_000_000_001] {
            stats.add(OpKind::Gather { stream: Stream::Journal }, 4096, nanos);
        }
        stats.add(OpKind::Flush, 0, 0);
        let writes = stats.writes;
        assert_eq!((writes.buckets[0], writes.buckets[1], writes.buckets[19]), (2, 2, 1));
        assert_eq!((writes.count(), writes.bytes), (5, 5 * 4096));
        assert_eq!(writes.nanos, 10_000_040_002);
        assert_eq!(stats.reads, Transfers::default());
    }
    #[test]
    fn a_bucket_is_found_as_by_a_search() {
        let search = |nanos| LATENCY_BOUNDS_NS.partition_point(|&bound| bound < nanos);
        let around = |at: u64| [at.wrapping_sub(1), at, at.wrapping_add(1)];
        let powers = (0..64).map(|digit| 1 << digit);
        for nanos in LATENCY_BOUNDS_NS.into_iter().chain(powers).flat_map(around) {
            assert_eq!(bucket(nanos), search(nanos), "{nanos}");
        }
    }
}

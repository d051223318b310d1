//! Quantiles of a stream of durations, in constant space and time.
//!
//! A histogram has eight buckets to the octave, and all counts are halved after each window. So old
//! values fade, and the median follows a changing workload quickly, unlike the markers of the P²
//! algorithm. It is right to 6% for every distribution; P² interpolates across the gap of a
//! distribution with two humps, which latencies have. Adding a value takes a few integer
//! operations: the median's bucket is kept, and moves by a step or two.
//!
//! Invariants: `total` is the sum of `counts`; `below` is the sum of those before `median`; the
//! `median` bucket is the first that reaches half of `total`.

/// Buckets to the octave, as a power of two.
const STEPS_LOG: u32 = 3;
/// The first octave: everything below 1.024 µs is in the first bucket.
const FIRST_LOG: u32 = 10;
/// Octaves: everything above 34 s is in the last bucket.
const OCTAVES: u32 = 25;
const BUCKETS: usize = (OCTAVES << STEPS_LOG) as usize;

#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: [u16; BUCKETS],
    total: u32,
    below: u32,
    median: usize,
    window: u16,
}

impl Histogram {
    /// An empty one. Its counts are halved whenever they reach `window`.
    pub(crate) fn new(window: u16) -> Self {
        Self { counts: [0; BUCKETS], total: 0, below: 0, median: 0, window: window.max(2) }
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        let at = bucket(nanos);
        self.counts[at] += 1;
        self.total += 1;
        self.below += u32::from(at < self.median);
        if self.total >= u32::from(self.window) {
            self.fade();
        }
        self.find_median();
    }

    /// How many values are remembered.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// The median in nanoseconds, within 6%; zero if there are no values.
    pub(crate) fn median(&self) -> u64 {
        if self.total == 0 { 0 } else { middle(self.median) }
    }

    /// The `percent`-th percentile of the values in nanoseconds, within 6%.
    pub(crate) fn percentile(&self, percent: u32) -> u64 {
        let rank = (u64::from(self.total) * u64::from(percent)).div_ceil(100).max(1);
        let mut sum = 0;
        let reached = self.counts.iter().position(|&count| {
            sum += u64::from(count);
            sum >= rank
        });
        reached.map_or(0, middle)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.window);
    }

    #[cfg(test)]
    fn check(&self) {
        let sum = |counts: &[u16]| counts.iter().map(|&count| u32::from(count)).sum::<u32>();
        assert_eq!(self.total, sum(&self.counts));
        assert_eq!(self.below, sum(&self.counts[..self.median]));
        assert!(self.total < u32::from(self.window));
        assert!(self.below * 2 < self.total || self.median == 0);
        assert!((self.below + u32::from(self.counts[self.median])) * 2 >= self.total);
    }

    fn fade(&mut self) {
        for count in &mut self.counts {
            *count /= 2;
        }
        let sum = |counts: &[u16]| counts.iter().map(|&count| u32::from(count)).sum();
        self.total = sum(&self.counts);
        self.below = sum(&self.counts[..self.median]);
    }

    fn find_median(&mut self) {
        while self.median > 0 && self.below * 2 >= self.total {
            self.median -= 1;
            self.below -= u32::from(self.counts[self.median]);
        }
        while (self.below + u32::from(self.counts[self.median])) * 2 < self.total {
            self.below += u32::from(self.counts[self.median]);
            self.median += 1;
        }
    }
}

fn bucket(nanos: u64) -> usize {
    let log = nanos.max(1).ilog2();
    if log < FIRST_LOG {
        return 0;
    }
    let step = (nanos >> (log - STEPS_LOG)) & ((1 << STEPS_LOG) - 1);
    ((((log - FIRST_LOG) as usize) << STEPS_LOG) + step as usize).min(BUCKETS - 1)
}

/// The middle of a bucket, in nanoseconds.
fn middle(bucket: usize) -> u64 {
    let (log, step) = (FIRST_LOG + (bucket >> STEPS_LOG) as u32, bucket as u64 & 7);
    let width = 1u64 << (log - STEPS_LOG);
    (1 << log) + step * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use det::Prng;

    #[test]
    fn a_bucket_holds_its_middle() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(middle(at)), at);
        }
        assert_eq!((bucket(0), bucket(1023), bucket(u64::MAX)), (0, 0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut prng = Prng::new(1);
        let mut histogram = Histogram::new(u16::MAX);
        let mut values = Vec::new();
        for count in 0..5000 {
            // Two humps, a decade apart.
            let hump = if prng.chance(1, 3) { 1_000_000 } else { 100_000 };
            let value = hump / 2 + prng.below(hump);
            values.push(value);
            histogram.add(value);
            histogram.check();
            if count % 500 == 499 {
                values.sort_unstable();
                for percent in [50, 90, 99] {
                    let exact = values[(values.len() * percent).div_ceil(100) - 1];
                    let told = histogram.percentile(percent as u32);
                    assert!(told.abs_diff(exact) * 16 <= exact, "p{percent}: {told} for {exact}");
                }
                assert_eq!(histogram.median(), histogram.percentile(50));
            }
        }
    }

    #[test]
    fn what_was_long_ago_fades() {
        let mut histogram = Histogram::new(256);
        (0..10_000).for_each(|_| histogram.add(80_000));
        let mut needed = 0;
        while histogram.median() < 500_000 {
            histogram.add(1_000_000);
            histogram.check();
            needed += 1;
        }
        assert!(needed <= 256, "{needed}");
    }
}

//! How a drive behaves under sustained writes.

use serde::Serialize;

use super::recording::{Recorded, Sample};
use crate::results::Unit;

/// What users of a drive notice under sustained random writes of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Behaviour {
    /// Writes a second.
    pub writes_per_s: f64,
    /// The mean of their latencies, in microseconds.
    pub write_mean_us: f64,
    /// What 99% of them stay within.
    pub write_p99_us: f64,
    /// What 99.9% of them stay within.
    pub write_p999_us: f64,
    /// The mean latency of reads beside them; zero without any.
    pub read_mean_us: f64,
    /// What 99% of these reads stay within.
    pub read_p99_us: f64,
    /// When writes stood still.
    pub stalls: Stalls,
    /// When writes of one at a time stood still, which follow the sustained ones: where the drive is not kept
    /// busy, stalls don't merge.
    pub single: Stalls,
}

/// Stretches of time in which a write was under way for longer than a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// The threshold, in microseconds.
    pub threshold_us: f64,
    /// How many stretches there were.
    pub count: u64,
    /// Their mean length, in microseconds.
    pub mean_us: f64,
    /// The longest, in microseconds.
    pub longest_us: f64,
    /// Their share of the time.
    pub share: f64,
    /// What was written from one to the next in the mean, in bytes.
    pub spacing_bytes: f64,
}

/// What idling brings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rested {
    /// What was written after idling before the first stall, in bytes; all if there was none.
    pub bytes: f64,
    /// Writes a second until then.
    pub writes_per_s: f64,
}

impl Behaviour {
    /// That of a step's writes and reads, without those that ended before the first `skip` seconds were over.
    /// Writes that took longer than `threshold_us` were stalled.
    pub(super) fn of(recorded: &Recorded, skip: f64, threshold_us: f64) -> Self {
        let from = (skip * 1e9) as u64;
        let counted = || recorded.samples.iter().filter(move |sample| sample.end() >= from);
        let seconds = (recorded.seconds - skip).max(1e-9);
        let writes = Latencies::of(counted().filter(|sample| !sample.read));
        let reads = Latencies::of(counted().filter(|sample| sample.read));
        let count = writes.sorted.len() as f64;
        let stalls = Stalls::of(
            counted().filter(|sample| !sample.read),
            (from, seconds),
            threshold_us,
            count * 4096.0,
        );
        Self {
            writes_per_s: count / seconds,
            write_mean_us: writes.mean(),
            write_p99_us: writes.within(0.99),
            write_p999_us: writes.within(0.999),
            read_mean_us: reads.mean(),
            read_p99_us: reads.within(0.99),
            stalls,
            single: Stalls::default(),
        }
    }

    /// With the stalls of writes of one at a time, if they were recorded. One that took longer than
    /// `threshold_us` was stalled.
    pub(super) fn with_single(self, recorded: Option<&Recorded>, threshold_us: f64) -> Self {
        let single = recorded.map_or_else(Stalls::default, |recorded| {
            let bytes = recorded.samples.len() as f64 * 4096.0;
            Stalls::of(recorded.samples.iter(), (0, recorded.seconds), threshold_us, bytes)
        });
        Self { single, ..self }
    }

    /// Its figures, each with a name for people and its unit.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, Unit, f64); 11] {
        use Unit::{Microseconds as Us, PerSecond, Share};
        [
            ("writes/s", PerSecond, self.writes_per_s),
            ("write mean", Us, self.write_mean_us),
            ("write p99", Us, self.write_p99_us),
            ("write p99.9", Us, self.write_p999_us),
            ("read mean", Us, self.read_mean_us),
            ("read p99", Us, self.read_p99_us),
            ("stall mean", Us, self.stalls.mean_us),
            ("stall longest", Us, self.stalls.longest_us),
            ("time in stalls", Share, self.stalls.share),
            ("stall mean, one write at a time", Us, self.single.mean_us),
            ("time in stalls, one write at a time", Share, self.single.share),
        ]
    }
}

impl Stalls {
    /// Of fewer, a mean says little.
    pub(super) const FEW: u64 = 10;

    fn of<'a>(
        writes: impl Iterator<Item = &'a Sample>,
        (from, seconds): (u64, f64),
        threshold_us: f64,
        bytes: f64,
    ) -> Self {
        let threshold = (threshold_us * 1e3) as u64;
        let long = writes.filter(|sample| sample.took > threshold);
        let mut long: Vec<_> = long.map(|sample| (sample.at.max(from), sample.end())).collect();
        long.sort_unstable();
        let mut stalls: Vec<(u64, u64)> = Vec::new();
        for (began, ended) in long {
            match stalls.last_mut() {
                Some((_, end)) if began <= *end => *end = ended.max(*end),
                _ => stalls.push((began, ended)),
            }
        }
        let lengths = || stalls.iter().map(|(began, ended)| (ended - began) as f64 / 1e3);
        let (count, sum) = (stalls.len() as u64, lengths().fold(0.0, |sum, length| sum + length));
        Self {
            threshold_us,
            count,
            mean_us: sum / count.max(1) as f64,
            longest_us: lengths().fold(0.0, f64::max),
            share: (sum / 1e6 / seconds).min(1.0),
            spacing_bytes: bytes / count.max(1) as f64,
        }
    }
}

impl Rested {
    /// Of the writes after idling.
    pub(super) fn of(recorded: &Recorded, threshold_us: f64) -> Self {
        let writes = || recorded.samples.iter().filter(|sample| !sample.read);
        let threshold = (threshold_us * 1e3) as u64;
        let stalled = writes().filter(|sample| sample.took > threshold).map(|sample| sample.at);
        let end = (recorded.seconds * 1e9) as u64;
        let first = stalled.min().unwrap_or(end).max(1);
        let before = writes().filter(|sample| sample.end() <= first).count() as f64;
        Self { bytes: before * 4096.0, writes_per_s: before / (first as f64 / 1e9) }
    }
}

/// Latencies in nanoseconds, in order.
pub(super) struct Latencies {
    sorted: Vec<u64>,
}

impl Latencies {
    pub(super) fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Self {
        let mut sorted: Vec<_> = samples.map(|sample| sample.took).collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// Their mean in microseconds; zero if there are none.
    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.sorted.iter().map(|&took| took as f64).sum();
        sum / 1e3 / self.sorted.len().max(1) as f64
    }

    /// What this share of them stays within, in microseconds; zero if there are none.
    pub(super) fn within(&self, share: f64) -> f64 {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        let found = self.sorted.get(rank.saturating_sub(1).min(self.sorted.len().max(1) - 1));
        found.map_or(0.0, |&took| took as f64 / 1e3)
    }
}

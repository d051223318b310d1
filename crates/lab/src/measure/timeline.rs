//! A run over time: requests, their worst latency, and which drives collected garbage, in equal
//! intervals.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The most intervals; at twice as many, pairs are merged.
const INTERVALS: usize = 512;

/// The length of an interval to begin with, in nanoseconds.
const WIDTH: u64 = 1 << 16;

/// A run over time, in equal intervals from the beginning of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of an interval, in microseconds.
    pub interval_us: f64,
    /// How many requests ended in each.
    pub requests: Vec<u32>,
    /// The mean latency of these, in microseconds.
    pub mean_us: Vec<f32>,
    /// The longest, in microseconds.
    pub worst_us: Vec<f32>,
    /// For each drive, the part of each interval in which it collected garbage.
    pub gc: Vec<Vec<f32>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    requests: u32,
    sum: u64,
    worst: u64,
}

/// Builds a [`Timeline`] of a run of any length.
#[derive(Clone, Debug)]
pub(super) struct Builder {
    width: u64,
    intervals: Vec<Interval>,
    /// For each drive, nanoseconds of collection in each interval.
    gc: Vec<Vec<u64>>,
}

impl Builder {
    pub(super) fn new(drives: usize) -> Self {
        Self {
            width: WIDTH,
            intervals: Vec::with_capacity(INTERVALS),
            gc: vec![Vec::new(); drives],
        }
    }

    pub(super) fn ended(&mut self, at: Duration, latency: Duration) {
        let index = self.reach(nanos(at));
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        let interval = &mut self.intervals[index];
        interval.requests += 1;
        interval.sum += nanos(latency);
        interval.worst = interval.worst.max(nanos(latency));
    }

    pub(super) fn collected(&mut self, drive: usize, from: Duration, to: Duration) {
        let last = self.reach(nanos(to));
        let gc = &mut self.gc[drive];
        if gc.len() <= last {
            gc.resize(last + 1, 0);
        }
        let first = (nanos(from) / self.width) as usize;
        for (index, time) in gc.iter_mut().enumerate().take(last + 1).skip(first) {
            let start = index as u64 * self.width;
            *time += nanos(to).min(start + self.width).saturating_sub(nanos(from).max(start));
        }
    }

    pub(super) fn timeline(&self) -> Timeline {
        let count = self.gc.iter().map(Vec::len).chain([self.intervals.len()]).max().unwrap_or(0);
        let at = |index: usize| self.intervals.get(index).copied().unwrap_or_default();
        let us = |nanos: f64| (nanos / 1e3) as f32;
        let part = |gc: &Vec<u64>| {
            let part = |index| *gc.get(index).unwrap_or(&0) as f64 / self.width as f64;
            (0..count).map(|index| part(index) as f32).collect()
        };
        Timeline {
            interval_us: self.width as f64 / 1e3,
            requests: (0..count).map(|index| at(index).requests).collect(),
            mean_us: (0..count)
                .map(|index| us(at(index).sum as f64 / f64::from(at(index).requests.max(1))))
                .collect(),
            worst_us: (0..count).map(|index| us(at(index).worst as f64)).collect(),
            gc: self.gc.iter().map(part).collect(),
        }
    }

    /// Requests in each interval but the last, which is cut off.
    pub(super) fn full_intervals(&self) -> impl Iterator<Item = u32> {
        self.intervals.iter().take(self.intervals.len().saturating_sub(1)).map(|i| i.requests)
    }

    /// Makes the intervals long enough for `at`, and returns which one it is in.
    fn reach(&mut self, at: u64) -> usize {
        while at / self.width >= 2 * INTERVALS as u64 {
            self.width *= 2;
            let folded = self.intervals.chunks(2).map(|pair| Interval {
                requests: pair.iter().map(|i| i.requests).sum(),
                sum: pair.iter().map(|i| i.sum).sum(),
                worst: pair.iter().map(|i| i.worst).max().unwrap_or(0),
            });
            self.intervals = folded.collect();
            for gc in &mut self.gc {
                *gc = gc.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        (at / self.width) as usize
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

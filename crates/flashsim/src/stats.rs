//! What a drive has done, as plain numbers.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// What the flash has done since the drive was made or its counters were reset. Pages are those of
/// the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashStats {
    /// Pages that were programmed for the host.
    pub programmed: u64,
    /// Pages that garbage collection and wear levelling moved.
    pub moved: u64,
    /// Pages that were left empty to complete a program.
    pub padded: u64,
    /// Blocks that were erased.
    pub erases: u64,
}

/// What a drive has done since it was made or its counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// What the flash has done.
    pub flash: FlashStats,
    /// Pages that the host read.
    pub pages_read: u64,
    /// Pages of these that came from the write buffer, or were never written.
    pub pages_read_elsewhere: u64,
    /// Reads of the flash array for the host, repetitions among them.
    pub array_reads: u64,
    /// Pages that the host wrote.
    pub pages_written: u64,
    /// Pages of these that replaced one in the write buffer.
    pub pages_coalesced: u64,
    /// Pages that the host trimmed.
    pub pages_trimmed: u64,
    /// Read commands that have ended.
    pub reads: u64,
    /// Write commands that have ended.
    pub writes: u64,
    /// Commands that have ended and for which garbage collection had to end or pause first.
    pub delayed_by_gc: u64,
    /// Commands that have ended and of which an operation came to a die that was erasing, or that
    /// waits for one that was.
    #[serde(default)]
    pub erase_hits: u64,
    /// Blocks of [`GcOrder::Once`](crate::GcOrder::Once) that were erased.
    #[serde(default)]
    pub forced: u64,
    /// How long operations of read commands waited for their die.
    pub read_queue: Sum,
    /// How long operations of write commands, or programs of the buffer, waited for their die.
    pub write_queue: Sum,
    /// Uninterrupted stretches of garbage collection on a die, and their lengths.
    pub gc: Sum,
    /// How long at least one die was collecting.
    pub gc_time: Duration,
    /// Programs and erases that were suspended.
    pub suspends: u64,
    /// How often a write had to wait for room in the write buffer.
    pub buffer_full: u64,
}

impl Stats {
    /// Write amplification: pages programmed per page that the host wrote; 1 if it wrote none.
    #[must_use]
    pub fn waf(&self) -> f64 {
        let FlashStats { programmed, moved, padded, .. } = self.flash;
        let flash = programmed as f64 + moved as f64 + padded as f64;
        if self.pages_written == 0 { 1.0 } else { flash / self.pages_written as f64 }
    }
}

/// How many there were, and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Sum {
    /// The mean; zero if there were none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self.count {
            0 => Duration::ZERO,
            count => Duration::from_nanos((self.total.as_nanos() / u128::from(count)) as u64),
        }
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        let length = Duration::from_nanos(nanos);
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
    }
}

/// How worn the blocks of a drive are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wear {
    /// Erases of a block on average.
    pub mean: f64,
    /// Erases of the least worn block.
    pub least: u32,
    /// Erases of the most worn block.
    pub most: u32,
    /// Standard deviation over the blocks.
    pub deviation: f64,
}

impl Wear {
    pub(crate) fn of(erases: impl Iterator<Item = u32>) -> Self {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let (mut least, mut most) = (u32::MAX, 0);
        for erases in erases {
            let value = f64::from(erases);
            (count, sum, squares) = (count + 1.0, sum + value, squares + value * value);
            (least, most) = (least.min(erases), most.max(erases));
        }
        let mean = sum / count;
        let variance: f64 = squares / count - mean * mean;
        Self { mean, least, most, deviation: variance.max(0.0).sqrt() }
    }
}

//! When a read is hedged, that is, tried a second way (Dean and Barroso, "The Tail at Scale"): once
//! it has taken longer than 95 in 100 recent reads of its size, and twice as long as their median.
//! Where all reads take about as long, almost none is hedged, and never more than about one in
//! twenty. A budget may forbid even these.

use core::time::Duration;

use crate::histogram::Histogram;

/// The percentile of latencies before which a read is not hedged.
const PERCENT: u32 = 95;

/// The number of medians before which a read is not hedged.
const MEDIANS: u64 = 2;

/// Reads that have to have ended before the first deadline is known, and before each new one.
const ENOUGH: u32 = 64;

/// The number of reads whose latencies are remembered.
const WINDOW: u16 = 2048;

/// Reads of more blocks are large: they are judged apart from small ones.
const SMALL: u32 = 16;

#[derive(Clone, Debug)]
struct Class {
    took: Histogram,
    since: u32,
    patience: Option<Duration>,
}

impl Class {
    fn new() -> Self {
        Self { took: Histogram::new(WINDOW), since: 0, patience: None }
    }

    fn ended(&mut self, took: Duration) {
        self.took.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.since += 1;
        if self.since >= ENOUGH {
            self.since = 0;
            let late = self.took.percentile(PERCENT).max(MEDIANS * self.took.median());
            self.patience = Some(Duration::from_nanos(late));
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Hedge {
    classes: [Class; 2],
}

impl Default for Hedge {
    fn default() -> Self {
        Self { classes: [Class::new(), Class::new()] }
    }
}

impl Hedge {
    /// How long to wait for a read of this many blocks; for ever while nothing is known.
    #[must_use]
    pub fn patience(&self, blocks: u32) -> Option<Duration> {
        self.classes[usize::from(blocks > SMALL)].patience
    }

    /// A read has ended.
    pub fn ended(&mut self, blocks: u32, took: Duration) {
        self.classes[usize::from(blocks > SMALL)].ended(took);
    }
}

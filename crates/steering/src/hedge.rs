//! When a read is hedged, that is, tried a second way (Dean and Barroso, "The Tail at Scale"): once
//! it has taken three times as long as the median of recent reads of its size, and longer than three in four of
//! them. Where a stall of a member is in the way, it is ten to a hundred medians long, so waiting for the rest
//! of it costs more than reading the others. Where all reads take about as long, almost none is hedged. A budget
//! may forbid even these, and a trial may find that they don't pay.
//!
//! A write at home is staged as well by the same rule: whatever it waits for by then, the log is sooner there.
//!
//! What is staged is written to others, too, after 90 in 100 and three medians: it meets one of its holders'
//! stalls more often, and one more copy costs less than the parts of a stripe.

use core::time::Duration;

use crate::histogram::Histogram;

/// How long is too long.
#[derive(Clone, Copy, Debug)]
struct Late {
    /// The percentile of latencies before which nothing is hedged.
    percent: u32,
    /// The number of medians before which nothing is.
    medians: u64,
}

const HOME: Late = Late { percent: 75, medians: 3 };

const STAGED: Late = Late { percent: 90, medians: 3 };

/// The percentile that stands for reads that wait for no others.
const FAST: u32 = 10;

/// Reads that have to have ended before the first deadline is known, and before each new one.
const ENOUGH: u32 = 64;

/// The number of reads whose latencies are remembered.
const WINDOW: u16 = 2048;

/// Reads of more blocks are large: they are judged apart from small ones.
pub(crate) const SMALL: u32 = 16;

#[derive(Clone, Debug)]
struct Class {
    late: Late,
    took: Histogram,
    since: u32,
    patience: Option<Duration>,
    queueing: Duration,
}

impl Class {
    fn new(late: Late) -> Self {
        Self {
            late,
            took: Histogram::new(WINDOW),
            since: 0,
            patience: None,
            queueing: Duration::ZERO,
        }
    }

    fn ended(&mut self, took: Duration) {
        self.took.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.since += 1;
        if self.since >= ENOUGH {
            self.since = 0;
            let Late { percent, medians } = self.late;
            let median = self.took.median();
            let late = self.took.percentile(percent).max(medians * median);
            self.patience = Some(Duration::from_nanos(late));
            self.queueing = Duration::from_nanos(median - self.took.percentile(FAST));
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Hedge {
    classes: [Class; 2],
}

impl Hedge {
    /// Of reads, or of writes, at home.
    #[must_use]
    pub fn at_home() -> Self {
        Self { classes: [Class::new(HOME), Class::new(HOME)] }
    }

    /// Of writes that are staged.
    #[must_use]
    pub fn of_staged() -> Self {
        Self { classes: [Class::new(STAGED), Class::new(STAGED)] }
    }

    /// How long to wait for a request of this many blocks; for ever while nothing is known.
    #[must_use]
    pub fn patience(&self, blocks: u32) -> Option<Duration> {
        self.classes[usize::from(blocks > SMALL)].patience
    }

    /// For how long most requests of this many blocks wait for others: by so much the median is longer than what
    /// the fastest take. (They wait for less if their sizes differ.)
    #[must_use]
    pub fn queueing(&self, blocks: u32) -> Duration {
        self.classes[usize::from(blocks > SMALL)].queueing
    }

    /// A request has ended.
    pub fn ended(&mut self, blocks: u32, took: Duration) {
        self.classes[usize::from(blocks > SMALL)].ended(took);
    }
}

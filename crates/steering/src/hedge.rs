//! When a read has taken so long that another way is tried, too (hedged requests: Dean and Barroso,
//! "The Tail at Scale"): longer than 95 in 100 of its size have taken of late, and twice as long as
//! half of them have. So where all take about as long, next to none is tried twice, and never more
//! than some one in twenty; a budget may say that even this costs too much.

use core::time::Duration;

use crate::histogram::Histogram;

/// What so many in a hundred reads take at most is waited for.
const PERCENT: u32 = 95;

/// What is waited for at least, in medians.
const MEDIANS: u64 = 2;

/// So many reads have to have ended before anything is known, and again before it is looked at anew.
const ENOUGH: u32 = 64;

/// Of so many reads it is remembered how long they took.
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
    /// How long to wait for a read of so many blocks; for ever while nothing is known.
    #[must_use]
    pub fn patience(&self, blocks: u32) -> Option<Duration> {
        self.classes[usize::from(blocks > SMALL)].patience
    }

    /// A read has ended.
    pub fn ended(&mut self, blocks: u32, took: Duration) {
        self.classes[usize::from(blocks > SMALL)].ended(took);
    }
}

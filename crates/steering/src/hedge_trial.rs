//! Whether hedging pays, told of reads: found out from those that were hedged. [Writes](crate::hedged_home) are judged
//! by the same rule.
//!
//! A hedged read waits at home all the while. So when it has ended there, too, it is known what it was spared, and
//! none has to wait on purpose. That is compared with the price: each of the other reads delays what waits behind it,
//! by about as much as reads wait for each other, which is nothing under a light load.
//!
//! A write that is staged as well is answered only once the log has it, though it be at home sooner. So what it loses by
//! that counts, too.
//!
//! Few reads are spared most of what all are: those that meet long stalls, often many at once. So the mean is one over
//! many reads, and no outlier is cut. Where hedging loses it rests, but for one late read in some: that costs others a
//! little, and the read itself nothing. Fewer reads would find out too slowly that a mean was low by chance.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, Judged};

use crate::hedge::SMALL;

/// Hedged reads that have to have ended both ways before they are judged …
const ENOUGH: u32 = 256;

/// … but for this many, if they have even taken longer than they would have.
const FEW: u32 = 32;

/// The weight of the last hedged read in a mean is one in this many.
const MEMORY: u32 = 2048;

/// Where hedging rests, one late read in this many is hedged all the same …
const READS: u32 = 16;

/// … and one late write, which is written more often for it.
const WRITES: u32 = 64;

/// Reads of one size.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// How many were hedged, at most [`MEMORY`].
    count: u32,
    /// What these take in the mean, and by how much longer they would at home (less than zero if they would not), in
    /// nanoseconds.
    around: f64,
    spared: f64,
    /// Whether hedging rests, since when it does or does not, and how many late reads have come since one was
    /// hedged all the same.
    rests: bool,
    turned: Option<Instant>,
    asked: u32,
}

impl Class {
    fn hedges(&mut self, now: Instant, price: Duration, probe: u32) -> bool {
        let rests = self.count >= ENOUGH && self.spared < price.as_nanos() as f64
            || self.count >= FEW && self.spared < 0.0;
        if rests != self.rests {
            (self.rests, self.turned) = (rests, Some(now));
        }
        self.asked = (self.asked + 1) % probe;
        !rests || self.asked == 0
    }

    fn ended(&mut self, around: Duration, home: Duration) {
        self.count = (self.count + 1).min(MEMORY);
        let weight = 1.0 / f64::from(self.count);
        let [around, home] = [around, home].map(|took| took.as_nanos() as f64);
        self.around += (around - self.around) * weight;
        self.spared += (home - around - self.spared) * weight;
    }

    fn judged(&self, choice: Choice, calm: Option<Duration>) -> Judged {
        let known = |nanos: f64| (self.count > 0).then(|| Duration::from_nanos(nanos as u64));
        Judged {
            choice,
            on: !self.rests,
            since: self.turned,
            calm,
            around: known(self.around),
            home: known(self.around + self.spared),
        }
    }
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct HedgeTrial {
    classes: [Class; 2],
    /// Where hedging rests, one in this many is hedged all the same.
    probe: u32,
}

impl HedgeTrial {
    /// Of reads.
    #[must_use]
    pub fn of_reads() -> Self {
        Self { classes: Default::default(), probe: READS }
    }

    /// Of writes.
    #[must_use]
    pub fn of_writes() -> Self {
        Self { classes: Default::default(), probe: WRITES }
    }

    fn class(&mut self, blocks: u32) -> &mut Class {
        &mut self.classes[usize::from(blocks > SMALL)]
    }

    /// Whether a late read of this many blocks is hedged, which delays others by `price` in all.
    pub fn hedges(&mut self, now: Instant, blocks: u32, price: Duration) -> bool {
        let probe = self.probe;
        self.class(blocks).hedges(now, price, probe)
    }

    /// A hedged read of this many blocks has ended both ways: it took `around`, and would have taken `home` at home.
    pub fn ended(&mut self, blocks: u32, around: Duration, home: Duration) {
        self.class(blocks).ended(around, home);
    }

    /// The findings on small and on large requests. `calm` is what one of so many blocks takes that is not late.
    pub fn judged(
        &self,
        choice: impl Fn(bool) -> Choice,
        calm: impl Fn(u32) -> Option<Duration>,
    ) -> impl Iterator<Item = Judged> {
        let classes = self.classes.into_iter().zip([SMALL, SMALL + 1]);
        classes.map(move |(class, blocks)| class.judged(choice(blocks == SMALL), calm(blocks)))
    }
}

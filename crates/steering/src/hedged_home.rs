//! Whether writes that take long at home are staged as well, and when.
//!
//! The write goes on at home, so what it would have taken there is known of each, as of [hedged reads](HedgeTrial).
//! Flash pays for it: what is staged as well is written twice more. So no more than one write in some is, in the long
//! run, however much that spares.
//!
//! One that was to go home in spite of a busy member, to find out how long that takes, need not take that long: it
//! is known all the same.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, HedgedWrite, Judged, Outcome, Way};

use crate::hedge::{Hedge, SMALL};
use crate::hedge_trial::HedgeTrial;
use crate::trials::Trials;

/// One small write in this many may be staged as well.
const SHARE: u32 = 8;

/// So many may be at first, and so many at the most after writes that were not: bursts are when it counts.
const CREDIT: u32 = 64;
const CREDIT_MAX: u32 = 512;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct HedgedHome {
    hedge: Hedge,
    trial: HedgeTrial,
    /// How many small writes have ended for which none was staged as well, within bounds.
    credit: u32,
}

impl Default for HedgedHome {
    fn default() -> Self {
        let credit = CREDIT * SHARE;
        Self { hedge: Hedge::at_home(), trial: HedgeTrial::default(), credit }
    }
}

impl HedgedHome {
    /// How long a write of this many blocks may take at home; for ever while nothing is known, or if it is large: one
    /// that is written twice makes members collect for longer than it saves.
    #[must_use]
    pub fn patience(&self, blocks: u32) -> Option<Duration> {
        self.hedge.patience(blocks).filter(|_| blocks <= SMALL)
    }

    /// Whether a write of this many blocks that has taken that long is staged as well, which costs others `price`.
    pub fn hedges(&mut self, now: Instant, blocks: u32, price: Duration) -> bool {
        if self.credit < SHARE || !self.trial.hedges(now, blocks, price) {
            return false;
        }
        self.credit -= SHARE;
        true
    }

    /// A write has ended.
    pub fn written(&mut self, Outcome { blocks, way, took, hedged, .. }: Outcome) {
        if hedged || way != Way::Around {
            self.hedge.ended(blocks, took);
        }
        self.credit = (self.credit + u32::from(blocks <= SMALL)).min(CREDIT_MAX * SHARE);
    }

    /// A write that was staged as well has ended both ways.
    pub fn ended(&mut self, hedged: HedgedWrite, trials: &mut Trials) {
        let HedgedWrite { blocks, way, took, home, late } = hedged;
        self.trial.ended(blocks, took, home);
        if way == Way::Home {
            let outcome = Outcome { read: false, blocks, way, took: home, late, hedged: true };
            trials.written(outcome);
        }
    }

    /// The finding. `calm` is what a small write takes that is not late.
    #[must_use]
    pub fn judged(&self, calm: Option<Duration>) -> Option<Judged> {
        self.trial.judged(|_| Choice::HedgedWrites, |_| calm).next()
    }
}

//! Whether writes that take long at home are staged as well, and when.
//!
//! The write goes on at home, so what it would have taken there is known of each, as of [hedged reads](HedgeTrial).
//!
//! What went home in spite of a busy member need not be waited for there, either. So to stage such a write at once
//! spares it no more than what it takes until it is staged as well.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, HedgedWrite, Judged, Outcome, Way};

use crate::hedge::{Hedge, SMALL};
use crate::hedge_trial::HedgeTrial;
use crate::trials::Trials;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct HedgedHome {
    hedge: Hedge,
    trial: HedgeTrial,
}

impl Default for HedgedHome {
    fn default() -> Self {
        Self { hedge: Hedge::at_home(), trial: HedgeTrial::of_writes() }
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
        self.trial.hedges(now, blocks, price)
    }

    /// A write has ended.
    pub fn written(&mut self, Outcome { blocks, way, took, hedged, .. }: Outcome) {
        if hedged || way != Way::Around {
            self.hedge.ended(blocks, took);
        }
    }

    /// A write that was staged as well has ended both ways.
    pub fn ended(&mut self, hedged: HedgedWrite, trials: &mut Trials) {
        let HedgedWrite { blocks, way, took, late, home } = hedged;
        self.trial.ended(blocks, took, home);
        if way == Way::Home {
            trials.written(Outcome { read: false, blocks, way, took, late, hedged: true });
        }
    }

    /// The finding. `calm` is what a small write takes that is not late.
    #[must_use]
    pub fn judged(&self, calm: Option<Duration>) -> Option<Judged> {
        self.trial.judged(|_| Choice::HedgedWrites, |_| calm).next()
    }
}

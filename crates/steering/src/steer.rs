//! Where reads and writes go that would meet busy members.

use alloc::boxed::Box;
use core::time::Duration;

use det::Instant;
use raidcore::engine::{
    Choice, Detour, HedgedWrite, Hold, Judged, LatencyTotals, Outcome, Redirect, SteeringPolicy,
    Way,
};
use raidcore::units::{Lba, MemberId};

use crate::burden::Burden;
use crate::hedge::Hedge;
use crate::hedge_trial::HedgeTrial;
use crate::hedged_home::HedgedHome;
use crate::hold::Cache;
use crate::popularity::Popularity;
use crate::trials::Trials;

/// Reads of busy members are reconstructed from the others, within a budget: the other members have
/// to read more for it.
///
/// Each block that is read earns credit for extra blocks, up to a limit: credit from long ago says
/// nothing about the members' load now.
#[derive(Clone, Copy, Debug)]
pub struct Reconstruct {
    /// Extra blocks that may be read, per million blocks that are requested.
    per_million: u64,
    /// Blocks that had been read at the last call.
    read: u64,
    /// Credit, in millionths of a block.
    credit: u64,
}

const MILLION: u64 = 1_000_000;

/// The initial credit.
const CREDIT: u64 = 64 * MILLION;

/// The most credit: 16 MiB.
const CREDIT_MAX: u64 = 4096 * MILLION;

impl Reconstruct {
    /// With a budget in extra blocks for each block that is requested.
    #[must_use]
    pub fn new(budget: f64) -> Self {
        Self { per_million: (budget.max(0.0) * MILLION as f64) as u64, read: 0, credit: CREDIT }
    }

    fn takes(&mut self, Detour { read, extra, .. }: Detour) -> bool {
        let earned = read.saturating_sub(self.read).saturating_mul(self.per_million);
        self.credit = self.credit.saturating_add(earned).min(CREDIT_MAX);
        self.read = read;
        let left = self.credit.checked_sub(u64::from(extra) * MILLION);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }
}

/// Which writes are staged on other members, to come home later (GC-Steering, Wu et al., section
/// III-B).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Staged {
    /// Those with data for a busy member, as in the paper.
    Data,
    /// Those with data or parity for a busy member.
    All,
}

/// The fill of the log up to which new writes to busy members are staged; the rest is left to
/// blocks that are staged already.
const KEPT: f64 = 0.9;

/// The fill of the log up to which a cache takes writes that no busy member would delay.
const CALM_KEPT: f64 = 0.5;

/// Blocks of a small write: reading old data and parity would take longer than writing it twice.
const SMALL: u32 = 16;

/// What it costs others to stage a write when the log is full, in calm writes; when it is half full half of that, and
/// nothing up to an eighth. What is staged is written once more, and comes home among users' requests if they never
/// pause; until then members have less room to collect with. So where members are at their limit, little is staged.
const FULL_PRICE: u32 = 8;

/// What it costs others to stage a write that is not written to a journal at home, in calm writes. What is staged is
/// its copies on top of all that is written at home, and not in the place of a journal's entry: members collect for
/// half as long again if all is staged. With half of this, and with half as much again, it does as well.
const COPIES_PRICE: u32 = 8;

/// What is staged counts as so many writes more: it is written to two members with a header each, and home later. Each
/// write more makes all requests take longer ([`Burden`]). So staging rests where more than about one in so many writes
/// meets busy members: it would make more of them do so than it spares. One that goes home as well counts as much,
/// though mostly it need not come home again.
const WRITES_MORE: f64 = 6.0;

/// What the members leave to a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// All say when they are busy. Otherwise it is a guess of some, and may be of one chip of many.
    pub told: bool,
    /// Some take orders when to collect, so no more need be busy at a time than can be gone around.
    pub obeyed: bool,
}

impl Staged {
    fn stages(self, redirect: Redirect) -> bool {
        let waits = match self {
            Self::Data => redirect.data_busy,
            Self::All => redirect.busy,
        };
        waits && redirect.used < KEPT
    }
}

/// What is done about busy members.
#[derive(Clone, Debug, Default)]
pub struct Steer {
    /// About reads; nothing if they go home.
    pub reads: Option<Reconstruct>,
    /// Whether members collect as they like, and what loses rests. Then the others may be busy just as well as one
    /// that is, so no read goes around a busy one before it has taken long at home. Large writes go home: staged,
    /// they are written twice, and home, which makes members collect for longer than it saves. And the fuller the
    /// log, the more a small one has to win by being staged, and more where it saves no entry of a journal.
    pub at_will: bool,
    /// When reads that went home are hedged, if ever.
    pub hedge: Option<Hedge>,
    /// The trial whether hedging reads pays, if the scheme has it.
    pub hedge_trial: Option<HedgeTrial>,
    /// When staged writes are written to others, too, if ever.
    pub hedge_staged: Option<Hedge>,
    /// When writes that went home are staged as well, if ever.
    pub hedge_home: Option<HedgedHome>,
    /// About writes.
    pub writes: Option<Staged>,
    /// Whether the log is a write cache, and takes small writes that no busy member would delay. They are
    /// acknowledged without old data and parity being read.
    pub cache: Cache,
    /// For how long users have to want nothing before what is staged comes home.
    pub lull: Duration,
    /// Whether all writes are staged while a member is rebuilt.
    pub spares_rebuilds: bool,
    /// Which blocks are worth a copy; none if no copies are made.
    pub popular: Option<Popularity>,
    /// The trials whether detours pay, if the scheme has them: a way that loses is not taken. Reads that are hedged
    /// have one of their own.
    pub trials: Option<Trials>,
    /// The latency of requests so far, if there are trials.
    pub totals: LatencyTotals,
    /// What writes cost all requests, if there are trials.
    pub burden: Burden,
}

impl Steer {
    /// How long a write takes that no busy member delays, once it is known.
    fn calm_write(&self, blocks: u32) -> Option<Duration> {
        self.trials.as_ref()?.calm(false, blocks)
    }

    /// What it costs others to stage a write, in calm writes.
    fn price_of_staging(&self, redirect: Redirect) -> u32 {
        let Redirect { blocks, journaled, used, .. } = redirect;
        let calm = self.calm_write(blocks);
        let burden = calm.map_or(0, |calm| (WRITES_MORE * self.burden.beside(calm)) as u32);
        if !self.at_will {
            return burden;
        }
        let copies = if journaled { 0 } else { COPIES_PRICE };
        burden.saturating_add(copies + (used * f64::from(FULL_PRICE)) as u32)
    }
}

impl SteeringPolicy for Steer {
    fn takes(&mut self, now: Instant, detour: Detour) -> bool {
        let Some(budget) = &mut self.reads else { return false };
        if let (Some(trial), Some(hedge)) = (&mut self.hedge_trial, &self.hedge) {
            // The read is at home already, so all of the other reads come on top.
            let more = detour.extra.div_ceil(detour.blocks.max(1));
            let price = hedge.queueing(detour.blocks).saturating_mul(more);
            return trial.hedges(now, detour.blocks, price) && budget.takes(detour);
        }
        // A detour that slows no request costs nothing.
        let Some(Trials { reads, .. }) = &mut self.trials else { return budget.takes(detour) };
        let is_free = !reads.is_in_question(detour.blocks, 0);
        is_free || budget.takes(detour) && reads.pays(now, detour.blocks, 0)
    }

    fn detours(&self) -> bool {
        !self.at_will
    }

    fn patience(&mut self, _: Instant, blocks: u32) -> Option<Duration> {
        self.hedge.as_ref()?.patience(blocks)
    }

    fn write_patience(&mut self, _: Instant, blocks: u32) -> Option<Duration> {
        self.hedge_staged.as_ref()?.patience(blocks)
    }

    fn home_patience(&mut self, _: Instant, blocks: u32) -> Option<Duration> {
        self.hedge_home.as_ref()?.patience(blocks)
    }

    fn hedges_write(&mut self, now: Instant, redirect: Redirect) -> bool {
        let Redirect { blocks, used, .. } = redirect;
        let (Some(calm), true) = (self.calm_write(blocks), used < KEPT) else { return false };
        let price = calm.saturating_mul(self.price_of_staging(redirect));
        self.hedge_home.as_mut().is_some_and(|hedge| hedge.hedges(now, blocks, price))
    }

    fn hedged_write(&mut self, hedged: HedgedWrite) {
        if let (Some(hedge), Some(trials)) = (&mut self.hedge_home, &mut self.trials) {
            hedge.ended(hedged, trials);
        }
    }

    fn stages_calm(&self) -> bool {
        self.cache.takes()
    }

    fn hold(&self) -> Option<Box<dyn Hold>> {
        self.cache.order()
    }

    fn lull(&self) -> Duration {
        self.lull
    }

    fn stages(&mut self, now: Instant, redirect: Redirect) -> bool {
        let Redirect { blocks, staged, rebuilds, late, used, .. } = redirect;
        let spared = self.spares_rebuilds && rebuilds && used < KEPT;
        // One that is late has read what it needs at home, and saves less there.
        let cached = self.cache.takes() && !late && blocks <= SMALL && used < CALM_KEPT;
        // A write of staged blocks that went home now would have to wait for a flush there.
        let fits = blocks <= SMALL || !self.at_will;
        let is_to = cached || fits && self.writes.is_some_and(|writes| writes.stages(redirect));
        let covers = staged && (self.writes.is_some() || self.cache.takes());
        let price = self.price_of_staging(redirect);
        let mut pays =
            || self.trials.as_mut().is_none_or(|trials| trials.stages(now, late, blocks, price));
        spared || covers || is_to && pays()
    }

    fn keeps(&mut self, _: Instant, home: MemberId, first: Lba, blocks: u32) -> bool {
        self.popular.as_mut().is_some_and(|popular| popular.reads(home, first, blocks))
    }

    fn ended(&mut self, outcome: Outcome) {
        let Outcome { read, blocks, way, took, late, hedged } = outcome;
        let patience = self.hedge.as_ref().and_then(|hedge| hedge.patience(blocks));
        let hedge = match (read, way) {
            (true, _) => &mut self.hedge,
            (false, Way::Around) => &mut self.hedge_staged,
            (false, Way::Calm | Way::Home) => &mut None,
        };
        if let Some(hedge) = hedge {
            hedge.ended(blocks, late.unwrap_or(took));
        }
        if let Some(hedge) = self.hedge_home.as_mut().filter(|_| !read) {
            hedge.written(outcome);
        }
        if let Some(trials) = &mut self.trials {
            if !read {
                // What went both ways says nothing of either.
                if !hedged {
                    trials.written(outcome);
                }
            } else if self.hedge_trial.is_none() {
                trials.reads.ended(blocks, way, took);
            } else if way != Way::Around && patience.is_none_or(|patience| took <= patience) {
                // What was not late was calm, whether its member counted as busy or not.
                trials.reads.ended(blocks, Way::Calm, took);
            }
            if let Some(calm) = trials.calm(read, blocks) {
                self.totals.add(took, calm);
                self.burden.ended(read, took, calm);
            }
        }
    }

    fn hedged(&mut self, blocks: u32, took: Duration, home: Duration) {
        if let Some(trial) = &mut self.hedge_trial {
            trial.ended(blocks, took, home);
        }
    }

    fn latency_totals(&self) -> LatencyTotals {
        self.totals
    }

    fn tell(&self, judged: &mut dyn FnMut(Judged)) {
        let Some(trials) = &self.trials else { return };
        let of_reads = |small| Choice::Detour { reads: true, small };
        match &self.hedge_trial {
            Some(trial) => {
                trial.judged(of_reads, |blocks| trials.calm(true, blocks)).for_each(&mut *judged);
            }
            None => trials.reads.judged(of_reads).for_each(&mut *judged),
        }
        trials.of_writes().for_each(&mut *judged);
        let hedge_home = self.hedge_home.as_ref();
        hedge_home.and_then(|hedge| hedge.judged(self.calm_write(1))).into_iter().for_each(judged);
    }
}

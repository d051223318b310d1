//! Where reads and writes go that would meet busy members.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Detour, Outcome, Part, Place, Redirect};

use crate::hedge::Hedge;
use crate::trial::Trial;

/// Reads of busy members are served from the others, whose data and parity give the same, as long
/// as that does not cost too much: the members that are not busy have to read more for it.
#[derive(Clone, Copy, Debug)]
pub struct Reconstruct {
    /// Blocks that may be read beyond what is asked for, per million that is.
    per_million: u64,
}

/// What may be spent before anything has been read.
const CREDIT: u64 = 64;

impl Reconstruct {
    /// With a budget: blocks read beyond what is asked for, per block that is.
    #[must_use]
    pub fn new(budget: f64) -> Self {
        Self { per_million: (budget.max(0.0) * 1e6) as u64 }
    }

    fn takes(self, Detour { read, extra_so_far, extra, .. }: Detour) -> bool {
        let spent = u128::from(extra_so_far) + u128::from(extra);
        let earned = u128::from(read) * u128::from(self.per_million) / 1_000_000;
        spent <= earned + u128::from(CREDIT)
    }
}

/// Which writes are staged on other members, to come home later (GC-Steering, Wu et al., section
/// III-B).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Those of which data goes to a busy member, as in the paper.
    Data,
    /// Those of which anything does, parity included.
    All,
}

/// The part of the log that is left to writes which are staged already.
const KEPT: f64 = 0.9;

impl Stage {
    fn stages(self, redirect: Redirect) -> bool {
        let waits = match self {
            Self::Data => redirect.data_busy,
            Self::All => redirect.busy,
        };
        // What is staged and comes home now would have to wait for a flush there.
        redirect.staged || waits && redirect.used < KEPT
    }
}

/// What is done about busy members.
#[derive(Clone, Debug, Default)]
pub struct Steer {
    /// About reads; nothing if they go home.
    pub reads: Option<Reconstruct>,
    /// When reads that went home are tried another way, too, if ever.
    pub hedge: Option<Hedge>,
    /// About writes.
    pub writes: Option<Stage>,
    /// For reads and writes, whether that pays, if it is to be found out: who loses is left alone.
    pub trials: Option<[Trial; 2]>,
}

impl Steer {
    fn pays(&mut self, now: Instant, read: bool, blocks: u32) -> bool {
        let Some(trials) = &mut self.trials else { return true };
        let trial = &mut trials[usize::from(!read)];
        trial.look(now, blocks);
        trial.choose(blocks)
    }
}

impl Place for Steer {
    fn takes(&mut self, now: Instant, detour: Detour) -> bool {
        self.reads.is_some_and(|reads| reads.takes(detour)) && self.pays(now, true, detour.blocks)
    }

    fn patience(&mut self, _: Instant, blocks: u32) -> Option<Duration> {
        self.hedge.as_ref()?.patience(blocks)
    }

    fn stages(&mut self, now: Instant, redirect: Redirect) -> bool {
        self.writes.is_some_and(|writes| writes.stages(redirect))
            && (redirect.staged || self.pays(now, false, redirect.blocks))
    }

    fn ended(&mut self, Outcome { read, blocks, way, took }: Outcome) {
        if let Some(hedge) = self.hedge.as_mut().filter(|_| read) {
            hedge.ended(blocks, took);
        }
        if let Some(trials) = &mut self.trials {
            trials[usize::from(!read)].ended(blocks, way, took);
        }
    }

    fn tell(&self, part: &mut dyn FnMut(Part)) {
        let Some([reads, writes]) = &self.trials else { return };
        reads.parts(["small reads go around", "large reads go around"]).for_each(&mut *part);
        writes.parts(["small writes are staged", "large writes are staged"]).for_each(part);
    }
}

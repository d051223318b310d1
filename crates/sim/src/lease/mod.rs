//! Two hosts that reach the same members and both want to run the array, in simulated time: each with a clock
//! of its own, paused, killed, cut off from members, with writes that arrive late. The lease is the real one;
//! the array is simple: each member has all that was written, and as many may be lost as its level permits.
//!
//! Invariants are those of the [crate]: a seed is a run, and a check that fails panics.

mod array;
mod fabric;
mod faults;
mod host;
mod world;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::play::{Play, Playable, Sink};
use crate::source::Source;
use world::World;

/// What a run is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseScenario {
    /// How many members there are.
    pub members: u8,
    /// With how many the array can run.
    pub least: u8,
    /// By how much each host's clock goes too fast, in thousandths.
    pub drift: [i64; 2],
    /// Whether hosts are paused.
    pub pauses: bool,
    /// Whether processes are killed, and hosts lose power.
    pub crashes: bool,
    /// Whether hosts are cut off from members.
    pub cuts: bool,
    /// Whether what is submitted may arrive as late as it may at all.
    pub late: bool,
    /// Whether users ask for little.
    pub idle: bool,
    /// How long faults happen, in terms.
    pub terms: u64,
}

impl Playable for LeaseScenario {
    const NAME: &'static str = "lease seed";

    const SALT: u64 = 0x1ea5e;

    fn choose(source: &mut Source) -> Self {
        let (members, least) =
            source.one_of(&[(2, 1), (3, 2), (3, 1), (4, 2), (5, 4), (5, 3), (3, 3)]);
        let mut drift = || [-50, -20, 0, 20, 50][source.below(5) as usize];
        let drift = [drift(), drift()];
        let mut often = || source.chance(3, 4);
        Self {
            members,
            least,
            drift,
            pauses: often(),
            crashes: often(),
            cuts: often(),
            late: often(),
            idle: !often(),
            terms: 20 + source.below(40),
        }
    }

    fn simpler(&self) -> Vec<Self> {
        let all = [
            Self { pauses: false, ..self.clone() },
            Self { crashes: false, ..self.clone() },
            Self { cuts: false, ..self.clone() },
            Self { late: false, ..self.clone() },
            Self { drift: [0, 0], ..self.clone() },
            Self { terms: self.terms / 2, ..self.clone() },
        ];
        all.into_iter().filter(|simpler| simpler != self && simpler.terms > 0).collect()
    }
}

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseSummary {
    /// How often a host began to hold the lease.
    pub held: u64,
    /// How often it was the other host.
    pub moved: u64,
    /// How often a process went on with the lease of one that was killed.
    pub continued: u64,
    /// How often a holder fenced itself.
    pub fenced: u64,
    /// How often the lease was given up.
    pub given_up: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// How often a member was dropped.
    pub dropped: u64,
    /// How often one came back.
    pub returned: u64,
    /// A sum over all events: only the same run has the same.
    pub digest: u64,
}

impl AddAssign for LeaseSummary {
    fn add_assign(&mut self, other: Self) {
        self.held += other.held;
        self.moved += other.moved;
        self.continued += other.continued;
        self.fenced += other.fenced;
        self.given_up += other.given_up;
        self.writes += other.writes;
        self.reads += other.reads;
        self.dropped += other.dropped;
        self.returned += other.returned;
        self.digest ^= other.digest;
    }
}

impl Play for LeaseScenario {
    type Summary = LeaseSummary;

    fn play(&self, source: Source, sink: Option<Sink>) -> LeaseSummary {
        let mut world = World::new(source, self.clone(), sink);
        world.run();
        world.summary()
    }
}

//! Smaller scenarios that fail as well.

use raidlog::{Choice, Cleaning};

use crate::log::LogScenario;
use crate::run::{Failure, Playable, run};
use crate::scenario::{Faults, Scenario};
use crate::stack::StackScenario;

/// How many seeds a smaller scenario gets to fail in.
const SEEDS: u64 = 48;

impl<S: Playable> Failure<S> {
    /// The smallest failure that is found by making its scenario simpler, step by step, as long as
    /// some seed still fails. What fails then may be another check, but mostly it is the same bug.
    #[must_use]
    pub fn shrunk(self) -> Self {
        let mut smallest = self;
        'smaller: loop {
            for scenario in smallest.scenario.simpler() {
                // The seed that failed first, then others: a simpler scenario is another run.
                let seeds = (0..SEEDS).map(|more| smallest.seed.wrapping_add(more));
                let failed = seeds.into_iter().find_map(|seed| run(seed, &scenario).err());
                if let Some(failure) = failed {
                    smallest = *failure;
                    continue 'smaller;
                }
            }
            return smallest;
        }
    }
}

/// Scenarios that differ from one by a change each.
struct Simpler<'a, S> {
    of: &'a S,
    all: Vec<S>,
}

impl<S: Clone + PartialEq> Simpler<'_, S> {
    fn with(&mut self, change: impl Fn(&mut S)) {
        let mut scenario = self.of.clone();
        change(&mut scenario);
        if scenario != *self.of {
            self.all.push(scenario);
        }
    }
}

/// See [`Playable::simpler`].
pub(crate) fn array(of: &Scenario) -> Vec<Scenario> {
    let least = of.least_members();
    let mut s = Simpler { of, all: Vec::new() };
    s.with(|s| s.faults = Faults::default());
    s.with(|s| s.requests = (s.requests / 2).max(1));
    s.with(|s| s.requests = (s.requests * 3 / 4).max(1));
    s.with(|s| s.requests = s.requests.saturating_sub(1).max(1));
    s.with(|s| s.lives = 1);
    s.with(|s| s.lives = (s.lives - 1).max(1));
    s.with(|s| s.members = least);
    s.with(|s| s.members = (s.members - 1).max(least));
    s.with(|s| s.stripes = s.stripes.div_ceil(2));
    s.with(|s| s.page_bits = 0);
    s.with(|s| s.region_stripes /= 2);
    s.with(|s| s.chunk = (s.chunk / 2).max(1));
    s.with(|s| s.used_disks = false);
    s.with(|s| s.flash = false);
    s.with(|s| s.busy = 0);
    s.with(|s| s.distributed_spare = false);
    s.with(|s| s.staging_devices = 0);
    s.with(|s| s.staging_devices = s.staging_devices.min(1));
    s.with(|s| s.tags = s.tags.div_ceil(2));
    s.with(|s| s.load.blocks = s.load.blocks.div_ceil(2));
    s.with(|s| s.load.whole = 0);
    s.with(|s| s.load.fua = 0);
    s.with(|s| s.load.flush = 0);
    s.with(|s| s.load.discard = 0);
    s.with(|s| s.load.zeroes = 0);
    s.with(|s| s.faults.gone = 0);
    s.with(|s| s.faults.write = 0);
    s.with(|s| s.faults.latent = 0);
    s.with(|s| s.faults.transient = 0);
    s.with(|s| s.faults.stall = 0);
    s.with(|s| s.faults.hang = 0);
    s.with(|s| s.faults.operator = 0);
    s.with(|s| s.faults.reorder = false);
    s.with(|s| s.faults.torn = false);
    s.with(|s| s.faults.lossy = false);
    s.with(|s| s.faults.stale = false);
    s.with(|s| s.faults.silent = false);
    s.with(|s| s.faults.beyond = false);
    s.all
}

/// See [`Playable::simpler`].
pub(crate) fn log(of: &LogScenario) -> Vec<LogScenario> {
    let mut s = Simpler { of, all: Vec::new() };
    s.with(|s| s.requests = (s.requests / 2).max(1));
    s.with(|s| s.requests = (s.requests * 3 / 4).max(1));
    s.with(|s| s.requests = s.requests.saturating_sub(1).max(1));
    s.with(|s| s.lives = 1);
    s.with(|s| s.lives = (s.lives - 1).max(1));
    s.with(|s| s.tags = s.tags.div_ceil(2));
    s.with(|s| s.buffers = 2);
    s.with(|s| s.blocks = s.blocks.div_ceil(2));
    s.with(|s| s.hot = s.hot.div_ceil(2));
    s.with(|s| s.choice = Choice::Greedy);
    s.with(|s| s.cleaning = Cleaning::Paced);
    s.with(|s| s.checkpoint = 100_000);
    s.with(|s| s.forget = 1000);
    s.with(|s| s.read = 0);
    s.with(|s| s.flush = 0);
    s.with(|s| s.discard = 0);
    s.with(|s| s.fua = 0);
    s.with(|s| s.bad_reads = 0);
    s.with(|s| s.bad_writes = 0);
    s.with(|s| s.torn = false);
    s.all
}

/// See [`Playable::simpler`].
pub(crate) fn stack(of: &StackScenario) -> Vec<StackScenario> {
    let mut s = Simpler { of, all: Vec::new() };
    s.with(|s| s.faults = 0);
    s.with(|s| s.array.faults.lossy = false);
    s.with(|s| s.array.faults.torn = false);
    let with = |log| StackScenario { log, ..of.clone() };
    s.all.extend(log(&of.log).into_iter().map(with));
    s.all
}

//! Smaller scenarios that fail as well.

use crate::run::{Failure, run};
use crate::scenario::{Faults, Scenario};

/// How many seeds a smaller scenario gets to fail in.
const SEEDS: u64 = 48;

impl Failure {
    /// The smallest failure that is found by making its scenario simpler, step by step, as long as
    /// some seed still fails. What fails then may be another check, but mostly it is the same bug.
    #[must_use]
    pub fn shrunk(self) -> Self {
        let mut smallest = self;
        'smaller: loop {
            for scenario in simpler(&smallest.scenario) {
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

/// Scenarios that are a little simpler, the boldest steps first.
fn simpler(of: &Scenario) -> Vec<Scenario> {
    let mut simpler = Vec::new();
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = of.clone();
        change(&mut scenario);
        if scenario != *of {
            simpler.push(scenario);
        }
    };
    let least = of.least_members();
    with(&|s| s.faults = Faults::default());
    with(&|s| s.requests /= 2);
    with(&|s| s.requests = s.requests * 3 / 4);
    with(&|s| s.requests = s.requests.saturating_sub(1).max(1));
    with(&|s| s.lives = 1);
    with(&|s| s.lives = (s.lives - 1).max(1));
    with(&|s| s.members = least);
    with(&|s| s.members = (s.members - 1).max(least));
    with(&|s| s.stripes = s.stripes.div_ceil(2));
    with(&|s| s.chunk = (s.chunk / 2).max(1));
    with(&|s| s.used_disks = false);
    with(&|s| s.flash = false);
    with(&|s| s.busy = 0);
    with(&|s| s.staging_devices = 0);
    with(&|s| s.staging_devices = s.staging_devices.min(1));
    with(&|s| s.tags = s.tags.div_ceil(2));
    with(&|s| s.load.blocks = s.load.blocks.div_ceil(2));
    with(&|s| s.load.whole = 0);
    with(&|s| s.load.fua = 0);
    with(&|s| s.load.flush = 0);
    with(&|s| s.load.discard = 0);
    with(&|s| s.load.zeroes = 0);
    with(&|s| s.faults.gone = 0);
    with(&|s| s.faults.write = 0);
    with(&|s| s.faults.latent = 0);
    with(&|s| s.faults.transient = 0);
    with(&|s| s.faults.stall = 0);
    with(&|s| s.faults.hang = 0);
    with(&|s| s.faults.operator = 0);
    with(&|s| s.faults.reorder = false);
    with(&|s| s.faults.torn = false);
    with(&|s| s.faults.lossy = false);
    with(&|s| s.faults.stale = false);
    with(&|s| s.faults.silent = false);
    with(&|s| s.faults.beyond = false);
    simpler
}

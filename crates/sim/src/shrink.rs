//! Finds smaller scenarios that still fail.

use crate::play::Playable;
use crate::run::{Failure, run};

/// How many seeds a smaller scenario is tried with.
const SEEDS: u64 = 48;

impl<S: Playable> Failure<S> {
    /// The smallest failure found by simplifying the scenario step by step, as long as some seed
    /// still fails. Another check may fail then, but mostly it is the same bug.
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

//! Smaller scenarios that fail as well.

use crate::play::Playable;
use crate::run::{Failure, run};

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

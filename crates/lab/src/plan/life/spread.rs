//! The same array many times, of drives that can take a bit more or less than their rating.

use rayon::prelude::*;

use super::{Life, LifeError, Strategy, run};
use crate::workload::Random;

/// The most that drives may differ from their rating, in percent.
const PERCENT_MAX: f64 = 50.0;

/// The most arrays that are drawn.
const DRAWS_MAX: u32 = 100_000;

/// Which arrays are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Draws {
    /// How far drives differ from their rating, in percent: each can take its rating more or less up to that,
    /// where all is equally likely. They do not report it.
    pub percent: f64,
    /// How many arrays.
    pub count: u32,
    /// What the random numbers follow from. Each strategy gets the same ones.
    pub seed: u64,
}

/// What became of the arrays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The least life that the next member had left when one was replaced, from 0 to 1: the 5th, 50th and 95th
    /// percentile of the arrays in which one was; none if there is no such array.
    pub least_left: Option<[f64; 3]>,
    /// The part of the arrays that lost data although worn-out members were replaced.
    pub lost: f64,
}

impl Life {
    /// What becomes of arrays of drives that differ.
    ///
    /// # Errors
    /// If drives differ by nothing or too much, or if there are no draws or too many.
    pub fn spread(&self, strategy: Strategy, draws: Draws) -> Result<Spread, LifeError> {
        let Draws { percent, count, seed } = draws;
        if !(0.0..=PERCENT_MAX).contains(&percent) {
            let what = "the spread of endurance";
            return Err(LifeError::Percent { what, from: 0.0, to: PERCENT_MAX, value: percent });
        }
        if !(1..=DRAWS_MAX).contains(&count) {
            return Err(LifeError::Draws { most: DRAWS_MAX, draws: count });
        }
        let drawn = |draw: u32| {
            let mut random = Random::new(seed.wrapping_add(u64::from(draw)));
            let mut factor = || 1.0 + percent / 100.0 * (2.0 * random.unit() - 1.0);
            let outcome = run::outcome(self, strategy, &mut factor);
            (outcome.least_left, outcome.loss.is_some())
        };
        let outcomes: Vec<_> = (0..count).into_par_iter().map(drawn).collect();
        let mut least: Vec<f64> = outcomes.iter().filter_map(|(least, _)| *least).collect();
        least.sort_by(f64::total_cmp);
        // The nearest rank: the least value that so many percent are not above.
        let rank = |percent: usize| (percent * least.len()).div_ceil(100).saturating_sub(1);
        let percentile = |percent| least.get(rank(percent)).copied();
        let lost = outcomes.iter().filter(|(_, lost)| *lost).count();
        Ok(Spread {
            least_left: match [5, 50, 95].map(percentile) {
                [Some(low), Some(middle), Some(high)] => Some([low, middle, high]),
                _ => None,
            },
            lost: lost as f64 / f64::from(count),
        })
    }
}

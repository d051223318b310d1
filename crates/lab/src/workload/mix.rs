//! Several workloads at once, by weight.

use serde::Deserialize;

use super::pace::Pacing;
use super::random::{Random, Weighted};
use super::synthetic::{self, Synthetic};
use super::ycsb::{self, Ycsb};
use super::{Ask, WorkloadError, range};

/// Requests of several workloads, drawn by weight. The mix has the `pace`; its parts have none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// When they come; one at a time if absent.
    pub pace: Option<Pacing>,
    /// Its parts: one or more.
    pub part: Vec<Part>,
}

/// One workload of a [`Mix`]: either `synthetic` or `ycsb`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its share of requests is this weight over the sum of all.
    pub weight: f64,
    /// A synthetic workload.
    pub synthetic: Option<Synthetic>,
    /// One of YCSB's workloads.
    pub ycsb: Option<Ycsb>,
}

impl Mix {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        if let Some(pace) = &self.pace {
            pace.check()?;
        }
        let mut sum = 0.0;
        for part in &self.part {
            let weight = part.weight;
            range("part.weight", weight, weight >= 0.0 && weight.is_finite(), "not negative")?;
            sum += weight;
            let pace = match (&part.synthetic, &part.ycsb) {
                (Some(synthetic), None) => {
                    synthetic.check()?;
                    &synthetic.pace
                }
                (None, Some(ycsb)) => {
                    ycsb.check()?;
                    &ycsb.pace
                }
                _ => return Err(WorkloadError::Part),
            };
            if pace.is_some() {
                return Err(WorkloadError::PartPace);
            }
        }
        range("part.weight", sum, sum > 0.0 && sum.is_finite(), "above 0 for one of the parts")
    }
}

/// Draws requests.
#[derive(Debug)]
pub(crate) struct Generator {
    weights: Weighted,
    parts: Vec<PartGenerator>,
}

#[derive(Debug)]
enum PartGenerator {
    Synthetic(synthetic::Generator),
    Ycsb(ycsb::Generator),
}

impl Generator {
    pub(crate) fn new(
        mix: &Mix,
        capacity: u64,
        random: &mut Random,
    ) -> Result<Self, WorkloadError> {
        mix.check()?;
        let weights = Weighted::new(mix.part.iter().map(|part| part.weight));
        let parts = mix.part.iter().map(|part| match (&part.synthetic, &part.ycsb) {
            (Some(synthetic), _) => {
                synthetic::Generator::new(synthetic, capacity, random).map(PartGenerator::Synthetic)
            }
            (None, Some(ycsb)) => {
                ycsb::Generator::new(ycsb, capacity, random).map(PartGenerator::Ycsb)
            }
            (None, None) => Err(WorkloadError::Part),
        });
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Self { weights, parts })
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> Ask {
        match &mut self.parts[self.weights.pick(random)] {
            PartGenerator::Synthetic(generator) => generator.next(random),
            PartGenerator::Ycsb(generator) => generator.next(random),
        }
    }
}

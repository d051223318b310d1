//! Judges results by their expectations.
//!
//! When two variants are compared, they are compared seed by seed: both got the same requests, so
//! chance affects both alike. The mean over the seeds is judged.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::Value;

use crate::experiment::{Class, Expectation, Experiment, Labelled, Measure, Over, label};
use crate::results::{Estimate, Record, ResultsError};
use crate::run::RunEnd;

/// An expectation and its findings.
#[derive(Clone, Debug)]
pub struct Judgement<'a> {
    /// The experiment's title.
    pub experiment: &'a str,
    /// What was expected.
    pub expectation: &'a Expectation,
    /// What was found: at each point, or one for all of them.
    pub findings: Vec<Finding>,
}

/// A finding at one point, or at several together.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The swept values; of several points, what they have in common. Empty if there are none.
    pub at: String,
    /// The number, over seeds.
    pub ours: Estimate,
    /// The verdict on it.
    pub verdict: Verdict,
    /// Whether the 95% confidence interval is on one side of the gate's ends.
    pub certain: bool,
}

impl Finding {
    /// The number; none (NaN) if nothing was measured.
    #[must_use]
    pub fn number(&self) -> f64 {
        if self.ours.count == 0 { f64::NAN } else { self.ours.mean }
    }

    /// Whether other seeds could change the verdict.
    #[must_use]
    pub fn may_be_chance(&self) -> bool {
        matches!(self.verdict, Verdict::Pass | Verdict::Miss) && !self.certain
    }
}

/// The verdict on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is as expected.
    Pass,
    /// Nothing was expected.
    Reported,
    /// It is not as expected.
    Miss,
    /// There are no results.
    NotMeasured,
    /// An array was overloaded, so its figures say little.
    Overloaded,
    /// It is not a number: there was nothing to compare with.
    Undefined,
}

impl Verdict {
    /// In a word or two.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Reported => "reported",
            Self::Miss => "MISS",
            Self::NotMeasured => "not measured",
            Self::Overloaded => "overloaded",
            Self::Undefined => "no number",
        }
    }

    /// Whether it makes a gate fail.
    #[must_use]
    pub fn fails(self) -> bool {
        !matches!(self, Self::Pass | Self::Reported)
    }
}

impl Judgement<'_> {
    /// The deciding finding: the one farthest from passing, or closest to failing. `None` if
    /// nothing was judged.
    #[must_use]
    pub fn decisive(&self) -> Option<&Finding> {
        let margin = |finding: &&Finding| match finding.verdict {
            Verdict::NotMeasured | Verdict::Overloaded | Verdict::Undefined => f64::NEG_INFINITY,
            Verdict::Pass | Verdict::Reported | Verdict::Miss => {
                self.expectation.gate.margin(finding.ours.mean)
            }
        };
        self.findings.iter().min_by(|a, b| margin(a).total_cmp(&margin(b)))
    }

    /// The verdict on all findings. Expectations that are only reported can't fail.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.expectation.class, self.decisive()) {
            (Class::Reported, Some(found)) if found.verdict.fails() => found.verdict,
            (Class::Reported, _) => Verdict::Reported,
            (Class::Directional | Class::Hard, Some(found)) => found.verdict,
            (Class::Directional | Class::Hard, None) => Verdict::NotMeasured,
        }
    }

    /// Whether a gate has failed.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.expectation.class != Class::Reported && self.verdict().fails()
    }
}

/// Judges results by the expectations of an experiment. Records of other experiments are skipped.
///
/// # Errors
/// If results under the experiment's title don't belong to it: its file has changed since.
pub fn judge<'a>(
    experiment: &'a Experiment,
    records: &[Record],
) -> Result<Vec<Judgement<'a>>, ResultsError> {
    let mut results = Results::default();
    for record in records.iter().filter(|record| record.experiment == experiment.title) {
        if !experiment.has(record) {
            return Err(ResultsError::Stale {
                experiment: experiment.title.clone(),
                shard: record.shard,
            });
        }
        let key = label(record.variant.as_deref(), &record.swept);
        results.0.entry(key).or_default().insert(record.seed, record);
    }
    let judge = |expectation| Judgement {
        experiment: &experiment.title,
        expectation,
        findings: results.findings(experiment, expectation),
    };
    Ok(experiment.expectations.iter().map(judge).collect())
}

/// Results by point and seed.
#[derive(Default)]
struct Results<'a>(BTreeMap<String, BTreeMap<u64, &'a Record>>);

/// Numbers by seed, and whether an array was overloaded.
#[derive(Default)]
struct Numbers {
    by_seed: BTreeMap<u64, f64>,
    overloaded: bool,
}

impl Results<'_> {
    fn findings(&self, experiment: &Experiment, expectation: &Expectation) -> Vec<Finding> {
        let points: Vec<_> = experiment.points.iter().filter(|p| expectation.concerns(p)).collect();
        let each = points.iter().map(|point| self.numbers(expectation, point));
        match expectation.over {
            Over::Each => points
                .iter()
                .zip(each)
                .map(|(point, numbers)| finding(expectation, label(None, &point.swept), &numbers))
                .collect(),
            Over::Mean => {
                let numbers = mean(each.collect());
                vec![finding(expectation, common(&points), &numbers)]
            }
        }
    }

    /// The numbers of a point, compared with the other variant's if there is one.
    fn numbers(&self, expectation: &Expectation, point: &Labelled) -> Numbers {
        let of = |variant: &Option<String>| self.0.get(&label(variant.as_deref(), &point.swept));
        let mut numbers = Numbers::default();
        for (seed, record) in of(&expectation.variant).into_iter().flatten() {
            let value = (expectation.column.value)(&record.figures);
            let base = of(&expectation.against).and_then(|records| records.get(seed));
            let number = match (expectation.measure, base) {
                (Measure::Value, _) => value,
                (_, None) => continue,
                (measure, Some(base)) => {
                    numbers.overloaded |= base.figures.end == RunEnd::Overloaded;
                    let base = (expectation.column.value)(&base.figures);
                    match measure {
                        Measure::Ratio => value / base,
                        Measure::Change => value / base - 1.0,
                        Measure::Value | Measure::Difference => value - base,
                    }
                }
            };
            numbers.overloaded |= record.figures.end == RunEnd::Overloaded;
            numbers.by_seed.insert(*seed, number);
        }
        numbers
    }
}

/// The means over points, by seeds that all of them have.
fn mean(points: Vec<Numbers>) -> Numbers {
    let overloaded = points.iter().any(|point| point.overloaded);
    let seeds = points.first().into_iter().flat_map(|first| first.by_seed.keys());
    let of_seed = |seed: &u64| {
        let numbers: Option<Vec<f64>> =
            points.iter().map(|p| p.by_seed.get(seed).copied()).collect();
        numbers.map(|numbers| (*seed, numbers.iter().sum::<f64>() / numbers.len() as f64))
    };
    Numbers { by_seed: seeds.filter_map(of_seed).collect(), overloaded }
}

fn finding(expectation: &Expectation, at: String, numbers: &Numbers) -> Finding {
    let ours = Estimate::of(numbers.by_seed.values().copied());
    let gate = &expectation.gate;
    let verdict = match ours {
        Estimate { count: 0, .. } => Verdict::NotMeasured,
        _ if numbers.overloaded => Verdict::Overloaded,
        Estimate { mean, .. } if !mean.is_finite() => Verdict::Undefined,
        _ if gate.is_open() => Verdict::Reported,
        Estimate { mean, .. } if gate.margin(mean) >= 0.0 => Verdict::Pass,
        _ => Verdict::Miss,
    };
    let ends = [gate.at_least, gate.at_most].into_iter().flatten();
    let certain = ends.map(|end| (ours.mean - end).abs()).all(|far| far > ours.half_width);
    Finding { at, ours, verdict, certain }
}

/// The swept values that points have in common, in a few words.
fn common(points: &[&Labelled]) -> String {
    let Some((first, rest)) = points.split_first() else { return String::new() };
    let in_all = |pair: &&(String, Value)| rest.iter().all(|point| point.swept.contains(pair));
    let swept: Vec<_> = first.swept.iter().filter(in_all).cloned().collect();
    label(None, &swept)
}

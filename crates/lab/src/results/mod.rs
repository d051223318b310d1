//! Results: one line of JSON for each shard, and statistics over several of them.

mod columns;
mod compare;
mod file;
mod statistics;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::measure::Figures;
use crate::point::{Labelled, Point, label};

pub use columns::{COLUMNS, Column, Unit};
pub use compare::{Comparison, compare};
pub use file::{ResultsError, merge, read, write};
pub use statistics::Estimate;

/// The version of the lines' format.
pub const VERSION: u32 = 5;

/// The result of a shard: a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// The experiment's title.
    pub experiment: String,
    /// Which of the experiment's shards it is, from 0.
    pub shard: u64,
    /// How many there are.
    pub shards: u64,
    /// The variant's name, if there are variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The swept keys and their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<(String, Value)>,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The complete point.
    pub point: Point,
    /// Its figures.
    pub figures: Figures,
}

impl Record {
    /// Variant and swept values in a few words; empty if there are none.
    #[must_use]
    pub fn label(&self) -> String {
        label(self.variant.as_deref(), &self.swept)
    }

    /// Whether it is the result of that point and seed.
    #[must_use]
    pub fn is_of(&self, labelled: &Labelled, seed: u64) -> bool {
        self.seed == seed
            && self.variant == labelled.variant
            && self.swept == labelled.swept
            && self.point == labelled.point
    }
}

/// The shards of an experiment's points: point by point, seed by seed, from seed 1 on.
pub fn shards(points: &[Labelled]) -> impl Iterator<Item = (&Labelled, u64)> {
    let seeds = |labelled: &Labelled| 1..=u64::from(labelled.point.run.seeds);
    points.iter().flat_map(move |point| seeds(point).map(move |seed| (point, seed)))
}

/// The results of one point, seed by seed.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The experiment's title.
    pub experiment: &'a str,
    /// Variant and swept values in a few words.
    pub label: String,
    /// Its results, by seed.
    pub records: Vec<&'a Record>,
}

impl Group<'_> {
    /// A figure over all seeds.
    #[must_use]
    pub fn estimate(&self, column: &Column) -> Estimate {
        Estimate::of(self.records.iter().map(|record| (column.value)(&record.figures)))
    }
}

/// Results by point, in the order of the experiment.
#[must_use]
pub fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let same = |group: &&mut Group<'_>| {
            group.records.first().is_some_and(|first| {
                (&first.experiment, &first.variant, &first.swept, &first.point)
                    == (&record.experiment, &record.variant, &record.swept, &record.point)
            })
        };
        match groups.iter_mut().rev().find(same) {
            Some(group) => group.records.push(record),
            None => groups.push(Group {
                experiment: &record.experiment,
                label: record.label(),
                records: vec![record],
            }),
        }
    }
    groups
}

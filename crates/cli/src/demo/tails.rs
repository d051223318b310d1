//! What garbage collection does to the slowest requests, and what `evenkeel` does about it: the daemon's
//! engine in virtual time, which is the same on every machine.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::thread;

use anyhow::{Context, Result};
use lab::experiment::{Experiment, Labelled};
use lab::measure::{Figures, Latency, QUANTILES};
use lab::results::Unit;
use lab::shard::run_shard;
use serde_json::{Value, json};

use super::spread::row;
use crate::lab::values::value;

/// What is played; `evenkeel lab run` plays it, too.
const EXPERIMENT: &str = include_str!("../../../../examples/experiments/demo.toml");

const SEED: u64 = 1;

/// The figures of each array, by its name.
pub(super) struct Tails(Vec<(String, Figures)>);

impl Tails {
    /// Plays all arrays.
    pub(super) fn play() -> Result<Self> {
        let experiment = Experiment::parse(EXPERIMENT, Path::new("demo.toml"))?;
        let one = |labelled: &Labelled| -> Result<(String, Figures)> {
            let figures = run_shard(&labelled.point, SEED, Path::new(""), &AtomicU64::new(0))?;
            Ok((labelled.variant.clone().unwrap_or_default(), figures))
        };
        thread::scope(|scope| {
            let points: Vec<_> =
                experiment.points.iter().map(|point| scope.spawn(|| one(point))).collect();
            let ended =
                points.into_iter().map(|point| point.join().expect("a shard does not panic"));
            ended.collect::<Result<_>>().map(Self)
        })
    }

    /// A table, and what it says in a sentence.
    pub(super) fn text(&self) -> Result<String> {
        let all = |cell: &dyn Fn(&Figures) -> String| -> Vec<String> {
            self.0.iter().map(|(_, figures)| cell(figures)).collect()
        };
        let requests = self.named("plain")?.responses.count;
        let mut lines = vec![
            format!("The same {requests} requests to a RAID5 of five aged SSDs, in virtual time"),
            row("", self.0.iter().map(|(name, _)| name.clone())),
            row("  mean", all(&|figures| time(figures.responses.mean_us))),
        ];
        lines.extend(QUANTILES.iter().zip(0..).filter(|((name, _), _)| *name != "p95").map(
            |((name, _), at): (_, usize)| {
                row(&format!("  {name}"), all(&|figures| time(figures.responses.quantiles_us[at])))
            },
        ));
        lines.push(row("  slowest", all(&|figures| time(figures.responses.max_us))));
        let (plain, evenkeel) = (self.named("plain")?, self.named("evenkeel")?);
        lines.push(format!(
            "\nOf a thousand requests the slowest took {}, with the policy evenkeel {}; for that, flash \
             was written {:.1} times as much.\nThese SSDs tell when they collect garbage, and do so when \
             they are told to.",
            time(slowest_of_thousand(&plain.responses)),
            time(slowest_of_thousand(&evenkeel.responses)),
            evenkeel.total_waf / plain.total_waf,
        ));
        Ok(lines.join("\n"))
    }

    pub(super) fn json(&self) -> Value {
        let nanos = |us: f64| (us * 1000.0) as u64;
        let one = |(name, figures): &(String, Figures)| {
            let Latency { count, mean_us, quantiles_us, max_us, .. } = &figures.responses;
            let quantiles = QUANTILES.iter().zip(quantiles_us);
            let quantiles: serde_json::Map<_, _> =
                quantiles.map(|((name, _), us)| ((*name).into(), nanos(*us).into())).collect();
            json!({
                "name": name,
                "requests": count,
                "mean_ns": nanos(*mean_us),
                "quantiles_ns": quantiles,
                "max_ns": nanos(*max_us),
                "total_waf": figures.total_waf,
            })
        };
        self.0.iter().map(one).collect()
    }

    fn named(&self, name: &str) -> Result<&Figures> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, figures)| figures).with_context(|| format!("there is no variant {name}"))
    }
}

fn slowest_of_thousand(latency: &Latency) -> f64 {
    let at = QUANTILES.iter().position(|(name, _)| *name == "p99.9");
    at.map_or(latency.max_us, |at| latency.quantiles_us[at])
}

fn time(us: f64) -> String {
    value(us, Unit::Microseconds)
}

//! An experiment of the laboratory from code: a RAID5 of five modelled SSDs, with the policy
//! `plain`, with `evenkeel`, and with SSDs that collect garbage in no time.
//!
//! `cargo run --release -p examples --example experiment`

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use lab::experiment::{Experiment, Point};
use lab::measure::Figures;
use lab::shard::run_shard;

/// The text that `evenkeel lab run` would read from a file: docs/lab.md describes every key.
const EXPERIMENT: &str = r#"
title = "Plain, evenkeel, ideal"

[array]
level = "raid5"
members = 5
staging = "32M"
extra_reads = 0.25

[ssd]
profile = "mqsim"
blocks = 64
overwrites = 2.0
told = true
obeys = true
set.geometry.channels = 4

[workload.synthetic]
read = 0.8
size = "4K"
pace.open.rate = 1500

[run]
requests = 100_000
warmup = 10_000

[[variant]]
name = "plain"

[[variant]]
name = "evenkeel"
array.scheme = "evenkeel"

[[variant]]
name = "ideal"
ssd.set.gc.instant = true
"#;

/// Each variant's name and figures, over `requests` requests.
fn run(requests: u64) -> Result<Vec<(String, Figures)>, Box<dyn Error>> {
    let experiment = Experiment::parse(EXPERIMENT, Path::new("experiment.toml"))?;
    let shorter = |point: &Point| {
        let mut point = point.clone();
        point.run.requests = Some(requests);
        point.run.warmup = requests / 10;
        point
    };
    let measure = |labelled: &lab::experiment::Labelled| {
        let point = shorter(&labelled.point);
        let figures = run_shard(&point, 1, &experiment.base, &AtomicU64::new(0))?;
        Ok((labelled.label(), figures))
    };
    experiment.points.iter().map(measure).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<10} {:>10} {:>10} {:>10}", "response", "mean", "p99", "p99.9");
    for (name, figures) in run(100_000)? {
        let [_, _, p99, p999, _] = figures.responses.quantiles_us.map(|us| us / 1000.0);
        let mean = figures.responses.mean_us / 1000.0;
        println!("{name:<10} {mean:>7.2} ms {p99:>7.2} ms {p999:>7.2} ms");
    }
    Ok(())
}

#[test]
fn going_around_busy_drives_pays() {
    let figures = run(20_000).expect("an experiment");
    let mean = |name: &str| {
        let (_, figures) = figures.iter().find(|(label, _)| label == name).expect("a variant");
        assert_eq!(figures.requests, 20_000, "{name}");
        figures.responses.mean_us
    };
    assert!(mean("evenkeel") < mean("plain") / 2.0);
    assert!(mean("ideal") < mean("plain") / 2.0);
}

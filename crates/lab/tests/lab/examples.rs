//! The experiments in the repository.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use lab::experiment::{Task, merge};
use lab::run::RunEnd;
use lab::shard::run_shard;
use rayon::prelude::*;

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/experiments");
    let entries = dir.read_dir().expect("there are examples");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn each_can_be_run() {
    let mut validations = 0;
    for path in files() {
        match Task::load(&path).unwrap_or_else(|error| panic!("{error}")) {
            Task::Validation(_) => validations += 1,
            Task::Experiment(experiment) => {
                experiment.points.par_iter().for_each(|labelled| {
                    let mut point = labelled.point.clone();
                    // A smoke test: the smallest drives, and few requests. Streams have open blocks of
                    // their own.
                    let large = point.log.is_some() || point.ssd.streams.is_some();
                    point.ssd.blocks = Some(if large { 256 } else { 128 });
                    point.ssd.overwrites = 0.1;
                    let small = toml::from_str("geometry = { channels = 1, chips = 2 }");
                    merge(&mut point.ssd.set, &small.expect("a table"));
                    point.run.requests = Some(300);
                    point.run.warmup = point.run.warmup.min(100);
                    let what = format!("{}: {}", path.display(), labelled.label());
                    let figures = run_shard(&point, 1, &experiment.base, &AtomicU64::new(0))
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(figures.end, RunEnd::Done, "{what}");
                    // A member this small may be rebuilt before.
                    let rebuilt = figures.rebuild_seconds.is_some();
                    assert!(figures.requests == 300 || rebuilt, "{what}: {}", figures.requests);
                });
            }
        }
    }
    assert_eq!(validations, 1);
}

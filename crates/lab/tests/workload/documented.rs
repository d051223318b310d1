//! The examples of the documentation work.

use std::collections::BTreeSet;

use lab::workload::{Model, Workload};
use serde::Deserialize;

const DOCUMENT: &str = include_str!("../../../../docs/workloads.md");

#[derive(Deserialize)]
struct Experiment {
    workload: Workload,
}

#[test]
fn examples_are_valid() {
    let mut kinds = BTreeSet::new();
    for block in DOCUMENT.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let experiment: Experiment =
            toml::from_str(text).unwrap_or_else(|error| panic!("{text}{error}"));
        experiment.workload.check().unwrap_or_else(|error| panic!("{text}{error}"));
        kinds.insert(match experiment.workload {
            Workload::Synthetic(_) => "synthetic",
            Workload::Paper(_) => "paper",
            Workload::Ycsb(_) => "ycsb",
            Workload::Mix(_) => "mix",
            Workload::Trace(_) => "trace",
        });
    }
    assert_eq!(kinds.len(), 5, "there is no example of some: {kinds:?}");
}

#[test]
fn every_named_workload_is_listed() {
    for model in Model::all() {
        assert!(DOCUMENT.contains(&format!("`{}`", model.name())), "{}", model.name());
    }
}

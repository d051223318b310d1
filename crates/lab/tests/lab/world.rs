//! Experiments for tests: small, and quick to run.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use lab::experiment::{Experiment, ExperimentError};
use lab::measure::Figures;
use lab::shard::run_shard;

/// A drive of 16 dies whose times are easy to reckon with: 40 µs to read, 200 µs to program, no
/// transfers.
pub(crate) const SSD: &str = "[ssd]\nprofile = 'femu-ioda'\nblocks = 64\noverwrites = 1.0\n\
                              set.geometry = { channels = 4, chips = 4, pages = 32 }\n";

/// An array of these, without a journal.
pub(crate) const RAID5: &str =
    "[array]\nlevel = 'raid5'\nmembers = 5\nconsistency = 'resync'\nchunk = '16K'\n";

/// Requests of a block, so many at a time.
pub(crate) fn closed(depth: u32, read: f64) -> String {
    format!("[workload.synthetic]\nread = {read}\nsize = '4K'\npace.closed.depth = {depth}\n")
}

/// Requests of a block, so many a second.
pub(crate) fn open(rate: f64, read: f64) -> String {
    format!("[workload.synthetic]\nread = {read}\nsize = '4K'\npace.open.rate = {rate}\n")
}

/// The experiment of these tables.
pub(crate) fn parse(tables: &[&str]) -> Result<Experiment, ExperimentError> {
    let text = format!("title = 'a test'\n{}", tables.join("\n"));
    Experiment::parse(&text, Path::new("test.toml"))
}

/// It is refused with all of `words`.
#[track_caller]
pub(crate) fn refused(tables: &[&str], words: &[&str]) {
    let error = parse(tables).expect_err("it is no experiment").to_string();
    for word in words.iter().chain(&["test.toml"]) {
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// What the first point of an experiment shows with seed 1.
#[track_caller]
pub(crate) fn figures(tables: &[&str]) -> Figures {
    let experiment = parse(tables).unwrap_or_else(|error| panic!("{error}"));
    let point = &experiment.points[0].point;
    run_shard(point, 1, &experiment.base, &AtomicU64::new(0)).expect("it can be run")
}

/// Whether two numbers differ by no more than this part of the second.
#[track_caller]
pub(crate) fn near(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() <= part, "{value} instead of {expected}");
}

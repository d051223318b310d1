//! Generators, compared with their distributions, with fixed seeds.

mod address;
mod documented;
mod fixed;
mod law;
mod named;
mod refused;

use std::path::Path;

use lab::workload::{Arrival, Stream, Workload};

const GIB: u64 = 1 << 30;

/// The table `[workload]`, from its keys.
fn workload(text: &str) -> Workload {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn open(text: &str, capacity: u64, seed: u64) -> Stream {
    let stream = workload(text).open(capacity, seed, Path::new("."));
    stream.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The first `count` requests for a target of a GiB.
fn take(text: &str, count: usize) -> Vec<Arrival> {
    open(text, GIB, 1).take(count).map(|arrival| arrival.unwrap()).collect()
}

/// The share of `arrivals` for which `so` holds.
fn share(arrivals: &[Arrival], so: impl Fn(&Arrival) -> bool) -> f64 {
    arrivals.iter().filter(|arrival| so(arrival)).count() as f64 / arrivals.len() as f64
}

/// Fails unless a share of `draws` is `expected`, within four standard deviations.
#[track_caller]
fn assert_share(what: &str, found: f64, expected: f64, draws: usize) {
    let deviation = (expected * (1.0 - expected) / draws as f64).sqrt();
    let off = (found - expected).abs();
    assert!(off <= 4.0 * deviation + 1e-12, "{what}: {found}, expected {expected} ± {deviation}");
}

/// Fails unless a number is `expected`, within this part of it.
#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, part: f64) {
    let off = (found / expected - 1.0).abs();
    assert!(off <= part, "{what}: {found}, expected {expected} within {}%", part * 100.0);
}

/// Fails unless counts are as their expectations have it, by chi-square: within four standard
/// deviations of its mean.
#[track_caller]
fn assert_chi(what: &str, found: &[u64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let terms = found.iter().zip(expected);
    let chi: f64 =
        terms.map(|(&found, expected)| (found as f64 - expected).powi(2) / expected).sum();
    let freedom = (found.len() - 1) as f64;
    let limit = freedom + 4.0 * (2.0 * freedom).sqrt();
    assert!(chi <= limit, "{what}: chi-square is {chi}, at most {limit} expected: {found:?}");
}

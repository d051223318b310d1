//! The SSD extension of DiskSim, in the four synthetic runs that it was released with.
//!
//! Taken from its configuration and generator:
//! - The logical pages of an element fill its blocks in order, and neighbouring blocks are on
//!   different planes: the footprint at the front of the device is the same part of every plane, in
//!   whole blocks; the rest of each plane is cold and stays as it is.
//! - Sizes are drawn in sectors and rounded up to pages: as if drawn in pages, since what is left
//!   of an exponential number is exponential. A sequential run goes on with the size of its first
//!   request, which was one page.
//! - A host write that fills a block, or a move that does, programs the summary page as well.

use det::{Instant, Prng};

use super::cleaning::Depth;
use super::row::Row;
use super::workload::{Series, exponential, unit};
use crate::ftl::Precondition;
use crate::profile::Profile;
use crate::ssd::{Command, Op, Ssd};
use crate::stats::Stats;

const FOOTPRINT: u64 = 877_363;
const SHORT: u64 = 250_000;
const LONG: u64 = 5_000_000;
const GAP_MAX: f64 = 1e6;

/// Random numbers differ between seeds; the reference is a single draw.
const SEEDS: u64 = 10;

struct Run {
    latency: Series,
    stats: Stats,
}

/// Random requests, or sequential ones of a page each.
fn run(op: Op, sequential: bool, count: u64, seed: u64) -> Run {
    let profile = Profile::builtin("msr2008").expect("a profile");
    let mut ssd = Ssd::new(&profile, Precondition::Filled, seed).expect("a profile");
    let mut prng = Prng::new(seed);
    let (mut now, mut latency, mut ended, mut next) = (0.0, Series::default(), Vec::new(), 0);
    for tag in 0..count {
        now += unit(&mut prng) * GAP_MAX;
        let (page, pages) = if sequential {
            next = (next + 1) % FOOTPRINT;
            (next, 1)
        } else {
            random_extent(&mut prng)
        };
        let command = Command { tag, op, page: page as u32, pages: pages as u32, stream: 0 };
        ssd.submit(Instant(now as u64), command).expect("pages of it");
        ssd.poll(Instant(now as u64), &mut ended);
        ended.drain(..).for_each(|done| latency.add(done.latency.as_nanos() as f64 / 1e6));
    }
    while let Some(next) = ssd.next() {
        ssd.poll(next, &mut ended);
    }
    ended.drain(..).for_each(|done| latency.add(done.latency.as_nanos() as f64 / 1e6));
    Run { latency, stats: ssd.stats() }
}

fn random_extent(prng: &mut Prng) -> (u64, u64) {
    loop {
        let page = prng.below(FOOTPRINT);
        let pages = exponential(prng, 1.0).ceil().max(1.0) as u64;
        if page + pages < FOOTPRINT {
            return (page, pages);
        }
    }
}

/// The runs without garbage collection.
#[must_use]
pub fn without_gc(depth: Depth) -> Vec<Row> {
    let mut rows = compare("sequential read", Op::Read, true, depth, [0.1325, 0.0, 0.136]);
    rows.extend(compare("random read", Op::Read, false, depth, [0.1361, 0.0152, 0.485]));
    rows.extend(compare("random write", Op::Write, false, depth, [0.3295, 0.0689, 0.0]));
    rows
}

/// Mean, standard deviation and maximum of a run, where they are known: averages over the seeds.
fn compare(what: &str, op: Op, sequential: bool, depth: Depth, known: [f64; 3]) -> Vec<Row> {
    let seeds = if depth == Depth::Full { SEEDS } else { 1 };
    let mut seen = [const { Vec::new() }; 3];
    for seed in 0..seeds {
        let latency = run(op, sequential, SHORT, seed).latency;
        seen[0].push(latency.mean());
        seen[1].push(latency.deviation());
        seen[2].push(latency.max());
    }
    let mut rows = Vec::new();
    for ((kind, seen), reference) in ["mean", "sd", "max"].into_iter().zip(&seen).zip(known) {
        let mean = seen.iter().sum::<f64>() / seeds as f64;
        // One seed is enough only for a mean. The longest wait of 250,000 requests depends on the
        // seed: the reference's maximum can differ from ours as much as those of two seeds differ.
        let spread = seen.iter().map(|value| (value / mean - 1.0).abs()).fold(0.0, f64::max);
        let tolerance = if kind == "max" { spread.max(0.01) } else { 0.01 };
        if reference > 0.0 && (depth == Depth::Full || kind == "mean") {
            let name = format!("DiskSim SSD extension, {what}, {kind}");
            rows.push(Row::new(name, "ms", (reference, mean), tolerance));
        }
    }
    rows
}

/// The run with garbage collection, of which the reference is held back.
#[must_use]
pub fn with_gc(depth: Depth) -> Vec<Row> {
    if depth == Depth::Short {
        return Vec::new();
    }
    let mut is = run(Op::Write, false, LONG, 42);
    let row = |what: &str, unit, measured, tolerance| {
        Row::held_back(
            format!("DiskSim SSD extension, random write 5M, {what}"),
            unit,
            measured,
            tolerance,
        )
    };
    vec![
        row("mean", "ms", is.latency.mean(), 0.01),
        row("sd", "ms", is.latency.deviation(), 0.01),
        row("p99", "ms", is.latency.quantile(0.99), 0.03),
        row("cleans", "", is.stats.flash.erases as f64, 0.01),
        row("pages moved", "", is.stats.flash.moved as f64, 0.01),
    ]
}

//! The SSD extension of DiskSim, in the four synthetic runs that it was released with.
//!
//! Read off its own configuration and generator:
//! - The logical pages of an element fill its blocks in order, and neighbouring blocks are on
//!   different planes: the footprint at the front of the device is the same part of every plane,
//!   in whole blocks; the rest of each plane is cold and stays as it is.
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
const MEAN_GAP: f64 = 1e6;

struct Run {
    latency: Series,
    stats: Stats,
}

/// Random requests, or sequential ones of a page each.
fn run(op: Op, sequential: bool, count: u64) -> Run {
    let profile = Profile::builtin("msr2008").expect("a profile");
    let mut ssd = Ssd::new(&profile, Precondition::Filled, 42).expect("a profile");
    let mut prng = Prng::new(42);
    let (mut now, mut latency, mut ended, mut next) = (0.0, Series::default(), Vec::new(), 0);
    for tag in 0..count {
        now += unit(&mut prng) * MEAN_GAP;
        let (page, pages) = if sequential {
            next = (next + 1) % FOOTPRINT;
            (next, 1)
        } else {
            random_extent(&mut prng)
        };
        let command = Command { tag, op, page: page as u32, pages: pages as u32 };
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
    let count = if depth == Depth::Full { SHORT } else { SHORT / 2 };
    let name = |what: &str| format!("DiskSim SSD extension, {what}");
    let mut rows = Vec::new();
    let is = run(Op::Read, true, count);
    rows.push(Row::new(name("sequential read, mean"), "ms", (0.1325, is.latency.mean()), 0.01));
    if depth == Depth::Full {
        rows.push(Row::new(name("sequential read, max"), "ms", (0.136, is.latency.max()), 0.01));
    }
    let is = run(Op::Read, false, count);
    rows.push(Row::new(name("random read, mean"), "ms", (0.1361, is.latency.mean()), 0.01));
    rows.push(Row::new(name("random read, sd"), "ms", (0.0152, is.latency.deviation()), 0.01));
    if depth == Depth::Full {
        rows.push(Row::new(name("random read, max"), "ms", (0.485, is.latency.max()), 0.01));
    }
    let is = run(Op::Write, false, count);
    rows.push(Row::new(name("random write, mean"), "ms", (0.3295, is.latency.mean()), 0.01));
    rows.push(Row::new(name("random write, sd"), "ms", (0.0689, is.latency.deviation()), 0.01));
    rows
}

/// The run with garbage collection, of which the reference is held back.
#[must_use]
pub fn with_gc(depth: Depth) -> Vec<Row> {
    if depth == Depth::Short {
        return Vec::new();
    }
    let mut is = run(Op::Write, false, LONG);
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

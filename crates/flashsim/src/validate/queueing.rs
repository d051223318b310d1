//! One chip as a queue: saturated with random writes, and with Poisson arrivals.

use det::{Instant, Prng};

use super::cleaning::{Depth, plane};
use super::formulas;
use super::row::Row;
use super::workload::{Series, exponential};
use crate::ftl::Precondition;
use crate::profile::Victim;
use crate::ssd::{Command, Op, Ssd};

const PAGES: u32 = 64;

/// A chip that always has writes waiting: the time per page is that of the program and of its
/// share of the collection.
#[must_use]
pub fn saturated(depth: Depth) -> Vec<Row> {
    let logical = if depth == Depth::Full { 256 << 10 } else { 32 << 10 };
    let overwrites = 5.0;
    let alphas: &[f64] = if depth == Depth::Full { &[1.12, 1.25, 1.5, 2.0] } else { &[1.25] };
    let mut rows = Vec::new();
    for &alpha in alphas {
        let mut profile = plane(Victim::Greedy, PAGES, logical, alpha);
        profile.bus = Some(crate::profile::Bus { mb_per_s: 40.0, oob_bytes: 16, commands: None });
        let mut ssd = Ssd::new(&profile, Precondition::Aged(overwrites), 3).expect("a profile");
        let count = (f64::from(ssd.geometry().logical_pages) * overwrites) as u64;
        let per_page = closed_loop(&mut ssd, |_| (Op::Write, 1), 4, count, 3) / count as f64;
        // The free pool stays at its threshold, and half of the open block is unwritten on average.
        let g = ssd.geometry();
        let free = ssd.space().least_free_blocks * PAGES + PAGES / 2;
        let alpha = (g.raw_pages() as f64 - f64::from(free)) / f64::from(g.logical_pages);
        let wa = formulas::greedy(alpha, PAGES.into());
        let (read, program, erase, transfer) = (25.0, 200.0, 1500.0, 105.6);
        let expected =
            transfer + program + (wa - 1.0) * (read + program) + wa / f64::from(PAGES) * erase;
        rows.push(Row::new(
            format!("saturated random writes, one chip, alpha {alpha:.3}"),
            "us",
            (expected, per_page / 1e3),
            0.02,
        ));
    }
    rows
}

/// Keeps `depth` commands under way, of a kind and a number of pages that `next` draws, in random
/// places, until `count` have ended. The time that took, in nanoseconds.
pub(super) fn closed_loop(
    ssd: &mut Ssd,
    next: impl Fn(&mut Prng) -> (Op, u32),
    depth: u32,
    count: u64,
    seed: u64,
) -> f64 {
    let mut prng = Prng::new(seed);
    let logical = ssd.geometry().logical_pages;
    let mut now = Instant::ORIGIN;
    let mut ended = Vec::new();
    let (mut begun, mut done) = (0, 0);
    while done < count {
        while begun < count && begun - done < depth.into() {
            let (op, pages) = next(&mut prng);
            let page = prng.below(u64::from(logical - pages) + 1) as u32;
            ssd.submit(now, Command { tag: begun, op, page, pages, stream: 0 })
                .expect("pages of it");
            begun += 1;
        }
        now = ssd.next().expect("commands are under way");
        ssd.poll(now, &mut ended);
        done += ended.len() as u64;
        ended.clear();
    }
    now.0 as f64
}

/// Random reads of one chip, arriving at random.
#[must_use]
pub fn md1(depth: Depth) -> Vec<Row> {
    let count = if depth == Depth::Full { 2_000_000 } else { 300_000 };
    let loads: &[f64] = if depth == Depth::Full { &[0.1, 0.3, 0.5, 0.7, 0.8] } else { &[0.5] };
    let mut rows = Vec::new();
    for &rho in loads {
        let mut profile = plane(Victim::Greedy, PAGES, 4096, 1.25);
        profile.bus = Some(crate::profile::Bus { mb_per_s: 40.0, oob_bytes: 16, commands: None });
        let mut ssd = Ssd::new(&profile, Precondition::Filled, 5).expect("a profile");
        let service = 25_000.0 + 105_600.0;
        let mut prng = Prng::new(5);
        let (mut now, mut latency, mut ended) = (0.0, Series::default(), Vec::new());
        for tag in 0..count {
            now += exponential(&mut prng, service / rho);
            let page = prng.below(ssd.geometry().logical_pages.into()) as u32;
            let command = Command { tag, op: Op::Read, page, pages: 1, stream: 0 };
            ssd.submit(Instant(now as u64), command).expect("a page of it");
            ssd.poll(Instant(now as u64), &mut ended);
            ended.drain(..).for_each(|done| latency.add(done.latency.as_nanos() as f64));
        }
        rows.push(Row::new(
            format!("M/D/1, one chip, load {rho}"),
            "us",
            (formulas::md1(service, rho) / 1e3, latency.mean() / 1e3),
            0.02,
        ));
    }
    rows
}

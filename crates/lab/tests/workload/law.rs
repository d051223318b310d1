//! Operations, sizes and times.

use std::time::Duration;

use lab::workload::{Arrival, Kind, Pace};

use crate::{assert_chi, assert_near, assert_share, open, share, take};

const N: usize = 200_000;

#[test]
fn kinds_have_their_shares() {
    let arrivals = take("synthetic = { read = 0.7, discard = 0.05, size = \"4K\" }", N);
    assert_share("reads", share(&arrivals, |a| a.kind == Kind::Read), 0.7, N);
    assert_share("discards", share(&arrivals, |a| a.kind == Kind::Discard), 0.05, N);
    assert_share("writes", share(&arrivals, |a| a.kind == Kind::Write), 0.25, N);
    for (text, kind) in [
        ("synthetic = { read = 1.0, size = \"4K\" }", Kind::Read),
        ("synthetic = { read = 0.0, size = \"4K\" }", Kind::Write),
        ("synthetic = { read = 0.0, discard = 1.0, size = \"4K\" }", Kind::Discard),
    ] {
        assert!(take(text, 1000).iter().all(|arrival| arrival.kind == kind), "{text}");
    }
}

#[test]
fn a_flush_follows_so_many_writes() {
    let arrivals = take("synthetic = { read = 0.5, flush_every = 8, size = \"4K\" }", N);
    let mut writes = 0;
    let mut flushes = 0;
    for arrival in &arrivals {
        match arrival.kind {
            Kind::Write => writes += 1,
            Kind::Flush => {
                assert_eq!((writes, arrival.offset, arrival.bytes), (8, 0, 0));
                writes = 0;
                flushes += 1;
            }
            Kind::Read | Kind::Discard => {}
        }
    }
    assert!(flushes > 11_000, "{flushes}");
}

#[test]
fn sizes_are_mixtures_of_their_own_for_reads_and_writes() {
    let text = "synthetic = { read = 0.5, read_size = { \"4K\" = 6, \"8K\" = 3, \"1M\" = 1 }, \
                write_size = { 512 = 0.25, \"64KiB\" = 0.75 } }";
    let arrivals = take(text, N);
    let counts = |kind, sizes: &[u32]| {
        let count = |&bytes: &u32| {
            let same = |a: &&Arrival| a.kind == kind && a.bytes == bytes;
            arrivals.iter().filter(same).count() as u64
        };
        sizes.iter().map(count).collect::<Vec<_>>()
    };
    for (kind, sizes, weights) in [
        (Kind::Read, &[4096, 8192, 1 << 20][..], &[0.6, 0.3, 0.1][..]),
        (Kind::Write, &[512, 65536], &[0.25, 0.75]),
    ] {
        let found = counts(kind, sizes);
        let all = arrivals.iter().filter(|arrival| arrival.kind == kind).count();
        assert_eq!(found.iter().sum::<u64>(), all as u64, "other sizes");
        let expected: Vec<f64> = weights.iter().map(|weight| weight * all as f64).collect();
        assert_chi("sizes", &found, &expected);
    }
}

/// Times between arrivals: mean and coefficient of variation, in nanoseconds.
fn gaps(arrivals: &[Arrival]) -> (f64, f64) {
    let gaps = || arrivals.windows(2).map(|pair| (pair[1].at.0 - pair[0].at.0) as f64);
    let count = (arrivals.len() - 1) as f64;
    let mean = gaps().sum::<f64>() / count;
    let variance = gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt() / mean)
}

fn paced(pace: &str, count: usize) -> Vec<Arrival> {
    take(&format!("synthetic = {{ read = 0.5, size = \"4K\", pace.open = {pace} }}"), count)
}

#[test]
fn gaps_follow_their_law() {
    let (mean, cv) = gaps(&paced("{ rate = 5000 }", N));
    assert_near("Poisson's mean", mean, 200_000.0, 0.01);
    assert_near("Poisson's variation", cv, 1.0, 0.01);

    let (mean, cv) = gaps(&paced("{ rate = 5000, gaps = \"uniform\" }", N));
    assert_near("the uniform mean", mean, 200_000.0, 0.01);
    assert_near("the uniform variation", cv, 1.0 / 3f64.sqrt(), 0.01);

    // A third of a millisecond is not a whole number of nanoseconds.
    let arrivals = paced("{ rate = 3000, gaps = \"constant\" }", 30_001);
    assert_eq!(arrivals[30_000].at.0 - arrivals[0].at.0, 10_000_000_000);
    let mut gaps = arrivals.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0);
    assert!(gaps.all(|gap| (333_333..=333_334).contains(&gap)));
}

/// Counts of arrivals in windows of this many nanoseconds: mean and variance.
fn windows(arrivals: &[Arrival], window: u64) -> (f64, f64) {
    let count = (arrivals.last().unwrap().at.0 / window) as usize;
    let mut counts = vec![0f64; count];
    for arrival in arrivals {
        if let Some(count) = counts.get_mut((arrival.at.0 / window) as usize) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / count as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
    (mean, variance / count as f64)
}

/// The rate is redrawn after exponential times, so its autocovariance decays exponentially; from
/// it follows the variance of counts in a window: `λt + 2σ²d²(t/d − 1 + e^(−t/d))`.
#[test]
fn bursts_have_the_variance_of_their_law() {
    for (peak, share, outside) in [(10.0, 0.06, 0.425_532), (4.0, 0.25, 0.0), (1.0, 0.5, 1.0)] {
        let bursts = format!("{{ peak = {peak}, share = {share}, dwell = \"200ms\" }}");
        let arrivals = paced(&format!("{{ rate = 1000, gaps.bursts = {bursts} }}"), 4_000_000);
        let spread = share * (1.0 - share) * (1000.0f64 * (peak - outside)).powi(2);
        for window in [0.2f64, 1.0] {
            let (mean, variance) = windows(&arrivals, (window * 1e9) as u64);
            let ratio = window / 0.2;
            let modulated = 2.0 * spread * 0.04 * (ratio - 1.0 + (-ratio).exp());
            assert_near("the mean", mean, 1000.0 * window, 0.04);
            let expected = 1000.0 * window + modulated;
            assert_near("the variance", variance, expected, 0.08);
        }
    }
}

#[test]
fn a_closed_loop_has_no_times() {
    let text = "synthetic = { read = 0.5, size = \"4K\", \
                pace.closed = { depth = 32, think = \"250us\" } }";
    let stream = open(text, 1 << 30, 1);
    assert_eq!(stream.pace(), Pace::Closed { depth: 32, think: Duration::from_micros(250) });
    assert!(stream.take(1000).all(|arrival| arrival.unwrap().at.0 == 0));
    let plain = open("synthetic = { read = 0.5, size = \"4K\" }", 1 << 30, 1);
    assert_eq!(plain.pace(), Pace::Closed { depth: 1, think: Duration::ZERO });
    let timed = open("paper.name = \"hm_0\"", 1 << 30, 1);
    assert_eq!(timed.pace(), Pace::Open);
}

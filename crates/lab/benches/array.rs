//! Simulated requests per second of real time: one SSD, and a RAID5 of five, both collecting
//! garbage all the time.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lab::experiment::Experiment;
use lab::shard::run_shard;

const ARRAY: &str = "[array]\nlevel = 'raid5'\nmembers = 5\nconsistency = 'resync'\n";
const REST: &str = "
[ssd]
profile = 'msr2008'
blocks = 128
[workload.synthetic]
read = 0.7
size = '4K'
pace.closed.depth = 16
[run]
";

/// How long requests take, without the making of drives: the difference between a long run and a
/// short one.
fn time(array: &str, requests: u64) -> Duration {
    let run = |requests: u64| {
        let text = format!("title = 'bench'\n{array}{REST}requests = {requests}\n");
        let experiment = Experiment::parse(&text, Path::new("bench.toml")).expect("an experiment");
        let begun = Instant::now();
        run_shard(&experiment.points[0].point, 1, &experiment.base, &AtomicU64::new(0))
            .expect("it can be run");
        begun.elapsed()
    };
    run(WARM_UP + requests).saturating_sub(run(WARM_UP))
}

/// Requests until collection is steady.
const WARM_UP: u64 = 20_000;

/// Requests of one iteration.
const REQUESTS: u64 = 200_000;

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulated requests, 4 KiB, 70% reads");
    group.sample_size(10).throughput(Throughput::Elements(REQUESTS));
    for (name, array) in [("one SSD", ""), ("RAID5 of five", ARRAY)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| (0..iterations).map(|_| time(array, REQUESTS)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);

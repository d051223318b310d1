//! Page operations per second: writes, reads, and what garbage collection moves, each counted.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use det::{Instant, Prng};
use flashsim::{Command, Op, Precondition, Profile, Ssd};

/// Keeps 64 random writes of a page under way until `count` have ended.
fn write(ssd: &mut Ssd, now: &mut Instant, prng: &mut Prng, count: u64) {
    let pages = u64::from(ssd.geometry().logical_pages);
    let mut ended = Vec::with_capacity(64);
    let (mut begun, mut done) = (0, 0);
    while done < count {
        while begun < count && begun - done < 64 {
            let page = prng.below(pages) as u32;
            let command = Command { tag: begun, op: Op::Write, page, pages: 1, stream: 0 };
            ssd.submit(*now, command).expect("a page of the drive");
            begun += 1;
        }
        *now = ssd.next().expect("commands are under way");
        ssd.poll(*now, &mut ended);
        done += ended.len() as u64;
        ended.clear();
    }
}

fn random_writes(criterion: &mut Criterion) {
    const WRITES: u64 = 10_000;
    let mut group = criterion.benchmark_group("random writes under collection");
    for (name, blocks) in [("msr2008", 256), ("femu-ioda", 256), ("sata-mlc", 256)] {
        let profile = Profile::builtin(name).expect("a builtin profile").with_blocks(blocks);
        let mut ssd = Ssd::new(&profile, Precondition::Aged(4.0), 1).expect("a possible drive");
        let (mut now, mut prng) = (Instant::ORIGIN, Prng::new(1));
        write(&mut ssd, &mut now, &mut prng, 100_000);
        ssd.reset_stats();
        write(&mut ssd, &mut now, &mut prng, 100_000);
        let operations = (WRITES as f64 * ssd.stats().waf()) as u64;
        group.throughput(Throughput::Elements(operations));
        group.bench_function(name, |bencher| {
            bencher.iter(|| write(black_box(&mut ssd), &mut now, &mut prng, WRITES));
        });
    }
    group.finish();
}

criterion_group!(benches, random_writes);
criterion_main!(benches);

//! The engine's own cost: a request from its arrival to its completion, on a host that completes
//! everything at once and does no work. An SSD takes some 10 to 100 µs for the I/O in between.

#[allow(dead_code, reason = "the tests of allocations use the rest")]
mod null_host;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use null_host::{Kind, MEMBERS, NullHost};
use raidcore::geometry::Level;
use raidcore::meta::Consistency;

const ROWS: [(&str, Level, Consistency); 4] = [
    ("raid5, journal", Level::Raid5, Consistency::Journal),
    ("raid5, bitmap", Level::Raid5, Consistency::Bitmap),
    ("raid6, journal", Level::Raid6, Consistency::Journal),
    ("raid6, bitmap", Level::Raid6, Consistency::Bitmap),
];

/// How many requests are under way together.
const DEPTHS: [u16; 2] = [1, 32];

/// Requests before the measurement: all regions are marked, the journal has gone round.
const WARM_UP: u32 = 20_000;

fn bench(c: &mut Criterion) {
    for (name, level, consistency) in ROWS {
        let mut group = c.benchmark_group(name);
        for depth in DEPTHS {
            group.throughput(Throughput::Elements(depth.into()));
            for (kind, what) in [
                (Kind::Read, "4 KiB read"),
                (Kind::Write, "4 KiB write"),
                (Kind::HotWrite, "4 KiB write in 1 MiB"),
                (Kind::StripeWrite, "stripe write"),
            ] {
                let mut host = NullHost::new(level, consistency);
                (0..WARM_UP).for_each(|_| host.run(kind, 1));
                group.bench_function(format!("{what}, depth {depth}"), |b| {
                    b.iter(|| host.run(kind, depth));
                });
            }
        }
        let mut host = NullHost::new(level, consistency);
        host.lose(0);
        group.throughput(Throughput::Elements(1));
        group.bench_function("4 KiB read, a member lost", |b| b.iter(|| host.run(Kind::Read, 1)));
        group.finish();
    }
}

/// Blocks of a member's staging log: 64 MiB.
const LOG: u64 = 1 << 14;

/// What a staging log costs requests that don't need it.
fn bench_log(c: &mut Criterion) {
    let mut group = c.benchmark_group("raid5, bitmap, 4 KiB read");
    let mut none = NullHost::new(Level::Raid5, Consistency::Bitmap);
    let mut empty = NullHost::with_log(Level::Raid5, Consistency::Bitmap, LOG);
    let mut half_full = NullHost::with_log(Level::Raid5, Consistency::Bitmap, LOG);
    half_full.fill_log();
    let hosts =
        [("no log", &mut none), ("empty log", &mut empty), ("half full log", &mut half_full)];
    for (name, host) in hosts {
        (0..WARM_UP).for_each(|_| host.run(Kind::Read, 1));
        group.bench_function(name, |b| b.iter(|| host.run(Kind::Read, 1)));
    }
    group.finish();
    let mut group = c.benchmark_group("raid5, bitmap, 4 KiB write");
    group.bench_function("no log", |b| b.iter(|| none.run(Kind::Write, 1)));
    group.bench_function("empty log", |b| b.iter(|| empty.run(Kind::Write, 1)));
    group.bench_function("staged and brought home", |b| b.iter(|| half_full.run(Kind::Write, 1)));
    let log = half_full.engine().staging_status().expect("there is a log");
    let most = u64::from(MEMBERS) * LOG / 2;
    println!("the table takes {} bytes for each block that can be staged", log.table_bytes / most);
    group.finish();
}

criterion_group!(benches, bench, bench_log);
criterion_main!(benches);

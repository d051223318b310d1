//! The cost of a plan: a request in one stripe of five members, planned into the same plan again
//! and again.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use raidcore::geometry::{Geometry, Level, Role};
use raidcore::plan::{self, Base, Health, Parity, Piece, Plan};
use raidcore::units::{Mem, Set, Tag};

const MEMBERS: usize = 5;
const CHUNK: u32 = 16;

/// A request from the stripe's first block on.
fn pieces(blocks: u32) -> Vec<Piece> {
    let piece = |at: u32| Piece {
        role: Role::at((at / CHUNK) as usize),
        row: 0,
        blocks: CHUNK.min(blocks - at),
        mem: Mem::Payload { tag: Tag(0), at },
    };
    (0..blocks).step_by(CHUNK as usize).map(piece).collect()
}

fn bench(c: &mut Criterion) {
    for (name, level) in [("plan raid5", Level::Raid5), ("plan raid6", Level::Raid6)] {
        let geo = Geometry::new(level, MEMBERS, CHUNK, 1000).expect("a possible shape");
        let mut plan = Plan::with_room_for(&geo);
        let all = Set::first(MEMBERS);
        let whole = Health { readable: all, writable: all, parity: Parity::InStep, bad: &[] };
        let degraded =
            Health { readable: all.without(Role(0)), writable: all.without(Role(0)), ..whole };
        let (small, full) = (pieces(1), pieces(geo.stripe_blocks()));
        let mut group = c.benchmark_group(name);
        for (what, health) in [("", whole), (", a member lost", degraded)] {
            group.bench_function(format!("4 KiB read{what}"), |b| {
                b.iter(|| {
                    let pieces = black_box(&small);
                    plan::read(&mut plan, &geo, black_box(&health), pieces, Base::Stored, 0)
                });
            });
            for (size, pieces) in [("4 KiB", &small), ("stripe", &full)] {
                group.bench_function(format!("{size} write{what}"), |b| {
                    b.iter(|| {
                        let pieces = black_box(pieces);
                        plan::write(&mut plan, &geo, black_box(&health), pieces, Base::Stored)
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);

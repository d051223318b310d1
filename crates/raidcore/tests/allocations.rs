//! Once its tables have been used, the engine allocates nothing for a request.
#![allow(unsafe_code)]

#[allow(dead_code, reason = "the benchmarks use the rest")]
#[path = "../benches/null_host/mod.rs"]
mod null_host;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use null_host::{Kind, NullHost};
use raidcore::geometry::Level;
use raidcore::meta::Consistency;

/// The system's allocator; counts for each thread how often it is asked.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: everything is left to the system's allocator. Counting allocates nothing: the counter
// needs neither construction nor destruction.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller promises what `System` asks for; the same below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: see above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: see above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often memory is allocated during `work`, by this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Requests at a time: the default number of tags.
const DEPTH: u16 = 128;

fn mix(host: &mut NullHost, rounds: u32) {
    for round in 0..rounds {
        for kind in [Kind::Read, Kind::Write, Kind::StripeWrite] {
            host.run(kind, 1);
            host.run(kind, DEPTH);
        }
        if round % 16 == 0 {
            host.run(Kind::Flush, 3);
        }
    }
}

fn never_allocates(level: Level, consistency: Consistency, lost: u32) {
    let mut host = NullHost::new(level, consistency);
    for device in 0..lost {
        host.lose(device);
    }
    mix(&mut host, 200);
    let before = host.engine().status().counters;
    assert_eq!(allocations(|| mix(&mut host, 400)), 0, "{level:?}, {consistency:?}, {lost} lost");

    // The counters show that the intended paths were taken.
    let after = host.engine().status().counters;
    let journaled = level != Level::Raid0 && consistency == Consistency::Journal;
    assert_eq!(after.journal_entries > before.journal_entries, journaled);
    assert_eq!(after.reconstructed_reads > before.reconstructed_reads, lost > 0);
    assert!(after.full_stripe_writes > before.full_stripe_writes);
}

#[test]
fn staging_and_reclaiming() {
    let mut host = NullHost::with_log(Level::Raid5, Consistency::Journal, 1 << 12);
    host.fill_log();
    mix(&mut host, 600);
    let before = host.engine().status().counters;
    // A list that is longer than ever before grows, but none is made for a request.
    let allocations = allocations(|| mix(&mut host, 200));
    assert!(allocations < 10, "{allocations} in 77,000 requests");
    let after = host.engine().status().counters;
    assert!(after.staged_writes > before.staged_writes);
    assert!(after.staged_reads > before.staged_reads);
    assert!(after.kept_reads > before.kept_reads);
    assert!(after.reclaimed_blocks > before.reclaimed_blocks);
}

#[test]
fn the_counter_counts() {
    let host = NullHost::new(Level::Raid5, Consistency::Journal);
    assert!(allocations(|| drop(black_box(host.engine().status()))) > 0);
}

#[test]
fn raid0() {
    never_allocates(Level::Raid0, Consistency::Resync, 0);
}

#[test]
fn raid5_with_a_journal() {
    never_allocates(Level::Raid5, Consistency::Journal, 0);
}

#[test]
fn raid5_with_a_bitmap() {
    never_allocates(Level::Raid5, Consistency::Bitmap, 0);
}

#[test]
fn raid5_degraded() {
    never_allocates(Level::Raid5, Consistency::Journal, 1);
}

#[test]
fn raid6_with_a_journal() {
    never_allocates(Level::Raid6, Consistency::Journal, 0);
}

#[test]
fn raid6_degraded() {
    never_allocates(Level::Raid6, Consistency::Journal, 1);
}

#[test]
fn raid6_without_two() {
    never_allocates(Level::Raid6, Consistency::Journal, 2);
}

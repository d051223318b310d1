//! Memory: sixteen bytes for each flash page at most, and nothing for a command once as many have
//! been under way before.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use det::Prng;
use flashsim::{Command, Op, Precondition, Profile, Ssd};

/// The system's allocator; counts for each thread how often it is asked, and for how much.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    CALLS.set(CALLS.get() + 1);
    BYTES.set(BYTES.get() + bytes as u64);
}

// SAFETY: everything is left to the system's allocator. Counting allocates nothing: the counters
// need neither construction nor destruction.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller promises what `System` asks for; the same below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
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

#[test]
fn a_flash_page_takes_sixteen_bytes_at_most() {
    for name in ["msr2008", "msr-siw", "msr-mcewan", "ssdsim-pdb", "femu-ioda"] {
        let profile = Profile::builtin(name).unwrap();
        let before = BYTES.get();
        let ssd = black_box(Ssd::new(&profile, Precondition::Fresh, 1).unwrap());
        let bytes = BYTES.get() - before;
        let g = ssd.geometry();
        let pages = u64::from(g.blocks()) * u64::from(g.pages_per_block);
        assert!(bytes <= 16 * pages, "{name}: {bytes} bytes for {pages} pages");
    }
}

#[test]
fn commands_allocate_nothing() {
    for name in ["msr2008", "sata-mlc", "femu-ioda"] {
        let profile = Profile::builtin(name).unwrap().with_blocks(128);
        let mut ssd = Ssd::new(&profile, Precondition::Aged(1.0), 1).unwrap();
        let (mut prng, mut ended) = (Prng::new(1), Vec::with_capacity(64));
        let mut run = |count: u64| {
            for tag in 0..count {
                while ssd.outstanding() >= 32 {
                    let now = ssd.next().unwrap();
                    ssd.poll(now, &mut ended);
                    ended.clear();
                }
                let page = prng.below(u64::from(ssd.geometry().logical_pages) - 4) as u32;
                let op = [Op::Read, Op::Write, Op::Write, Op::Trim][prng.below(4) as usize];
                ssd.submit(ssd.now(), Command { tag, op, page, pages: 4, stream: 0 }).unwrap();
            }
        };
        run(50_000);
        let before = CALLS.get();
        run(20_000);
        assert_eq!(CALLS.get() - before, 0, "{name}");
    }
}

//! The memory that the process uses, to check that a peer's input can't make it grow much.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The most bytes that were in use at a time beyond those in use when this was called.
pub(crate) fn growth<T>(during: impl FnOnce() -> T) -> (T, usize) {
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = during();
    (result, MOST.load(Relaxed).saturating_sub(before))
}

/// The system's allocator, counting bytes.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grew(bytes: usize) {
    MOST.fetch_max(USED.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn shrank(bytes: usize) {
    USED.fetch_sub(bytes, Relaxed);
}

// SAFETY: everything is left to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller promises what `System` asks for; the same below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: see above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        grew(bytes);
        shrank(layout.size());
        // SAFETY: see above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: see above.
        unsafe { System.dealloc(memory, layout) }
    }
}

//! What a machine without an operating system has: no `std`, but a heap and what is done about a panic.
//! Had a crate `std`, there would be two of the latter, and this would not build.

#![no_std]

extern crate raidlog;
extern crate steering;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr;

struct Full;

// SAFETY: it never gives any memory, so none is given back.
unsafe impl GlobalAlloc for Full {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Full = Full;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

//! A crate without `std`, with an allocator and a panic handler of its own. If a dependency used
//! `std`, there would be two panic handlers, and this would not build.

#![no_std]

extern crate raidlog;
extern crate steering;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr;

struct Full;

// SAFETY: it never returns memory, so none is given back.
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

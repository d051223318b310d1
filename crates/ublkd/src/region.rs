//! Mappings.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

/// Memory mapped from the kernel: zeroed, aligned to a page, populated when first touched, unmapped
/// when dropped. It only gives out pointers; its user decides which part may be touched when.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing else owns the region's address range, and it has no thread affinity.
unsafe impl Send for Region {}
// SAFETY: a shared region gives out only its address and its size.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1);
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// The address of byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.bytes, "byte {offset} of a region of {}", self.bytes);
        // SAFETY: the offset is inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and its users are gone with their owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

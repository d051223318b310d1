//! A queue's descriptors, in memory that the driver writes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::abi::{self, Descriptor};

/// The descriptors of one queue, by tag.
pub(super) struct Descriptors {
    base: *const [u8; Descriptor::BYTES],
    depth: u16,
    bytes: usize,
}

// SAFETY: the mapping is this value's alone, and belongs to no thread.
unsafe impl Send for Descriptors {}

impl Descriptors {
    /// The descriptors of the device's queue.
    pub(super) fn map(device: BorrowedFd<'_>, queue: u16, depth: u16) -> io::Result<Self> {
        let (offset, bytes) = abi::descriptors_at(queue, depth, rustix::param::page_size());
        // SAFETY: a new mapping at a free address replaces nothing.
        let base = unsafe {
            let wherever = ptr::null_mut();
            mmap(wherever, bytes, ProtFlags::READ, MapFlags::SHARED, device, offset)
        }?;
        Ok(Self { base: base.cast_const().cast(), depth, bytes })
    }

    /// The request of a tag that the driver has handed over.
    pub(super) fn get(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        // SAFETY: the place of a tag is inside the mapping, and bytes are always initialised. The
        // driver does not write it again before the tag is given back.
        let bytes = unsafe { self.base.add(tag.into()).read_volatile() };
        Descriptor::decode(&bytes)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it is ever handed out.
        let result = unsafe { munmap(self.base.cast_mut().cast(), self.bytes) };
        debug_assert!(result.is_ok());
    }
}

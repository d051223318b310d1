//! Eventfds of a VMM's.
//!
//! Invariant: whatever the VMM does with its side of one, telling it waits for nothing. A write would: a
//! VMM can fill the counter, and have writes wait for room at any time. So none is made. The eventfd is
//! registered with a ring, whose completions the kernel signals to it without waiting.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode};

/// What `/proc` says that an eventfd leads to. Paths of files begin with a slash.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// What is wrong with another file.
fn refused(name: &str) -> io::Error {
    io::Error::other(format!(
        "the VMM passes something for the {name} of a queue that is no eventfd"
    ))
}

/// Checks that a file is an eventfd: others could be waited for when they are only polled.
///
/// # Errors
/// If it is none.
pub(super) fn check(file: &File, name: &str) -> io::Result<()> {
    let of = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    if of.as_bytes() == EVENTFD { Ok(()) } else { Err(refused(name)) }
}

/// An eventfd that is told of something, if there is one.
#[derive(Default)]
pub(super) struct Event {
    /// Made for the first eventfd, and used for all.
    ring: Option<IoUring>,
    has_file: bool,
}

impl Event {
    /// From now on this eventfd is told, or none. The kernel keeps it.
    ///
    /// # Errors
    /// If it is no eventfd, or if the kernel refuses a ring.
    pub(super) fn set(&mut self, file: Option<&File>, name: &str) -> io::Result<()> {
        if let Some(ring) = self.ring.as_ref().filter(|_| self.has_file) {
            ring.submitter().unregister_eventfd()?;
            self.has_file = false;
        }
        let Some(file) = file else { return Ok(()) };
        let ring = match self.ring.take() {
            Some(ring) => ring,
            None => IoUring::new(1)?,
        };
        let registered = self.ring.insert(ring).submitter().register_eventfd(file.as_raw_fd());
        registered.map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EBADF) => refused(name),
            _ => error,
        })?;
        self.has_file = true;
        Ok(())
    }

    /// Signals it. False if the kernel has no memory for that now.
    pub(super) fn tell(&mut self) -> bool {
        let Some(ring) = self.ring.as_mut().filter(|_| self.has_file) else { return true };
        let nothing = opcode::Nop::new().build();
        // SAFETY: it names no memory. If there is no room, one is there that was not submitted.
        unsafe { ring.submission().push(&nothing) }.ok();
        let is_told = ring.submit().is_ok();
        ring.completion().for_each(drop);
        is_told
    }
}

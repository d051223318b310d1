//! Wakes the data thread.
//!
//! Invariant: the bell is rung only while the thread says that it parks, and after its work was
//! queued. The thread looks for work once more after saying so.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes a thread that may be parked in its ring. It makes a system call only if the thread is
/// parked.
pub(crate) struct Bell {
    parked: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    /// A bell that no thread waits for yet.
    ///
    /// # Errors
    /// If the kernel refuses an eventfd.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        Ok(Self { parked: AtomicBool::new(false), event: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Wakes the thread if it is parked. Its work must have been queued before.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::SeqCst) {
            let one = 1u64.to_ne_bytes();
            // SAFETY: writes 8 bytes from a live array. The counter can't overflow, since the bell
            // rings once per park.
            unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Says that the thread is about to sleep; false if `has_work` finds work, and it must not.
    pub(crate) fn park(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let sleep = !has_work();
        if !sleep {
            self.unpark();
        }
        sleep
    }

    /// Says that the thread is awake.
    pub(crate) fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// The eventfd: its 8-byte counter becomes readable when the bell is rung.
    pub(crate) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// The same, for who waits for several things.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Sleeps until the bell is rung.
    pub(crate) fn listen(&self) {
        let mut count = [0u8; 8];
        // SAFETY: reads 8 bytes into a live array.
        unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

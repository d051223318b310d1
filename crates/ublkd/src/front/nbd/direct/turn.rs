//! What the volume's thread and a client's task tell each other.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::net::{Shutdown, shutdown};

use crate::volume::Bell;

/// What the server waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Way {
    /// The rest of a request.
    In,
    /// The client's taking of a reply.
    Out,
}

/// See the [module](self).
pub(in super::super) struct Turn {
    /// Odd while the client makes the server wait, by [`Way`].
    numbers: [AtomicU64; 2],
    cut: AtomicBool,
    called: AtomicBool,
    /// Wakes the thread for this client.
    bell: Bell,
}

impl Turn {
    /// # Errors
    /// If the kernel refuses an eventfd.
    pub(in super::super) fn new() -> io::Result<Self> {
        Ok(Self {
            numbers: Default::default(),
            cut: AtomicBool::new(false),
            called: AtomicBool::new(false),
            bell: Bell::new()?,
        })
    }

    /// For as long as this number stays, the client makes the server wait for one thing.
    pub(in super::super) fn waiting(&self, way: Way) -> Option<u64> {
        let turn = self.numbers[way as usize].load(Ordering::Relaxed);
        (turn % 2 == 1).then_some(turn)
    }

    pub(super) fn set(&self, way: Way, waits: bool) {
        let number = &self.numbers[way as usize];
        let turn = number.load(Ordering::Relaxed);
        if (turn % 2 == 1) != waits {
            // Only the volume's thread changes it.
            number.store(turn + 1, Ordering::Relaxed);
        }
    }

    /// Cuts the connection. The thread looks before it gives the volume a request. What it has given
    /// before comes before whatever another connection of the client asks for, which takes the same
    /// thread.
    pub(in super::super) fn cut(&self, socket: BorrowedFd<'_>) {
        self.cut.store(true, Ordering::SeqCst);
        // The client may be gone already.
        shutdown(socket, Shutdown::Both).ok();
        self.bell.ring();
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Calls the client back to its task.
    pub(in super::super) fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    pub(super) fn is_called(&self) -> bool {
        self.called.load(Ordering::SeqCst)
    }

    /// From now on the bell can be read once this is called or cut. It may be already.
    pub(super) fn listen(&self) {
        self.bell.park(|| false);
    }

    /// The file of the bell.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.file()
    }
}

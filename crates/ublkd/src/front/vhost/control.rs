//! What others tell a session.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{Shutdown, shutdown};

use super::jobs::Mailbox;

/// See the [module](self).
pub(super) struct Control {
    stop: AtomicBool,
    cut: AtomicBool,
    mailbox: Arc<Mailbox>,
    /// Its connection.
    stream: OwnedFd,
}

impl Control {
    /// The control of a session that is to serve a connection.
    ///
    /// # Errors
    /// If the kernel gives no descriptors.
    pub(super) fn new(stream: &impl AsFd) -> io::Result<Arc<Self>> {
        let (stop, cut) = (AtomicBool::new(false), AtomicBool::new(false));
        let stream = stream.as_fd().try_clone_to_owned()?;
        Ok(Arc::new(Self { stop, cut, mailbox: Mailbox::new()?, stream }))
    }

    /// Where answers come.
    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// It is to see whether the disk has grown.
    pub(super) fn look(&self) {
        self.mailbox.bell().ring();
    }

    /// It is to end when what it has taken up is answered.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.mailbox.bell().ring();
    }

    /// It is to end now. Its thread may be within `vhost`, which waits for the rest of a message
    /// that has more descriptors than it takes: the end of the connection ends that.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        // The VMM may have closed it.
        shutdown(&self.stream, Shutdown::Both).ok();
        self.mailbox.bell().ring();
    }

    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

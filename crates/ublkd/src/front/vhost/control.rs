//! What others tell a session.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{Shutdown, shutdown};

use super::events::Events;
use super::jobs::Mailbox;
use crate::volume::Bell;

/// See the [module](self).
pub(super) struct Control {
    stop: AtomicBool,
    cut: AtomicBool,
    /// Whether the volume's thread serves the device no more, without having been asked.
    returned: AtomicBool,
    /// Wakes the session's thread for all of these.
    bell: Bell,
    events: Arc<Events>,
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
        let no = || AtomicBool::new(false);
        let (stop, cut, returned, bell) = (no(), no(), no(), Bell::new()?);
        let events = Arc::new(Events::new()?);
        let mailbox = Mailbox::new(Arc::clone(&events))?;
        let stream = stream.as_fd().try_clone_to_owned()?;
        Ok(Arc::new(Self { stop, cut, returned, bell, events, mailbox, stream }))
    }

    /// Where answers come.
    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// What happens to the device.
    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// What wakes the session's thread.
    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// It is to see whether the disk has grown.
    pub(super) fn look(&self) {
        self.bell.ring();
    }

    /// It is to end when what it has taken up is answered.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// It is to end now. Its thread may be within `vhost`, which waits for the rest of a message
    /// that has more descriptors than it takes: the end of the connection ends that. Or it waits for
    /// the volume.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        // The VMM may have closed it.
        shutdown(&self.stream, Shutdown::Both).ok();
        self.bell.ring();
        self.mailbox.bell().ring();
    }

    /// It is to serve the device by itself from now on.
    pub(super) fn return_device(&self) {
        self.returned.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    pub(super) fn is_returned(&self) -> bool {
        self.returned.load(Ordering::SeqCst)
    }
}

//! What happens to a device: its guest kicks, or it is to be looked at.
//!
//! Invariants:
//! - Looking for events waits for nothing, and needs nothing of the device: whichever thread hears of a
//!   kick keeps it for the one that serves queues next.
//! - A nudge is heard by a thread that has said that it listens before it looked at the device.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use rustix::event::{Timespec, epoll};

use super::config::QUEUES_MAX;
use super::event;
use crate::volume::Bell;

const _: () = assert!(QUEUES_MAX as u32 == u64::BITS, "a bit for each queue");

/// The number of a nudge; the others are queues.
const NUDGE: u64 = QUEUES_MAX as u64;

/// One for each number: so many can there be.
const MOST: usize = NUDGE as usize + 1;

/// See the [module](self).
pub(super) struct Events {
    epoll: OwnedFd,
    /// By queue.
    kicked: AtomicU64,
    nudge: Bell,
    /// Whether the volume's thread wants to look at the device, and could not yet.
    missed: AtomicBool,
}

impl Events {
    /// # Errors
    /// If the kernel gives no descriptors.
    pub(super) fn new() -> io::Result<Self> {
        let (epoll, nudge) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, Bell::new()?);
        let events =
            Self { epoll, nudge, kicked: AtomicU64::new(0), missed: AtomicBool::new(false) };
        events.hear_of(events.nudge.file(), NUDGE)?;
        Ok(events)
    }

    fn hear_of(&self, file: impl AsFd, number: u64) -> io::Result<()> {
        // On edges: it need not be read, which could wait.
        let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, file, epoll::EventData::new_u64(number), events)?)
    }

    /// Hears of a queue's kicks from now on.
    ///
    /// # Errors
    /// If it is no eventfd, or the kernel refuses it.
    pub(super) fn add(&self, queue: u16, kick: &File) -> io::Result<()> {
        event::check(kick, "kick")?;
        self.hear_of(kick, queue.into())
    }

    /// Hears no more of a queue's kicks.
    pub(super) fn remove(&self, kick: &File) {
        // It would stay, as the VMM has it open, too. It is not there if it could not be added.
        epoll::delete(&self.epoll, kick).ok();
    }

    /// Can be read when something has happened.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Nudges are heard from now on, until there is one.
    pub(super) fn listen(&self) {
        self.nudge.park(|| false);
    }

    /// The device is to be looked at.
    pub(super) fn nudge(&self) {
        self.nudge.ring();
    }

    /// Takes note of the kicks that there have been. A guest can kick without an end: what comes
    /// meanwhile is left for the next call, and the file can be read again.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn hear(&self) -> io::Result<()> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut space = [const { MaybeUninit::uninit() }; MOST];
        let (heard, _) = epoll::wait(&self.epoll, &mut space, Some(&at_once))?;
        let numbers = heard.iter().map(|event| event.data.u64());
        let kicked =
            numbers.filter(|&number| number < NUDGE).fold(0, |all, queue| all | 1 << queue);
        self.kicked.fetch_or(kicked, Ordering::SeqCst);
        Ok(())
    }

    /// The queues that were kicked since the last call.
    pub(super) fn take(&self) -> impl Iterator<Item = usize> + use<> {
        let mut kicked = self.kicked.swap(0, Ordering::SeqCst);
        std::iter::from_fn(move || {
            let queue = kicked.trailing_zeros();
            kicked &= kicked.checked_sub(1)?;
            Some(queue as usize)
        })
    }

    /// Whether a queue was kicked since the last [`Events::take`].
    pub(super) fn has_kicks(&self) -> bool {
        self.kicked.load(Ordering::SeqCst) != 0
    }

    /// The volume's thread is about to try to look at the device.
    pub(super) fn tries(&self) {
        self.missed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// It can look.
    pub(super) fn looks(&self) {
        self.missed.store(false, Ordering::Relaxed);
    }

    /// The session has let go of the device: the volume's thread is told, if it could not look meanwhile.
    pub(super) fn let_go(&self) {
        fence(Ordering::SeqCst);
        if self.missed.load(Ordering::Relaxed) && self.missed.swap(false, Ordering::SeqCst) {
            self.nudge();
        }
    }
}

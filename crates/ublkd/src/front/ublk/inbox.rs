//! What the volume has done, on its way to a queue's thread.
//!
//! Invariants:
//! - The bell is rung only while the thread is parked or about to, and the thread parks only when
//!   nothing is there; both are decided under one lock, so nothing is overlooked.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use raidcore::engine::RequestError;
use rustix::event::{EventfdFlags, eventfd};

use crate::volume::{Buffer, Port};

/// A request that has ended.
pub(super) struct Done {
    pub(super) tag: u16,
    pub(super) buffer: Buffer,
    pub(super) result: Result<(), RequestError>,
}

/// See the [module](self).
pub(super) struct Inbox {
    bell: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: Vec<Done>,
    parked: bool,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            state: Mutex::default(),
        })
    }

    /// Is written when a parked thread has something to do. Never read: each write wakes a poll that
    /// goes on.
    pub(super) fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Exchanges what has ended for `taken`, which is empty.
    pub(super) fn take(&self, taken: &mut Vec<Done>) {
        std::mem::swap(&mut self.state().done, taken);
    }

    /// Says that the thread sleeps until the bell is rung; false, and it must not, if something is
    /// there.
    pub(super) fn park(&self) -> bool {
        let mut state = self.state();
        state.parked = state.done.is_empty();
        state.parked
    }

    /// Says that the thread is awake.
    pub(super) fn unpark(&self) {
        self.state().parked = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Inbox {
    fn completed(&self, cookie: u64, buffer: Buffer, result: Result<(), RequestError>) {
        // The queue's own tags, which are 16 bits.
        let tag = cookie as u16;
        let mut state = self.state();
        state.done.push(Done { tag, buffer, result });
        if std::mem::take(&mut state.parked) {
            drop(state);
            // It can't fail: the counter is far from full.
            rustix::io::write(&self.bell, &1u64.to_ne_bytes()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{Volume, VolumeConfig};

    fn rings(inbox: &Inbox) -> bool {
        rustix::io::read(&inbox.bell, &mut [0; 8]).is_ok()
    }

    #[test]
    fn the_bell_rings_once_for_who_sleeps() {
        let (volume, _submissions) = Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 8,
            chunk_blocks: 1,
            stripe_blocks: 1,
            max_request_blocks: 1,
            tags: 3,
        });
        let inbox = Inbox::new().expect("an eventfd");
        let tell = |tag| inbox.completed(tag, volume.buffer_blocking(), Ok(()));
        tell(0);
        assert!(!rings(&inbox), "nobody sleeps");
        assert!(!inbox.park(), "something is there");
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert!(inbox.park());
        tell(1);
        tell(2);
        assert!(rings(&inbox));
        assert!(!rings(&inbox), "once");
        inbox.unpark();
        taken.clear();
        inbox.take(&mut taken);
        assert_eq!(taken.iter().map(|done| done.tag).collect::<Vec<_>>(), [1, 2]);
    }
}

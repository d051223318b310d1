//! What has come home is flushed there, after which its entries may be void.

use super::{Entry, Staging};

/// How many entries are looked at for that.
const LOOK: usize = 64;

impl Staging {
    /// Whether something has come home that is there for good only after a flush.
    pub(in crate::engine) fn waits_for_flush(&self) -> bool {
        let waits =
            |entry: &Entry| entry.done && entry.dirty == 0 && entry.home > self.durable_homes;
        !self.flushing && self.entries.iter().take(LOOK).any(waits)
    }

    /// Whether a flush is to begin for that.
    pub(in crate::engine) fn begins_flush(&mut self) -> bool {
        let begins = self.waits_for_flush();
        self.flushing |= begins;
        begins
    }

    /// How many homecomings a flush that begins now makes durable.
    pub(in crate::engine) fn mark(&self) -> u64 {
        self.homes
    }

    /// A flush has ended that began at a mark.
    pub(in crate::engine) fn flushed(&mut self, mark: u64, good: bool) {
        self.flushing = false;
        if good {
            self.durable_homes = self.durable_homes.max(mark);
        }
    }
}

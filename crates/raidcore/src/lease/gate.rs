//! Until when a holder may act, for the data path.

use core::sync::atomic::{AtomicU64, Ordering};

use det::Instant;

/// Open until a time. The data path asks it before it submits and before it answers; to ask takes a load of
/// a number.
#[derive(Debug, Default)]
pub struct Gate {
    until: AtomicU64,
}

impl Gate {
    /// Opens it until a time; it is never opened again once that has passed.
    pub fn open(&self, until: Instant) {
        self.until.store(until.0, Ordering::Release);
    }

    /// Closes it.
    pub fn close(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Whether a write may be submitted to a member.
    #[must_use]
    pub fn lets_submit(&self, now: Instant) -> bool {
        self.is_open(now)
    }

    /// Whether a request may be answered as done.
    #[must_use]
    pub fn lets_answer(&self, now: Instant) -> bool {
        self.is_open(now)
    }

    fn is_open(&self, now: Instant) -> bool {
        now.0 < self.until.load(Ordering::Acquire)
    }
}

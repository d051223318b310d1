//! When the array comes to rest: now and then for a moment, and for good when it stops.

use core::time::Duration;

use det::Instant;

/// How far coming to rest has come.
#[derive(Debug)]
pub(super) struct Quiesce {
    /// When the next flush is due.
    at: Option<Instant>,
    /// The flush after which what rests is settled.
    flush: Option<u64>,
    /// How far a stop has come.
    stopping: Stopping,
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopping {
    Draining,
    Flushing(u64),
    Storing,
}

impl Quiesce {
    pub(super) fn new() -> Self {
        Self { at: None, flush: None, stopping: Stopping::Draining }
    }

    /// When there will be something to settle.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at.filter(|_| self.flush.is_none())
    }

    /// Whether the next flush is due later.
    #[inline]
    pub(super) fn waits(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| at > now)
    }

    /// Whether nothing would come of asking whether a flush is due, or over, unless a flush has ended.
    #[inline]
    pub(super) fn is_still(&self, wanted: bool, now: Instant) -> bool {
        self.flush.is_some() || self.at.map_or(!wanted, |at| at > now)
    }

    /// Whether a flush is to begin, as something has waited for it for so long. If something wants one
    /// that did not before, it is due after `delay`.
    pub(super) fn is_due(&mut self, wanted: bool, now: Instant, delay: Duration) -> bool {
        match self.at {
            None if wanted => self.at = Some(now + delay),
            Some(at) if at <= now => {
                self.at = None;
                return wanted;
            }
            Some(_) | None => {}
        }
        false
    }

    /// The flush has begun after which what rests is settled.
    pub(super) fn begin(&mut self, flush: u64) {
        self.flush = Some(flush);
    }

    /// The flush that is under way for this.
    pub(super) fn flush(&self) -> Option<u64> {
        self.flush
    }

    /// That flush is over.
    pub(super) fn end(&mut self) {
        self.flush = None;
    }

    /// How far a stop has come.
    pub(super) fn stopping(&self) -> Stopping {
        self.stopping
    }

    /// A stop has come this far.
    pub(super) fn stop(&mut self, stopping: Stopping) {
        self.stopping = stopping;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(5);

    #[test]
    fn a_flush_is_due_some_time_after_something_wants_it() {
        let (mut quiesce, now) = (Quiesce::new(), Instant::ORIGIN);
        assert!(!quiesce.is_due(false, now, DELAY));
        assert_eq!(quiesce.deadline(), None);
        assert!(!quiesce.is_due(true, now, DELAY));
        assert!(!quiesce.is_due(true, now + DELAY / 2, DELAY));
        assert_eq!(quiesce.deadline(), Some(now + DELAY));
        assert!(quiesce.is_due(true, now + DELAY, DELAY));
    }

    #[test]
    fn what_is_settled_otherwise_needs_no_flush() {
        let (mut quiesce, now) = (Quiesce::new(), Instant::ORIGIN);
        quiesce.is_due(true, now, DELAY);
        assert!(!quiesce.is_due(false, now + DELAY, DELAY));
        assert_eq!(quiesce.deadline(), None);
    }

    #[test]
    fn nothing_is_due_while_a_flush_is_under_way() {
        let mut quiesce = Quiesce::new();
        quiesce.is_due(true, Instant::ORIGIN, DELAY);
        quiesce.begin(7);
        assert_eq!((quiesce.deadline(), quiesce.flush()), (None, Some(7)));
        quiesce.end();
        assert_eq!(quiesce.deadline(), Some(Instant::ORIGIN + DELAY));
    }
}

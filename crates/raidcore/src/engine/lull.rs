//! When users are calm enough for what is staged to come home: once they have wanted nothing for as
//! long as the policy says. What comes home in the moment between two requests of a burst is in the
//! way of the next, on members that have enough to do.

use core::time::Duration;

use det::Instant;

/// For how long users have wanted nothing.
#[derive(Debug, Default)]
pub(super) struct Lull {
    /// Since when; `None` while they want something.
    since: Option<Instant>,
}

impl Lull {
    /// Takes note of whether users want something now.
    pub(super) fn look(&mut self, now: Instant, calm: bool) {
        self.since = calm.then(|| self.since.unwrap_or(now));
    }

    /// Whether they wanted nothing when that was looked at.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// From when on what is staged comes home: after a lull of `length` if the log is empty, and the sooner, the
    /// more of it is in use; at once from half of it on. `None` while users want something.
    pub(super) fn ends(&self, length: Duration, (used, len): (u64, u64)) -> Option<Instant> {
        let room = len.saturating_sub(2 * used) as f64 / len.max(1) as f64;
        Some(self.since? + length.mul_f64(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_nanos(100);

    #[test]
    fn a_lull_begins_when_the_last_request_has_ended() {
        let mut lull = Lull::default();
        assert_eq!(lull.ends(LENGTH, (0, 8)), None, "nobody has looked yet");
        lull.look(Instant(10), true);
        lull.look(Instant(30), true);
        assert_eq!(lull.ends(LENGTH, (0, 8)), Some(Instant(110)));
        lull.look(Instant(40), false);
        assert_eq!(lull.ends(LENGTH, (0, 8)), None);
        lull.look(Instant(50), true);
        assert_eq!(lull.ends(LENGTH, (0, 8)), Some(Instant(150)));
    }

    #[test]
    fn the_fuller_the_log_the_shorter_the_lull() {
        let mut lull = Lull::default();
        lull.look(Instant(0), true);
        let ends = [0, 1, 2, 4, 8].map(|used| lull.ends(LENGTH, (used, 8)));
        assert_eq!(ends, [100, 75, 50, 0, 0].map(|at| Some(Instant(at))));
        assert_eq!(lull.ends(LENGTH, (0, 0)), Some(Instant(0)), "there is no log");
    }
}

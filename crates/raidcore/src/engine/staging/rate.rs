//! How fast what is staged comes home.

use core::time::Duration;

use det::Instant;

/// When blocks were on their way for longer than this in all, what was so far counts half.
const MEMORY: Duration = Duration::from_secs(30);

/// Blocks that have come home, and the time in which some were on their way.
#[derive(Debug, Default)]
pub(in crate::engine) struct HomeRate {
    blocks: u64,
    took: Duration,
    /// Since when some are on their way, or when the last of them came home.
    since: Option<Instant>,
}

impl HomeRate {
    /// Blocks are on their way home.
    pub(in crate::engine) fn begin(&mut self, now: Instant) {
        self.since = self.since.or(Some(now));
    }

    /// So many blocks have come home; `more` is whether others are on their way.
    pub(in crate::engine) fn came(&mut self, now: Instant, blocks: u64, more: bool) {
        self.blocks += blocks;
        self.took += self.since.map_or(Duration::ZERO, |since| now - since);
        self.since = more.then_some(now);
        if self.took > MEMORY {
            (self.blocks, self.took) = (self.blocks.div_ceil(2), self.took / 2);
        }
    }

    /// How long so many blocks take, if any have come home yet.
    pub(in crate::engine) fn time_for(&self, blocks: u64) -> Option<Duration> {
        (self.blocks > 0).then(|| self.took.mul_f64(blocks as f64 / self.blocks as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_nothing_comes_home_does_not_count() {
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        let mut rate = HomeRate::default();
        assert_eq!(rate.time_for(8), None);
        rate.begin(at(1000));
        rate.begin(at(1010));
        rate.came(at(1020), 4, true);
        rate.came(at(1040), 4, false);
        rate.begin(at(60_000));
        rate.came(at(60_040), 8, false);
        assert_eq!(rate.time_for(160), Some(Duration::from_millis(800)));
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let mut rate = HomeRate::default();
        let mut now = Instant::ORIGIN;
        for (each, blocks) in [(100, 1000), (1, 40_000)] {
            for _ in 0..blocks {
                rate.begin(now);
                now = now + Duration::from_millis(each);
                rate.came(now, 1, false);
            }
        }
        let took = rate.time_for(1000).expect("some have come home");
        assert!(took < Duration::from_secs(10), "{took:?}: a second of late, long ago 100");
    }
}

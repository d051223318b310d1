//! How often users ask for which part of an array, so that a rebuild can begin where they do most.
//!
//! It is the RPT of PDB (popular data backup): the paper counts reads in regions of 64 pages, and keeps the
//! 1024 most popular in NVRAM. Here all of the array is 1024 ranges at most, so nothing has to leave the
//! table, and it takes 4 KiB whatever the array's size. Counts are halved now and then: what was popular
//! once is forgotten. They are kept over a stop.

use alloc::vec;
use alloc::vec::Vec;

use crate::meta::Ranges;
use crate::units::Stripe;

/// When all counts add up to this, they are halved.
const REQUESTS: u32 = 1 << 22;

/// Requests of each of an array's [`Ranges`].
#[derive(Debug)]
pub(super) struct Heat {
    ranges: Ranges,
    counts: Vec<u32>,
    /// What the counts add up to.
    sum: u32,
    /// Whether users have asked for anything since the start.
    changed: bool,
}

impl Heat {
    /// Of so many stripes, as it was at the last stop, if that is known.
    pub(super) fn new(stripes: u64, kept: &[u32]) -> Self {
        let ranges = Ranges::none(stripes);
        let mut counts = vec![0; ranges.count() as usize];
        let sum: u64 = kept.iter().map(|&count| u64::from(count)).sum();
        // The least power of two that brings the sum below the limit.
        let shift = (sum / u64::from(REQUESTS) + 1).next_power_of_two().ilog2();
        counts.iter_mut().zip(kept).for_each(|(count, kept)| *count = kept >> shift);
        Self { ranges, sum: counts.iter().sum(), counts, changed: false }
    }

    /// A user asks for something in a stripe.
    #[inline]
    pub(super) fn note(&mut self, stripe: Stripe) {
        self.counts[self.ranges.of(stripe) as usize] += 1;
        self.sum += 1;
        self.changed = true;
        if self.sum >= REQUESTS {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.sum = self.counts.iter().sum();
        }
    }

    /// The count of each range.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Whether users have asked for anything since the start.
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// How few ranges have half of all requests, and how many there are; none without requests.
    pub(super) fn half_in(&self) -> Option<(u64, u64)> {
        let mut counts = self.counts.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = self.sum.div_ceil(2);
        let few = counts.iter().take_while(|&&count| {
            let wanted = left > 0;
            left = left.saturating_sub(count);
            wanted
        });
        let few = few.count() as u64;
        (few > 0).then(|| (few, self.ranges.count()))
    }

    /// The range that users ask for most, of those that are none of these; of equals the first.
    pub(super) fn hottest(&self, gone: &Ranges) -> Option<u64> {
        let left = (0..gone.count()).filter(|&range| !gone.has(range)).rev();
        // The maps may be for more stripes than there are, and have larger ranges.
        let stripe = |range| Stripe(gone.stripes(range).0);
        left.max_by_key(|&range| self.counts[self.ranges.of(stripe(range)) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_by_how_often_they_are_asked_for() {
        let mut heat = Heat::new(4096, &[]);
        for (stripe, times) in [(4000, 2), (9, 3), (11, 1), (20, 2)] {
            (0..times).for_each(|_| heat.note(Stripe(stripe)));
        }
        let kept = Heat::new(4096, heat.counts());
        assert!(heat.has_changed() && !kept.has_changed());
        for heat in [heat, kept] {
            let mut gone = Ranges::none(4096);
            let order = core::iter::from_fn(|| {
                let range = heat.hottest(&gone)?;
                gone.add(range);
                Some(range)
            });
            assert!(order.take(5).eq([2, 5, 1000, 0, 1]));
            assert_eq!(heat.half_in(), Some((1, 1024)));
        }
    }

    #[test]
    fn ranges_of_fewer_stripes_than_the_maps_have_are_found() {
        let mut heat = Heat::new(2201, &[]);
        heat.note(Stripe(1999));
        // Two of these are in one of its own; of equals the first comes.
        assert_eq!(heat.hottest(&Ranges::none(2000)), Some(998));
        heat.note(Stripe(2200));
        heat.note(Stripe(2200));
        assert_eq!(heat.hottest(&Ranges::none(2000)), Some(998), "that is no stripe");
    }

    #[test]
    fn what_was_popular_once_is_forgotten() {
        let mut heat = Heat::new(2, &[]);
        (0..REQUESTS / 2).for_each(|_| heat.note(Stripe(0)));
        (0..REQUESTS).for_each(|_| heat.note(Stripe(1)));
        assert_eq!(heat.hottest(&Ranges::none(2)), Some(1));
        (0..REQUESTS).for_each(|_| heat.note(Stripe(0)));
        assert_eq!(heat.hottest(&Ranges::none(2)), Some(0));
    }

    #[test]
    fn what_half_of_the_requests_go_to_is_told() {
        assert_eq!(Heat::new(4, &[]).half_in(), None);
        for (counts, few) in [([5, 5, 5, 5], 2), ([1, 9, 0, 0], 1), ([3, 3, 4, 0], 2)] {
            assert_eq!(Heat::new(4, &counts).half_in(), Some((few, 4)));
        }
    }

    #[test]
    fn counts_that_are_too_large_keep_their_proportion() {
        let heat = Heat::new(3, &[u32::MAX, u32::MAX / 2, 0]);
        assert!(heat.sum < REQUESTS && heat.counts()[0] / 2 == heat.counts()[1]);
        assert_eq!(Heat::new(3, &[9, 8, 7, 6]).counts(), [9, 8, 7]);
        assert_eq!(Heat::new(1, &[REQUESTS]).counts(), [REQUESTS / 2]);
    }
}

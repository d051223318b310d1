//! How often users ask for which part of an array, so that a rebuild can begin where they do most.
//!
//! It is the RPT of PDB (popular data backup): the paper counts reads in regions of 64 pages, and keeps the
//! 1024 most popular in NVRAM. Here all of the array is 1024 ranges at most, so nothing has to leave the
//! table, and it takes 4 KiB whatever the array's size. Counts are halved now and then: what was popular
//! once is forgotten.

use alloc::vec;
use alloc::vec::Vec;

use crate::meta::Ranges;
use crate::units::Stripe;

/// After so many requests counts are halved.
const REQUESTS: u32 = 1 << 18;

/// Requests of each of an array's [`Ranges`].
#[derive(Debug)]
pub(super) struct Heat {
    ranges: Ranges,
    counts: Vec<u32>,
    requests: u32,
}

impl Heat {
    /// Nothing was asked for yet, of so many stripes.
    pub(super) fn new(stripes: u64) -> Self {
        let ranges = Ranges::none(stripes);
        Self { ranges, counts: vec![0; ranges.count() as usize], requests: 0 }
    }

    /// A user asks for something in a stripe.
    #[inline]
    pub(super) fn note(&mut self, stripe: Stripe) {
        self.counts[self.ranges.of(stripe) as usize] += 1;
        self.requests += 1;
        if self.requests >= REQUESTS {
            self.requests = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// The range that users ask for most, of those that are none of these; of equals the first.
    pub(super) fn hottest(&self, gone: &Ranges) -> Option<u64> {
        let left = (0..gone.count()).filter(|&range| !gone.has(range)).rev();
        left.max_by_key(|&range| self.counts[range as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_by_how_often_they_are_asked_for() {
        let mut heat = Heat::new(4096);
        for (stripe, times) in [(4000, 2), (9, 3), (11, 1), (20, 2)] {
            (0..times).for_each(|_| heat.note(Stripe(stripe)));
        }
        let mut gone = Ranges::none(4096);
        let order = core::iter::from_fn(|| {
            let range = heat.hottest(&gone)?;
            gone.add(range);
            Some(range)
        });
        assert!(order.take(5).eq([2, 5, 1000, 0, 1]));
    }

    #[test]
    fn what_was_popular_once_is_forgotten() {
        let mut heat = Heat::new(2);
        (0..REQUESTS / 2).for_each(|_| heat.note(Stripe(0)));
        (0..REQUESTS).for_each(|_| heat.note(Stripe(1)));
        assert_eq!(heat.hottest(&Ranges::none(2)), Some(1));
        (0..REQUESTS).for_each(|_| heat.note(Stripe(0)));
        assert_eq!(heat.hottest(&Ranges::none(2)), Some(0));
    }
}

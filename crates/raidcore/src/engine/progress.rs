//! How far a pass has come.

use alloc::collections::VecDeque;

use crate::meta::Ranges;

/// Which stripes are done, in whatever order: a bit for each between the first that is not and the last
/// that is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// All stripes before 64 times this are done.
    words: u64,
    /// The bits of those after it; the first word has one that is not.
    ahead: VecDeque<u64>,
    /// How many stripes are done.
    count: u64,
}

impl From<u64> for Progress {
    /// All below `base`, nothing after it.
    fn from(base: u64) -> Self {
        let mut progress = Self { words: base / 64, ahead: VecDeque::new(), count: base / 64 * 64 };
        progress.add_all(progress.count, base);
        progress
    }
}

impl Progress {
    /// All below `base`, and these ranges.
    pub(super) fn recorded(base: u64, ranges: Option<Ranges>) -> Self {
        let mut progress = Self::from(base);
        if let Some(ranges) = ranges {
            for (from, to) in ranges.iter().map(|range| ranges.stripes(range)) {
                progress.add_all(from, to);
            }
        }
        progress
    }

    /// The first stripe that is not done.
    pub(super) fn base(&self) -> u64 {
        let ahead = self.ahead.front().map_or(0, |word| word.trailing_ones());
        64 * self.words + u64::from(ahead)
    }

    /// How many stripes are done.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether a stripe is done.
    #[inline]
    pub(super) fn has(&self, stripe: u64) -> bool {
        self.word(stripe / 64) >> (stripe % 64) & 1 != 0
    }

    /// The bits of 64 stripes.
    #[inline]
    fn word(&self, word: u64) -> u64 {
        let Some(ahead) = word.checked_sub(self.words) else { return u64::MAX };
        self.ahead.get(ahead as usize).copied().unwrap_or(0)
    }

    /// The first stripe that is not done, from this one on and before that one, or that one.
    pub(super) fn next_open(&self, from: u64, to: u64) -> u64 {
        let mut at = from;
        while at < to {
            let done = (self.word(at / 64) >> (at % 64)).trailing_ones();
            at += u64::from(done);
            if done == 0 || !at.is_multiple_of(64) {
                break;
            }
        }
        at.min(to)
    }

    /// A stripe is done, perhaps once more.
    pub(super) fn add(&mut self, stripe: u64) {
        self.add_all(stripe, stripe + 1);
    }

    /// The stripes from one to before another are done. Returns how many were not.
    pub(super) fn add_all(&mut self, from: u64, to: u64) -> u64 {
        let before = self.count;
        let mut at = from.max(64 * self.words);
        while at < to {
            let (word, bit) = (at / 64, at % 64);
            let bits = (to - at).min(64 - bit);
            let index = (word - self.words) as usize;
            if self.ahead.len() <= index {
                self.ahead.resize(index + 1, 0);
            }
            let mask = u64::MAX >> (64 - bits) << bit;
            self.count += u64::from((mask & !self.ahead[index]).count_ones());
            self.ahead[index] |= mask;
            at += bits;
        }
        while self.ahead.front() == Some(&u64::MAX) {
            self.ahead.pop_front();
            self.words += 1;
        }
        self.count - before
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use det::Prng;

    use super::*;

    #[test]
    fn stripes_that_are_done_in_any_order_are_known() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let total = 1 + prng.below(400);
            let base = prng.below(total);
            let mut progress = Progress::from(base);
            let mut done: Vec<bool> = (0..total).map(|stripe| stripe < base).collect();
            while progress.base() < total {
                let from = prng.below(total);
                let to = (from + prng.below(100)).min(total);
                let newly = (from..to).filter(|&stripe| !done[stripe as usize]).count() as u64;
                done[from as usize..to as usize].fill(true);
                assert_eq!(progress.add_all(from, to), newly);
                let open = |from: u64| (from..total).find(|&stripe| !done[stripe as usize]);
                assert_eq!(progress.base(), open(0).unwrap_or(total));
                assert_eq!(progress.next_open(from, total), open(from).unwrap_or(total));
                assert!((0..total).all(|stripe| progress.has(stripe) == done[stripe as usize]));
                let all = done.iter().filter(|&&done| done).count() as u64;
                assert_eq!(progress.count(), all);
            }
            assert!(!progress.has(total), "nothing after the last is done");
        }
    }

    #[test]
    fn what_was_recorded_is_done_and_nothing_else() {
        let mut ranges = Ranges::none(4096);
        [2, 5].into_iter().for_each(|range| ranges.add(range));
        let progress = Progress::recorded(6, Some(ranges));
        assert_eq!((progress.base(), progress.count()), (6, 6 + 4 + 4));
    }
}

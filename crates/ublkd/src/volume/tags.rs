//! The free tags. The lowest is taken first, so that a modest load touches little memory.

use std::sync::atomic::{AtomicU64, Ordering};

use raidcore::units::Tag;

const BITS: usize = u64::BITS as usize;

/// A set of tags, shared by threads.
pub(super) struct Tags {
    free: Box<[AtomicU64]>,
    /// Tags that were taken since the last call of [`Tags::taken`].
    taken: Box<[AtomicU64]>,
}

impl Tags {
    /// So many, all free.
    pub(super) fn new(count: u16) -> Self {
        let count = usize::from(count);
        let words = 0..count.div_ceil(BITS);
        let free = words.clone().map(|word| {
            let bits = (count - word * BITS).min(BITS);
            AtomicU64::new(u64::MAX >> (BITS - bits))
        });
        Self { free: free.collect(), taken: words.map(|_| AtomicU64::new(0)).collect() }
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.free.iter().map(|word| word.load(Ordering::SeqCst).count_ones() as usize).sum()
    }

    /// Takes the lowest that is free.
    pub(super) fn take(&self) -> Option<Tag> {
        for (at, word) in self.free.iter().enumerate() {
            let mut seen = word.load(Ordering::Relaxed);
            while seen != 0 {
                let left = seen & (seen - 1);
                let order = (Ordering::SeqCst, Ordering::Relaxed);
                match word.compare_exchange_weak(seen, left, order.0, order.1) {
                    Ok(_) => {
                        let bit = seen ^ left;
                        if self.taken[at].load(Ordering::Relaxed) & bit == 0 {
                            self.taken[at].fetch_or(bit, Ordering::Relaxed);
                        }
                        return Some(Tag((at * BITS) as u16 + bit.trailing_zeros() as u16));
                    }
                    Err(now) => seen = now,
                }
            }
        }
        None
    }

    /// Takes this tag if it is free. It does not count as taken.
    pub(super) fn take_this(&self, tag: Tag) -> bool {
        let (at, bit) = place(tag);
        self.free[at].fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }

    /// Frees one that was taken.
    pub(super) fn put(&self, tag: Tag) {
        let (at, bit) = place(tag);
        let before = self.free[at].fetch_or(bit, Ordering::SeqCst);
        assert!(before & bit == 0, "a tag was freed twice");
    }

    /// The tags that were taken since the last call.
    pub(super) fn taken(&self, mut visit: impl FnMut(Tag)) {
        for (at, word) in self.taken.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                visit(Tag((at * BITS) as u16 + bits.trailing_zeros() as u16));
                bits &= bits - 1;
            }
        }
    }
}

fn place(tag: Tag) -> (usize, u64) {
    let tag = usize::from(tag.0);
    (tag / BITS, 1 << (tag % BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(tags: &Tags) -> Vec<u16> {
        let mut all = Vec::new();
        tags.taken(|tag| all.push(tag.0));
        all
    }

    #[test]
    fn the_lowest_is_taken_first() {
        for count in [2, 63, 64, 65, 128, 200] {
            let tags = Tags::new(count);
            assert_eq!(tags.free(), usize::from(count));
            let all: Vec<_> = std::iter::from_fn(|| tags.take()).map(|tag| tag.0).collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            assert_eq!(tags.free(), 0);
            tags.put(Tag(count - 1));
            tags.put(Tag(0));
            assert_eq!(tags.take(), Some(Tag(0)));
        }
    }

    #[test]
    fn those_that_were_taken_are_told_once() {
        let tags = Tags::new(70);
        assert!(taken(&tags).is_empty());
        (0..66).for_each(|_| assert!(tags.take().is_some()));
        assert_eq!(taken(&tags), (0..66).collect::<Vec<_>>());
        assert!(!tags.take_this(Tag(65)) && tags.take_this(Tag(69)));
        tags.put(Tag(69));
        tags.put(Tag(65));
        assert_eq!((tags.take(), taken(&tags)), (Some(Tag(65)), vec![65]));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_free_tag_cant_be_freed() {
        Tags::new(3).put(Tag(1));
    }
}

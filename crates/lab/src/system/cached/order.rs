//! What is destaged next.

use std::collections::BTreeMap;

use det::Instant;

/// A strip: the blocks of a stripe on one SSD.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Strip {
    pub(super) drive: usize,
    pub(super) stripe: u64,
}

/// How urgently the cache is to be emptied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pressure {
    /// The share of the cache in use.
    pub(super) used: f64,
    /// Whether writes wait for room.
    pub(super) waits: bool,
}

/// A policy of a cache: what makes an entry, and which entries are destaged next.
pub(super) trait Order: Send {
    /// Whether parity is computed before it is cached, and cached as data is.
    fn caches_parity(&self) -> bool;

    /// Whether each SSD has a part of the cache of its own.
    fn has_parts(&self) -> bool;

    /// Blocks of these strips of one stripe have been cached by one write; a hit of each entry that was there.
    fn wrote(&mut self, strips: &[Strip]);

    /// What is to be destaged now, as strips that are written together. Their entries are gone.
    fn next(&mut self, now: Instant, pressure: Pressure) -> Option<Vec<Strip>>;

    /// What [`Order::next`] gave has been written.
    fn ended(&mut self, now: Instant, strips: &[Strip]);

    /// When [`Order::next`] is to be asked though nothing has happened.
    fn deadline(&self) -> Option<Instant>;
}

/// Entries in the order of their addresses, of which a hand goes around: it passes those that were written since it
/// came by last (their recency bit).
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Whether an entry was hit since the hand came by.
    recent: BTreeMap<u64, bool>,
    hand: u64,
}

impl Clock {
    /// An entry was written. The first write does not make it recent.
    pub(super) fn wrote(&mut self, entry: u64) {
        self.recent.entry(entry).and_modify(|recent| *recent = true).or_insert(false);
    }

    /// Takes out the entry at which the hand stops.
    pub(super) fn take(&mut self) -> Option<u64> {
        loop {
            let after = self.recent.range_mut(self.hand..).next().map(|(&entry, _)| entry);
            let entry = after.or_else(|| self.recent.keys().next().copied())?;
            self.hand = entry + 1;
            match self.recent.get_mut(&entry) {
                Some(recent) if *recent => *recent = false,
                _ => {
                    self.recent.remove(&entry);
                    return Some(entry);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_goes_around_and_passes_what_was_hit_once() {
        let mut clock = Clock::default();
        [5, 1, 9, 1, 5].into_iter().for_each(|entry| clock.wrote(entry));
        assert_eq!(clock.take(), Some(9), "1 and 5 were hit");
        clock.wrote(0);
        assert_eq!([clock.take(), clock.take(), clock.take()], [Some(0), Some(1), Some(5)]);
        assert!(clock.is_empty() && clock.take().is_none());
    }
}

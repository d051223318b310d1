//! A member's ring of the journal, as far as the engine has to know it.
//!
//! Invariants:
//! - An entry is *retired* when its blocks are durable at home. The tail that is told is the first entry
//!   that is not retired.
//! - One record of the tail is under way at a time.

use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use super::form::{Span, Trace};
use super::ring::{self, Ring};
use crate::units::Stripe;

const BUCKETS: usize = 1024;

/// More than there are ever.
const NONE: u64 = u64::MAX;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct JournalRing {
    ring: Ring<Entry>,
    /// How many came before the latest entry, by a hash of its stripe and its rows' span.
    latest: Vec<u64>,
    /// How many entries there are with spans of each size.
    sizes: [u32; Span::SIZES],
    /// The record of the tail that is under way.
    telling: Option<u64>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    at: u64,
    /// The stripe that is written, and what of it; none for a record of the tail.
    write: Option<(Stripe, Trace)>,
    /// How many came before the one before it that has the same hash.
    before: u64,
    /// The tail that it tells.
    tail: u64,
    /// Stores of it under way.
    stores: u8,
    /// Its member has not taken it: nothing of it counts.
    refused: bool,
    /// Its number in the order in which entries came home.
    home: Option<u64>,
    retired: bool,
}

/// The bucket of a stripe's entries whose rows have a span.
fn bucket(stripe: Stripe, span: Span) -> usize {
    Stripe(stripe.0.wrapping_mul(Span::COUNT) + span.number()).bucket(BUCKETS)
}

impl Entry {
    fn stripe(&self) -> Option<Stripe> {
        self.write.map(|(stripe, _)| stripe)
    }

    /// It is no more among the entries, of each size of span so many; returns its stripe.
    fn leave(self, sizes: &mut [u32; Span::SIZES]) -> Option<Stripe> {
        let (stripe, trace) = self.write?;
        sizes[trace.span().size()] -= 1;
        Some(stripe)
    }
}

impl ring::Entry for Entry {
    fn number(&self) -> u64 {
        self.number
    }

    fn at(&self) -> u64 {
        self.at
    }

    fn is_settled(&self) -> bool {
        self.stores == 0
    }
}

impl JournalRing {
    /// An empty ring of so many blocks, with memory for as many entries as they can hold.
    pub(super) fn with_room(blocks: u64) -> Self {
        let latest = vec![NONE; if blocks > 0 { BUCKETS } else { 0 }];
        let sizes = [0; Span::SIZES];
        Self { ring: Ring::with_room(blocks), latest, sizes, telling: None }
    }

    /// Whether so many blocks are free.
    pub(super) fn has_room(&self, blocks: u64) -> bool {
        self.ring.room(blocks).is_some()
    }

    /// Whether more than a half of it is in use.
    pub(super) fn is_half_full(&self) -> bool {
        self.ring.used() > self.ring.len() / 2
    }

    /// Where an entry begins, and the tail that it tells, if it is there.
    pub(super) fn header(&self, number: u64) -> Option<(u64, u64)> {
        self.ring.find(number).map(|entry| (entry.at, entry.tail))
    }

    /// The entries of a stripe that change rows of a span, the latest first, and perhaps others of its.
    fn of(&self, stripe: Stripe, span: Span) -> impl Iterator<Item = &Entry> {
        let some = self.sizes[span.size()] > 0;
        let latest = some.then(|| self.ring.after(self.latest[bucket(stripe, span)])).flatten();
        let entries = iter::successors(latest, |entry| self.ring.after(entry.before));
        entries.filter(move |entry| entry.stripe() == Some(stripe))
    }

    /// Whether a replay would carry out an entry of a stripe.
    pub(super) fn would_replay(&self, stripe: Stripe) -> bool {
        Span::all().any(|span| self.of(stripe, span).next().is_some())
    }

    /// The same of an entry whose blocks were not brought home.
    pub(super) fn would_change(&self, stripe: Stripe) -> bool {
        Span::all().any(|span| self.of(stripe, span).any(|entry| entry.home.is_none()))
    }

    /// The stripes of its entries that are not retired.
    pub(super) fn unflushed(&self) -> impl Iterator<Item = Stripe> + '_ {
        let entries = self.ring.entries().iter();
        entries.filter(|entry| !entry.retired).filter_map(Entry::stripe)
    }

    /// What its entries of a stripe have changed that are not retired and share rows with a trace. Those come
    /// home one after the other.
    pub(super) fn unflushed_of<'a>(
        &'a self,
        stripe: Stripe,
        write: &'a Trace,
    ) -> impl Iterator<Item = Trace> + 'a {
        let of = move |span| self.of(stripe, span).take_while(|entry| !entry.retired);
        let traces = write.near().flat_map(of).filter_map(|entry| entry.write);
        traces.map(|(_, trace)| trace).filter(|trace| trace.overlaps(write))
    }

    /// Whether all entries before this one are retired.
    pub(super) fn is_settled_before(&self, number: u64) -> bool {
        self.ring.entries().iter().take_while(|e| e.number < number).all(|entry| entry.retired)
    }

    /// The oldest entry that a replay has to carry out, as far as is known now.
    fn tail_now(&self, next: u64) -> u64 {
        self.ring.entries().iter().find(|e| !e.retired).map_or(next, |e| e.number)
    }

    /// Whether a record of the tail as it is now would free an entry, and not just a record like it.
    fn has_retired(&self) -> bool {
        self.ring.entries().iter().take_while(|e| e.retired).any(|e| e.write.is_some())
    }

    /// A new entry of so many blocks, where `free` more are free behind it. Returns whether there was room.
    pub(super) fn append(
        &mut self,
        number: u64,
        blocks: u64,
        free: u64,
        write: Option<(Stripe, Trace)>,
    ) -> bool {
        let (tail, retired) = (self.tail_now(number), write.is_none());
        let (stores, refused, home) = (0, false, None);
        let place = write.map(|(stripe, trace)| (bucket(stripe, trace.span()), trace.span()));
        let before = place.map_or(NONE, |(bucket, _)| self.latest[bucket]);
        let count = self.ring.count();
        let entry = |at| Entry { number, at, write, before, tail, stores, refused, home, retired };
        let fits = self.ring.append(blocks, free, entry).is_some();
        if let (Some((bucket, span)), true) = (place, fits) {
            self.latest[bucket] = count;
            self.sizes[span.size()] += 1;
        }
        fits
    }

    /// A new record of how far it has become free, if it has and there is none under way.
    pub(super) fn append_tail(&mut self, number: u64) -> bool {
        let begins =
            self.has_retired() && self.telling.is_none() && self.append(number, 1, 0, None);
        if begins {
            self.telling = Some(number);
        }
        begins
    }

    /// Whether a record of how far it has become free is under way.
    pub(super) fn is_telling(&self) -> bool {
        self.telling.is_some()
    }

    /// Whether entries are at home, and not durable there as far as is known.
    pub(super) fn would_retire(&self) -> bool {
        self.ring.entries().iter().any(|entry| entry.home.is_some() && !entry.retired)
    }

    /// An entry is being stored; returns where it begins.
    pub(super) fn begin_store(&mut self, number: u64) -> Option<u64> {
        let entry = self.ring.find_mut(number)?;
        entry.stores += 1;
        Some(entry.at)
    }

    /// A store of an entry has ended. When that was the last one, what the entry says of the tail counts,
    /// unless it was refused. `freed` is told of the entries whose room is free.
    pub(super) fn stored(&mut self, number: u64, mut freed: impl FnMut(Option<Stripe>)) {
        let Some(entry) = self.ring.find_mut(number) else { return };
        entry.stores -= 1;
        if entry.stores > 0 || entry.refused {
            return;
        }
        let tail = entry.tail;
        self.telling.take_if(|record| *record == number);
        self.ring.free_before(tail, |entry| freed(entry.leave(&mut self.sizes)));
    }

    /// The member has not taken an entry or a record of the tail. The latter's place is free if nothing
    /// lies behind it: others are tried, and each would take a block.
    pub(super) fn refuse(&mut self, number: u64) {
        self.telling.take_if(|record| *record == number);
        let Some(entry) = self.ring.find_mut(number) else { return };
        entry.refused = true;
        entry.stores -= 1;
        let (is_tail, is_over) = (entry.write.is_none(), entry.stores == 0);
        if is_tail && is_over && self.ring.entries().back().is_some_and(|e| e.number == number) {
            self.ring.take_back();
        }
    }

    /// The blocks of an entry are at home.
    pub(super) fn at_home(&mut self, number: u64, home: u64) {
        if let Some(entry) = self.ring.find_mut(number) {
            entry.home = Some(home);
        }
    }

    /// The blocks of all entries are at home.
    pub(super) fn all_at_home(&mut self, home: u64) {
        self.ring.entries_mut().for_each(|entry| entry.home = entry.home.or(Some(home)));
    }

    /// What was at home by then is durable there.
    pub(super) fn retire(&mut self, mark: u64) {
        for entry in self.ring.entries_mut() {
            entry.retired |= entry.home.is_some_and(|home| home <= mark);
        }
    }

    /// It has nothing from before this entry; `freed` is told of what goes.
    pub(super) fn drop_before(&mut self, first: u64, mut freed: impl FnMut(Option<Stripe>)) {
        while let Some(entry) = self.ring.pop_if(|entry| entry.number < first) {
            freed(entry.leave(&mut self.sizes));
        }
        self.telling.take_if(|record| *record < first);
    }

    /// Nothing of it counts any more; `freed` is told of what goes.
    pub(super) fn clear(&mut self, freed: impl FnMut(Option<Stripe>)) {
        self.drop_before(u64::MAX, freed);
        self.ring.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const TRACE: Trace = Trace::of_row(0);

    /// A ring with entries 1 to `last` of two blocks each, all durable, of stripes of the same number.
    fn ring(blocks: u64, last: u64) -> JournalRing {
        let mut ring = JournalRing::with_room(blocks);
        for number in 1..=last {
            assert!(ring.append(number, 2, 0, Some((Stripe(number), TRACE))));
            ring.begin_store(number);
            ring.stored(number, |_| unreachable!("nothing is retired"));
        }
        ring
    }

    fn freed_by(ring: &mut JournalRing, number: u64) -> Vec<u64> {
        let mut freed = Vec::new();
        ring.stored(number, |stripe| freed.extend(stripe.map(|stripe| stripe.0)));
        freed
    }

    #[test]
    fn an_entry_stays_until_a_durable_record_says_that_it_is_retired() {
        let mut ring = ring(16, 3);
        ring.at_home(1, 1);
        ring.at_home(2, 2);
        ring.retire(1);
        assert!(ring.is_settled_before(2) && !ring.is_settled_before(3));
        assert!(ring.append_tail(4));
        ring.retire(2);
        assert!(ring.would_replay(Stripe(1)));
        assert!(!ring.append_tail(5), "one record is under way at a time");
        // One copy is the member's, one its successor's.
        ring.begin_store(4);
        ring.begin_store(4);
        assert!(freed_by(&mut ring, 4).is_empty(), "a copy is under way");
        assert_eq!(freed_by(&mut ring, 4), [1], "it tells what was retired when it was made");
        assert!(ring.append_tail(5));
    }

    #[test]
    fn a_record_that_is_refused_tells_nothing_and_leaves_its_place() {
        let mut ring = ring(16, 1);
        ring.at_home(1, 1);
        ring.retire(1);
        assert!(ring.append_tail(2));
        let at = ring.begin_store(2);
        ring.refuse(2);
        assert!(ring.would_replay(Stripe(1)) && ring.header(2).is_none());
        assert!(ring.append_tail(3));
        assert_eq!(ring.begin_store(3), at);
    }

    #[test]
    fn a_record_frees_no_record_that_is_under_way() {
        let mut ring = ring(16, 1);
        ring.at_home(1, 1);
        ring.retire(1);
        assert!(ring.append_tail(2));
        // The member does not take its copy; its successor's is under way for long.
        ring.begin_store(2);
        ring.begin_store(2);
        ring.refuse(2);
        assert!(ring.append_tail(3));
        ring.begin_store(3);
        assert_eq!(freed_by(&mut ring, 3), [1]);
        assert!(ring.header(2).is_some(), "it is still being written");
        assert!(freed_by(&mut ring, 2).is_empty());
    }

    #[test]
    fn a_record_is_not_written_to_free_nothing_but_records() {
        let mut ring = ring(16, 1);
        assert!(!ring.append_tail(2), "nothing is retired");
        ring.at_home(1, 1);
        ring.retire(1);
        assert!(ring.append_tail(2));
        ring.begin_store(2);
        assert_eq!(freed_by(&mut ring, 2), [1]);
        assert!(!ring.append_tail(3));
    }

    #[test]
    fn a_record_of_the_tail_that_is_dropped_while_it_is_under_way_holds_up_no_other() {
        let mut ring = ring(16, 3);
        ring.at_home(1, 1);
        ring.retire(1);
        assert!(ring.append_tail(4));
        ring.begin_store(4);
        ring.drop_before(5, |_| ());
        assert!(ring.append(5, 2, 0, Some((Stripe(5), TRACE))));
        ring.begin_store(5);
        ring.stored(5, |_| ());
        ring.at_home(5, 2);
        ring.retire(2);
        assert!(ring.append_tail(6));
    }
}

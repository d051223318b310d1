//! The stripe journal: a redo log on the members that hold the stripe's parity, which closes the
//! write hole.
//!
//! An entry holds all blocks that a write is about to change, parity included. Its copies lie on
//! the parity members, one each: a stripe whose parity members are gone has no hole.
//!
//! The journal owns the members' rings and the numbers of entries, and knows of which stripes a replay would
//! carry out an entry, and which were written past it.
//!
//! Invariants:
//! - A member's blocks change only when the entry is durable on all holders.
//! - An entry may be overwritten only when its blocks are durable at home *and* a later entry on
//!   disk says so through its tail: until then a replay after a crash would carry it out.
//! - A stripe with an entry that a replay would carry out is written only through the journal, or
//!   the replay would bring the past back.

use alloc::vec;
use alloc::vec::Vec;

use super::form::Trace;
use super::journal_ring::JournalRing;
use crate::meta::{ArrayRecord, Entries, Replay};
use crate::units::{MemberId, Pba, Set, Stripe};

/// Blocks that entries leave free, so that a tail record finds room.
const RESERVE: u64 = 2;

const BUCKETS: usize = 4096;

/// The rings.
#[derive(Debug)]
pub(super) struct Journal {
    start: Pba,
    rings: Vec<JournalRing>,
    /// Whether entries are written.
    used: bool,
    /// Whether they may be partial.
    partial: bool,
    next_entry: u64,
    /// How many times something has come home.
    homes: u64,
    /// What of that is durable.
    flushed: u64,
    live: Live,
    /// Since when, in `homes`, a stripe has been written past the journal, by a hash of the stripe.
    passed: Vec<u64>,
    /// A job waits for room.
    starved: bool,
}

/// The entries that a replay would carry out.
#[derive(Debug)]
struct Live {
    /// How many a stripe has, by a hash of the stripe.
    of: Vec<u32>,
    all: u32,
}

impl Live {
    fn add(&mut self, stripe: Stripe) {
        self.of[stripe.bucket(BUCKETS)] += 1;
        self.all += 1;
    }

    /// The room of an entry is free, or that of a record of the tail.
    fn forget(&mut self, stripe: Option<Stripe>) {
        if let Some(stripe) = stripe {
            self.of[stripe.bucket(BUCKETS)] -= 1;
            self.all -= 1;
        }
    }
}

impl Journal {
    pub(super) fn new(record: &ArrayRecord, next_entry: u64) -> Self {
        let (start, len) = record.journal_ring();
        let entries = Entries::of(record);
        let len = if entries == Entries::None { 0 } else { len };
        // Those of old stripes and of new ones might have to differ.
        let partial = entries == Entries::Partial && record.reshape.is_none();
        Self { partial, ..Self::with_rings(start, len, record.geometry.members(), next_entry) }
    }

    /// One ring of so many blocks for each member.
    fn with_rings(start: Pba, len: u64, members: usize, next_entry: u64) -> Self {
        Self {
            start,
            rings: (0..members).map(|_| JournalRing::with_room(len)).collect(),
            used: len > 0,
            partial: false,
            next_entry,
            homes: 0,
            flushed: 0,
            live: Live { of: vec![0; BUCKETS], all: 0 },
            passed: vec![0; BUCKETS],
            starved: false,
        }
    }

    /// Whether there is one.
    pub(super) fn exists(&self) -> bool {
        self.used
    }

    /// Whether entries may be partial.
    pub(super) fn has_partial(&self) -> bool {
        self.used && self.partial
    }

    // Entries, and records of the tail.

    /// An entry of so many blocks for a stripe, in the rings of its holders. If there is no room, it is
    /// [starved](Self::starve).
    pub(super) fn begin_entry(
        &mut self,
        stripe: Stripe,
        holders: Set<MemberId>,
        blocks: u64,
        trace: Trace,
    ) -> Option<u64> {
        let fits = |member: MemberId| self.rings[member.index()].has_room(blocks + RESERVE);
        if !{ holders }.all(fits) {
            self.starve();
            return None;
        }
        let number = self.next_entry;
        self.next_entry += 1;
        for member in holders {
            if self.rings[member.index()].append(number, blocks, RESERVE, Some((stripe, trace))) {
                self.live.add(stripe);
            }
        }
        Some(number)
    }

    /// A record of how far a member's ring has become free, if that frees an entry and none is under way.
    pub(super) fn begin_tail(&mut self, member: MemberId) -> Option<u64> {
        let number = self.next_entry;
        let begins = self.rings[member.index()].append_tail(number);
        self.next_entry += u64::from(begins);
        begins.then_some(number)
    }

    /// Whether a record of how far a ring has become free is under way.
    pub(super) fn is_telling(&self) -> bool {
        self.rings.iter().any(JournalRing::is_telling)
    }

    /// Whether a flush would make more entries void.
    pub(super) fn would_retire(&self) -> bool {
        self.rings.iter().any(JournalRing::would_retire)
    }

    /// An entry, or a record of the tail, is being stored in a member's ring; returns where.
    pub(super) fn begin_store(&mut self, member: MemberId, number: u64) -> Option<Pba> {
        let at = self.rings[member.index()].begin_store(number)?;
        Some(Pba(self.start.0 + at))
    }

    /// A store in a member's ring has ended. What is stored counts when it is wherever it has to be. Returns
    /// whether an entry's room has become free.
    pub(super) fn stored(&mut self, member: MemberId, number: u64) -> bool {
        let mut some = false;
        self.rings[member.index()].stored(number, |stripe| {
            self.live.forget(stripe);
            some = true;
        });
        self.starved &= !some;
        some
    }

    /// A member has not taken what was to be stored in its ring.
    pub(super) fn refuse(&mut self, member: MemberId, number: u64) {
        self.rings[member.index()].refuse(number);
    }

    /// Where an entry, or a record of the tail, begins in a member's ring, and the tail that it tells.
    pub(super) fn header(&self, member: MemberId, number: u64) -> Option<(u64, u64)> {
        self.rings[member.index()].header(number)
    }

    /// Where it begins on the member.
    pub(super) fn place(&self, member: MemberId, number: u64) -> Option<Pba> {
        self.header(member, number).map(|(at, _)| Pba(self.start.0 + at))
    }

    /// Whether a member's ring has an entry; what is none, but is written where it is, anybody has.
    pub(super) fn holds(&self, member: MemberId, entry: u64) -> bool {
        let ring = self.rings.get(member.index());
        entry == Replay::IN_PLACE || ring.is_some_and(|ring| ring.header(entry).is_some())
    }

    // Room.

    /// A job waits for room.
    pub(super) fn starve(&mut self) {
        self.starved = true;
    }

    /// Whether a job waits for room, as far as was looked.
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Whether a job waits for room, of which `waits` knows.
    pub(super) fn is_still_starved(&mut self, waits: impl FnOnce() -> bool) -> bool {
        self.starved = self.starved && waits();
        self.starved
    }

    /// Whether it is time to tell how far a member's ring has become free.
    pub(super) fn is_wanting(&self, member: MemberId) -> bool {
        self.starved || self.rings[member.index()].is_half_full()
    }

    // What has come home.

    /// The blocks of an entry are written to where they belong (but may not be durable there).
    pub(super) fn entry_at_home(&mut self, number: u64, holders: Set<MemberId>) {
        self.homes += 1;
        for member in holders {
            self.rings[member.index()].at_home(number, self.homes);
        }
    }

    /// What entries hold is at home, or was not begun to be brought there: once that is durable, none
    /// has to be carried out.
    pub(super) fn all_at_home(&mut self) {
        self.homes += 1;
        self.rings.iter_mut().for_each(|ring| ring.all_at_home(self.homes));
    }

    /// A write of a stripe has come home without an entry and without FUA.
    pub(super) fn pass_by(&mut self, stripe: Stripe) {
        if self.used {
            self.homes += 1;
            self.passed[stripe.bucket(BUCKETS)] = self.homes;
        }
    }

    /// How many homecomings a flush that begins now makes durable.
    pub(super) fn mark(&self) -> u64 {
        self.homes
    }

    /// A flush that began at a mark has made all durable: what was at home then needs no replay any more.
    pub(super) fn flushed(&mut self, mark: u64) {
        self.flushed = mark;
        self.rings.iter_mut().for_each(|ring| ring.retire(mark));
    }

    // What a replay would do.

    /// Whether a replay would carry out an entry of a stripe, or of one that shares its bucket.
    pub(super) fn is_live(&self, stripe: Stripe) -> bool {
        self.live.of[stripe.bucket(BUCKETS)] > 0
    }

    /// Whether a replay would carry out an entry of this very stripe.
    pub(super) fn would_replay(&self, stripe: Stripe) -> bool {
        self.is_live(stripe) && self.rings.iter().any(|ring| ring.would_replay(stripe))
    }

    /// Whether a replay would change a stripe: carry out an entry whose write was refused, so that its
    /// blocks were not brought home.
    pub(super) fn would_change(&self, stripe: Stripe) -> bool {
        self.is_live(stripe) && self.rings.iter().any(|ring| ring.would_change(stripe))
    }

    /// Whether a stripe may hold what was written past the journal and is not durable.
    pub(super) fn is_passed(&self, stripe: Stripe) -> bool {
        self.passed[stripe.bucket(BUCKETS)] > self.flushed
    }

    /// The entries of a stripe in these members' rings that are not durable at home and share rows with a
    /// write of it.
    pub(super) fn unflushed_of<'a>(
        &'a self,
        stripe: Stripe,
        write: &'a Trace,
        holders: Set<MemberId>,
    ) -> impl Iterator<Item = Trace> + 'a {
        let rings = holders.map(|member| &self.rings[member.index()]);
        rings.flat_map(move |ring| ring.unflushed_of(stripe, write))
    }

    /// Whether a replay would carry out any entry, or a tail lags behind.
    pub(super) fn is_unsettled(&self) -> bool {
        self.live.all > 0
    }

    /// The stripes of which a member may not have, or not durably, what entries hold.
    pub(super) fn unflushed(&self) -> impl Iterator<Item = Stripe> + '_ {
        self.rings.iter().flat_map(JournalRing::unflushed)
    }

    // Members that give their place to others.

    /// The number of the next entry.
    pub(super) fn next_entry(&self) -> u64 {
        self.next_entry
    }

    /// Whether a replay would carry out nothing of a member's ring from before this entry.
    pub(super) fn is_settled_before(&self, member: MemberId, entry: u64) -> bool {
        self.rings.get(member.index()).is_none_or(|ring| ring.is_settled_before(entry))
    }

    /// A member has another device, whose ring has the same as before from this entry on.
    pub(super) fn inherit_ring(&mut self, member: MemberId, first: u64) {
        if let Some(ring) = self.rings.get_mut(member.index()) {
            ring.drop_before(first, |stripe| self.live.forget(stripe));
        }
    }

    /// A member is gone, and its ring with it.
    pub(super) fn drop_ring(&mut self, member: MemberId) {
        self.rings[member.index()].clear(|stripe| self.live.forget(stripe));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDERS: [MemberId; 2] = [MemberId(1), MemberId(2)];
    const TRACE: Trace = Trace::of_row(0);

    fn journal(blocks: u64) -> Journal {
        Journal::with_rings(Pba(100), blocks, 3, 7)
    }

    /// An entry of three blocks that is durable on its holders.
    fn write(journal: &mut Journal, stripe: u64) -> Option<u64> {
        let holders = HOLDERS.into_iter().collect();
        let number = journal.begin_entry(Stripe(stripe), holders, 3, TRACE)?;
        for member in HOLDERS {
            journal.begin_store(member, number).expect("it has a place");
            assert!(!journal.stored(member, number));
        }
        Some(number)
    }

    /// Says in a ring how far it has become free; returns whether that frees anything.
    fn tell(journal: &mut Journal, member: MemberId) -> bool {
        let Some(record) = journal.begin_tail(member) else { return false };
        journal.begin_store(member, record);
        journal.stored(member, record)
    }

    #[test]
    fn an_entry_is_carried_out_until_all_its_rings_say_that_it_is_durable_at_home() {
        let mut journal = journal(32);
        let entry = write(&mut journal, 4).expect("there is room");
        assert_eq!(journal.place(HOLDERS[0], entry), Some(Pba(100)));
        let before = journal.mark();
        assert!(journal.would_change(Stripe(4)));
        journal.entry_at_home(entry, HOLDERS.into_iter().collect());
        assert!(journal.would_replay(Stripe(4)) && !journal.would_change(Stripe(4)));
        journal.flushed(before);
        assert!(!tell(&mut journal, HOLDERS[0]), "it came home after that flush had begun");
        journal.flushed(journal.mark());
        assert!(tell(&mut journal, HOLDERS[0]) && journal.would_replay(Stripe(4)));
        assert!(tell(&mut journal, HOLDERS[1]) && !journal.is_unsettled());
        assert!(!journal.would_replay(Stripe(4)));
    }

    #[test]
    fn what_entries_have_changed_is_known_until_it_is_durable_at_home() {
        let mut journal = journal(32);
        let holders = HOLDERS.into_iter().collect();
        let entry = write(&mut journal, 4).expect("there is room");
        write(&mut journal, 5).expect("there is room");
        let unflushed = |journal: &Journal, stripe: u64, row: u32| {
            journal.unflushed_of(Stripe(stripe), &Trace::of_row(row), holders).count()
        };
        assert_eq!(unflushed(&journal, 4, 0), 2, "one of each ring");
        assert_eq!((unflushed(&journal, 4, 1), unflushed(&journal, 6, 0)), (0, 0));
        journal.entry_at_home(entry, holders);
        assert_eq!(unflushed(&journal, 4, 0), 2);
        journal.flushed(journal.mark());
        assert_eq!(unflushed(&journal, 4, 0), 0);
        assert!(journal.would_replay(Stripe(4)), "no tail tells");
    }

    #[test]
    fn an_entry_that_finds_no_room_starves_until_some_becomes_free() {
        let mut journal = journal(9);
        let first = write(&mut journal, 1).expect("there is room");
        write(&mut journal, 2).expect("there is room");
        assert!(!journal.is_wanting(MemberId(0)) && journal.is_wanting(HOLDERS[0]));
        assert_eq!(write(&mut journal, 3), None, "a tail has to find room");
        assert!(journal.is_starved() && journal.is_wanting(MemberId(0)));
        journal.entry_at_home(first, HOLDERS.into_iter().collect());
        journal.flushed(journal.mark());
        assert!(tell(&mut journal, HOLDERS[0]) && !journal.is_starved());
        journal.starve();
        assert!(!journal.is_still_starved(|| false) && !journal.is_still_starved(|| true));
    }

    #[test]
    fn what_goes_past_the_journal_is_in_doubt_until_a_flush_that_began_later() {
        let mut journal = journal(32);
        let before = journal.mark();
        journal.pass_by(Stripe(5));
        journal.flushed(before);
        assert!(journal.is_passed(Stripe(5)) && !journal.is_passed(Stripe(6)));
        journal.flushed(journal.mark());
        assert!(!journal.is_passed(Stripe(5)));
    }

    #[test]
    fn a_device_that_takes_a_place_has_what_was_written_since_it_was_a_successor() {
        let mut journal = journal(32);
        write(&mut journal, 1).expect("there is room");
        let first = journal.next_entry();
        write(&mut journal, 2).expect("there is room");
        assert!(!journal.is_settled_before(HOLDERS[0], first));
        journal.inherit_ring(HOLDERS[0], first);
        assert!(journal.is_settled_before(HOLDERS[0], first));
        assert!(journal.would_replay(Stripe(1)), "the other holder has it still");
        journal.drop_ring(HOLDERS[1]);
        assert!(!journal.would_replay(Stripe(1)) && journal.would_replay(Stripe(2)));
        journal.drop_ring(HOLDERS[0]);
        assert!(!journal.is_unsettled());
    }
}

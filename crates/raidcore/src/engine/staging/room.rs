//! Where an entry goes, and when its room is free again: its holders, the tail, and whether jobs wait for room.

use alloc::vec::Vec;
use core::mem;

use det::Instant;

use super::{Draining, Entry, Kept, Kind, Run, Size, Staging, Telling};
use crate::geometry::Layout;
use crate::units::{MemberId, Pba, Set, Stripe};

/// Blocks of a ring that staged writes leave free, so that markers and tails find room.
pub(super) const RESERVE: u64 = 8;

/// An entry takes at most this part of a ring.
const SHARE: u64 = 4;

impl Staging {
    // Holders.

    /// The holders of a staged write's entry, of those that are `calm`: first staging devices, then
    /// members, those with the least `burden`, in turn; none if there are too few with room.
    pub(in crate::engine) fn holders_for(
        &self,
        size: Size,
        calm: Set<MemberId>,
        burden: impl Fn(MemberId) -> u32,
    ) -> Option<Set<MemberId>> {
        let mut holders = Set::EMPTY;
        while holders.len() < self.copies {
            let next = self.next_holder(calm.minus(holders), size.blocks().into(), &burden);
            holders = holders.with(next?);
        }
        Some(holders)
    }

    /// The first of these that has room for a staged write of so many blocks.
    pub(super) fn next_holder(
        &self,
        places: Set<MemberId>,
        blocks: u64,
        burden: impl Fn(MemberId) -> u32,
    ) -> Option<MemberId> {
        let (n, blocks) = (self.members, blocks + RESERVE + self.promised);
        let fitting = places.filter(|&place| self.fits(place, blocks));
        fitting.min_by_key(|&place| {
            let index = place.index();
            (index < n, burden(place), (index + n - self.turn % n) % n)
        })
    }

    /// The holders of a note: as many as there can be, those of the first `tiers` if possible, and one more if
    /// one of them is `leaving`: it gives its place to a device that will not have it.
    pub(in crate::engine) fn holders_for_note(
        &self,
        tiers: [Set<MemberId>; 3],
        leaving: bool,
    ) -> Set<MemberId> {
        let fits = |&place: &MemberId| self.fits(place, 1);
        let fitting = tiers.into_iter().flatten().filter(fits);
        fitting.take(self.copies + usize::from(leaving)).collect()
    }

    fn fits(&self, place: MemberId, blocks: u64) -> bool {
        self.rings[place.index()].room(blocks).is_some()
    }

    // Room that is wanted.

    /// Whether there is room for a write. If not, room is wanted from now on, if bringing something
    /// home makes any.
    pub(in crate::engine) fn has_room(
        &mut self,
        size: Size,
        calm: Set<MemberId>,
        burden: impl Fn(MemberId) -> u32,
    ) -> bool {
        let room = self.payload + size.entries().1 as usize <= self.table.capacity()
            && self.is_possible(size)
            && self.holders_for(size, calm, burden).is_some();
        self.starved |= !room && self.dirty > 0;
        room
    }

    /// Whether an entry may be so large.
    pub(in crate::engine) fn is_possible(&self, size: Size) -> bool {
        u64::from(size.blocks()) <= self.len / SHARE
    }

    /// Makes sure that there will be room for a marker, whichever members are `able`. If there is none,
    /// room is wanted from now on.
    pub(in crate::engine) fn promise_marker(&mut self, mut able: Set<MemberId>) -> bool {
        let blocks = self.promised + RESERVE / 2;
        let fits = !able.is_empty() && able.all(|place| self.fits(place, blocks));
        self.promised += u64::from(fits);
        self.starved |= !fits;
        self.look_for_pieces();
        fits
    }

    /// A marker that was promised room has it, or is not needed any more.
    pub(in crate::engine) fn redeem_marker(&mut self) {
        self.promised -= 1;
        self.look_for_pieces();
    }

    /// Whether room was wanted: jobs that wait for it look again.
    pub(in crate::engine) fn looks_again(&mut self) -> bool {
        mem::take(&mut self.starved)
    }

    /// Whether room is wanted and there will be none, as nothing is under way that makes any, and the
    /// oldest entry can't be brought home: jobs that wait for it are to wait no more.
    /// A discard makes room when it ends, unless its member is `hung`.
    pub(in crate::engine) fn denies_room(&mut self, hung: Set<MemberId>) -> bool {
        let is_quiet = self.reclaiming.is_empty()
            && !self.flushing
            && self.telling.is_none()
            && !self.trim.is_going_on(hung);
        let is_stuck = |entry: &Entry| entry.dirty > 0 && self.stuck.contains(&entry.stripe);
        let oldest = || self.entries.iter().find(|entry| !self.is_dead(entry));
        let denied = self.starved && is_quiet && oldest().is_some_and(is_stuck);
        self.starved &= !denied;
        denied
    }

    // Entries.

    /// New entries of staged writes, which share a header if they are several; `fill` gives the runs of each,
    /// and its stripe. Tells the first one's number.
    pub(in crate::engine) fn begin_data(
        &mut self,
        now: Instant,
        writes: usize,
        holders: Set<MemberId>,
        fill: impl FnMut(usize, &mut Vec<Run>) -> Stripe,
    ) -> u64 {
        debug_assert!(
            self.draining == Draining::No,
            "nothing is staged in a log that is being emptied"
        );
        self.staged_at = now;
        let number = self.begin(Kind::Data, writes, holders, fill);
        self.sharing_mut(number).for_each(|entry| entry.since = now);
        number
    }

    /// A new entry that says that home counts where these runs are.
    pub(in crate::engine) fn begin_marker(
        &mut self,
        holders: Set<MemberId>,
        mut fill: impl FnMut(&mut Vec<Run>) -> Stripe,
    ) -> u64 {
        self.begin(Kind::Marker, 1, holders, |_, runs| fill(runs))
    }

    /// A new entry that does nothing but tell the tail, on a note's holders, if there are enough.
    pub(in crate::engine) fn begin_tail(
        &mut self,
        tiers: [Set<MemberId>; 3],
        leaving: bool,
    ) -> Option<u64> {
        let holders = self.holders_for_note(tiers, leaving);
        let able = tiers.into_iter().fold(Set::EMPTY, Set::or);
        if holders.is_empty() || !self.are_enough(holders, able) {
            return None;
        }
        let number = self.begin(Kind::Tail, 1, holders, |_, _| Stripe(0));
        self.telling = Some(Telling { number, outstanding: self.places(number).0.count() });
        Some(number)
    }

    /// So many new entries, with room in their holders' rings. Tells the first one's number.
    fn begin(
        &mut self,
        kind: Kind,
        count: usize,
        holders: Set<MemberId>,
        mut fill: impl FnMut(usize, &mut Vec<Run>) -> Stripe,
    ) -> u64 {
        let (lead, tail) = (self.next, self.tail_now());
        for (index, number) in (0..count).zip(lead..) {
            let mut runs = self.spare.pop().unwrap_or_default();
            let stripe = fill(index, &mut runs);
            let mut entry = Entry::new(number, kind, stripe, holders, runs);
            (entry.tail, entry.lead) = (tail, lead);
            self.payload += entry.blocks as usize;
            self.entries.push_back(entry);
        }
        self.next += count as u64;
        self.entry_mut(lead).sharing = count as u32;
        holders.for_each(|member| {
            self.take_room(lead, member);
        });
        self.announced = self.announced.max(tail);
        self.turn = (self.turn + 1) % self.members;
        lead
    }

    /// An entry gets room in a holder's ring, with those that share its header, of which it is the first. Tells
    /// where it begins there. Their room is free when the last of them is void.
    pub(super) fn take_room(&mut self, lead: u64, holder: MemberId) -> Pba {
        let size = self.size(lead);
        let last = lead + u64::from(self.entry(lead).sharing) - 1;
        let ring = &mut self.rings[holder.index()];
        let at = ring.append(u64::from(size.blocks()), 0, |at| (last, at));
        let at = at.expect("holders have room");
        self.trim.appended(holder, &self.rings[holder.index()]);
        self.look_for_piece(holder);
        self.fullest = self.fullest_of(Set::one(self.fullest).with(holder));
        let begins = self.start.0 + at;
        let mut payload = begins + u64::from(size.header_blocks());
        for entry in self.sharing_mut(lead) {
            entry.add_copy(holder, Pba(payload));
            payload += u64::from(entry.blocks);
        }
        Pba(begins)
    }

    /// A job's entry is on its holders: what it says counts. The first blocks of its payload are `kept` in
    /// memory. Tells how many blocks it stages, and how many of them were not at home before either.
    pub(in crate::engine) fn stored(
        &mut self,
        number: u64,
        kept: &[Kept],
        geo: &Layout,
    ) -> (u32, u32) {
        self.is_done(number);
        let entry = self.entry_mut(number);
        let (kind, stripe) = (entry.kind, entry.stripe);
        let runs = mem::take(&mut entry.runs);
        let (mut at, mut again) = (0, 0);
        for run in &runs {
            for lba in geo.of(stripe).lbas(stripe, run.role, run.row, run.blocks) {
                let slot = kept.get(at as usize).map(|kept| kept.slot);
                match kind {
                    // Another write of it began later, and was faster.
                    Kind::Data if self.is_staged_since(number, lba) => {
                        slot.into_iter().for_each(|slot| self.let_go(slot));
                        again += 1;
                    }
                    Kind::Data => {
                        let of = (stripe, run.role);
                        again += u32::from(self.stage(of, lba, (number, at), slot));
                    }
                    Kind::Marker | Kind::Tail => self.unstage(stripe, lba),
                }
                at += 1;
            }
        }
        // What could not be brought home because of these blocks perhaps can be now.
        self.try_stripe_again(stripe);
        self.entry_mut(number).runs = runs;
        if kind == Kind::Data { (at, again) } else { (0, 0) }
    }

    // The tail.

    fn is_dead(&self, entry: &Entry) -> bool {
        let at_home = entry.dirty == 0 && entry.home <= self.durable_homes;
        entry.done && at_home && entry.pins == 0 && entry.copying.is_over()
    }

    /// The first entry that is not dead, or the next to be made.
    fn tail_now(&self) -> u64 {
        // What was told to be void is not read any more, so it stays dead.
        let known = self.announced.saturating_sub(self.front()) as usize;
        let first = self.entries.iter().skip(known).find(|entry| !self.is_dead(entry));
        first.map_or(self.next, |entry| entry.number)
    }

    /// Whether the tail is to be told, as that frees something that is wanted, or says anew what is
    /// to be known.
    pub(in crate::engine) fn has_tail_to_tell(&self) -> bool {
        let tail = self.tail_now();
        let frees = |entry: &Entry| entry.kind != Kind::Tail;
        let frees = self.entries.iter().take_while(|e| e.number < tail).any(frees);
        let anew = matches!(self.draining, Draining::From(_)) && tail == self.next
            || self.is_thin() && tail >= self.thin_until;
        self.telling.is_none() && (frees || anew)
    }

    /// The entry that tells the tail and is being written.
    pub(in crate::engine) fn telling(&self) -> Option<u64> {
        self.telling.map(|telling| telling.number)
    }

    /// One of the holders of the entry that tells the tail has stored it, or failed. Gives its number once
    /// all have.
    pub(in crate::engine) fn tail_stored(&mut self) -> Option<u64> {
        let telling = self.telling.as_mut()?;
        telling.outstanding -= 1;
        if telling.outstanding > 0 {
            return None;
        }
        let number = telling.number;
        self.telling = None;
        self.is_done(number);
        Some(number)
    }

    /// An entry is on its holders.
    fn is_done(&mut self, number: u64) {
        self.entry_mut(number).done = true;
        let from = self.first_open.max(self.front());
        let done = self.entries.iter().skip((from - self.front()) as usize);
        self.first_open = from + done.take_while(|entry| entry.done).count() as u64;
    }

    /// Whether as many have a note as it has to be on, of those that are `able`.
    fn are_enough(&self, holders: Set<MemberId>, able: Set<MemberId>) -> bool {
        holders.len() >= self.copies.min(able.len())
    }

    /// An entry is durable: what is before the tail that it tells is void. A member may be `leaving`,
    /// with all that are able: it gives its place to a device that doesn't have the entry.
    pub(in crate::engine) fn advance(
        &mut self,
        number: u64,
        leaving: Option<(MemberId, Set<MemberId>)>,
        geo: &Layout,
    ) {
        let tail = self.entry(number).tail;
        self.free(tail, geo);
        let is_known = || {
            let holders = self.entry(number).holders;
            let stay = |(leaving, able): (MemberId, Set<MemberId>)| {
                self.are_enough(holders.without(leaving), able.without(leaving))
            };
            leaving.is_none_or(stay)
        };
        if tail == number && is_known() {
            self.tells_of_all(number);
        }
    }

    /// What is before a tail is void: its room is free.
    fn free(&mut self, tail: u64, geo: &Layout) {
        self.unreadable.retain(|&(_, number)| number >= tail);
        while self.entries.front().is_some_and(|entry| entry.number < tail) {
            let Some(front) = self.entries.front_mut() else { return };
            let (number, stripe) = (front.number as u32, front.stripe);
            let mut runs = mem::take(&mut front.runs);
            self.payload -= front.blocks as usize;
            for run in &runs {
                for lba in geo.of(stripe).lbas(stripe, run.role, run.row, run.blocks) {
                    if self.table.get(lba).is_some_and(|staged| staged.entry == number) {
                        self.unstage(stripe, lba);
                    }
                }
            }
            runs.clear();
            self.spare.push(runs);
            self.entries.pop_front();
        }
        for (place, ring) in self.rings.iter_mut().enumerate() {
            let used = ring.used();
            ring.free_before(tail, |_| ());
            self.trim.freed(place, used - ring.used());
        }
        self.look_at_rings();
    }

    /// Takes note of what depends on the rings: they have less in use.
    pub(super) fn look_at_rings(&mut self) {
        self.look_for_pieces();
        self.fullest = self.fullest_of(Set::first(self.rings.len()));
    }

    /// Of these the one of whose ring the greatest part is in use, the last of several.
    pub(super) fn fullest_of(&self, places: Set<MemberId>) -> MemberId {
        let fuller = |one: MemberId, other: MemberId| {
            let [a, b] = [one, other].map(|place| &self.rings[place.index()]);
            if a.used() * b.len() > b.used() * a.len() { one } else { other }
        };
        places.reduce(fuller).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Log, RING};
    use super::*;
    use crate::geometry::{Geometry, Level};

    #[test]
    fn holders_are_devices_first_then_those_with_the_least_to_do_then_in_turn() {
        let mut log = Log::new(1);
        let first = |log: &Log, load: [u32; 5]| {
            let load = |member: MemberId| load[member.index()];
            log.staging.holders_for(Log::size(1), log.able(), load).expect("there is room")
        };
        let pair = |a, b| Set::one(MemberId(a)).with(MemberId(b));
        assert_eq!(first(&log, [3, 2, 1, 2, 9]), pair(2, 4));
        assert_eq!(first(&log, [0; 5]), pair(0, 4));
        log.stage(0, 1);
        assert_eq!(first(&log, [0; 5]), pair(1, 4), "each has its turn");
        let one = Set::one(MemberId(0));
        assert_eq!(log.staging.holders_for(Log::size(1), one, |_| 0), None, "one is too few");
    }

    #[test]
    fn writes_leave_room_for_notes() {
        let mut log = Log::new(0);
        let all = log.able();
        let mut stripe = 0;
        while log.staging.has_room(Log::size(8), all, |_| 0) {
            log.stage(stripe, 8);
            stripe += 1;
        }
        assert!(log.staging.used().0 + RESERVE <= RING, "notes have room");
        assert!(log.staging.looks_again(), "room is wanted");
        assert!(!log.staging.looks_again(), "and was looked for");
        let promised = (0..RESERVE).filter(|_| log.staging.promise_marker(all)).count();
        assert!(promised > 0 && (promised as u64) < RESERVE, "not more than there is");
        assert!(log.staging.looks_again());
        log.staging.redeem_marker();
        assert!(log.staging.promise_marker(all), "what is not needed can be promised again");
        let small = || log.staging.holders_for(Log::size(1), all, |_| 0);
        assert_eq!(small(), None, "what is promised is no room for writes");
        assert!(
            !log.staging.has_room(Log::size(RING as u32 / 4), all, |_| 0),
            "nor for large ones"
        );
    }

    #[test]
    fn the_tail_passes_what_is_at_home_for_good_and_not_read() {
        let mut log = Log::new(0);
        let (first, second) = (log.stage(0, 4), log.stage(1, 4));
        assert!(!log.tell(), "it is not at home");
        log.bring_home(0, 4);
        assert!(!log.tell(), "it is there in a cache only");
        log.flush();
        log.staging.pin(first, 1);
        assert!(!log.tell(), "it is being read");
        log.staging.unpin(first);
        let used = log.staging.used().0;
        assert!(log.tell() && log.staging.front() == second);
        assert!(log.staging.used().0 < used && log.staging.staged() == 4, "its room is free");
        assert!(!log.tell(), "a tail alone is not worth another");
    }

    #[test]
    fn a_flush_counts_for_what_came_home_before_it() {
        let mut log = Log::new(0);
        log.stage(0, 1);
        log.stage(1, 1);
        log.bring_home(0, 1);
        assert!(log.staging.begins_flush() && !log.staging.begins_flush(), "one at a time");
        let mark = log.staging.mark();
        log.bring_home(1, 1);
        log.staging.flushed(mark, false);
        assert!(!log.tell(), "it has failed");
        assert!(log.staging.begins_flush(), "so another begins");
        log.staging.flushed(mark, true);
        assert!(log.tell());
        assert_eq!(log.staging.front(), 2, "the second was on its way");
    }

    #[test]
    fn room_is_denied_only_if_nothing_makes_any() {
        let mut log = Log::new(0);
        log.stage(0, 8);
        log.staging.begin_reclaim(Stripe(0));
        log.fails(0);
        assert!(!log.staging.denies_room(Set::EMPTY), "nobody waits for it");
        let large = Log::size(RING as u32);
        assert!(!log.staging.has_room(large, log.able(), |_| 0));
        log.staging.begin_reclaim(Stripe(1));
        assert!(!log.staging.denies_room(Set::EMPTY), "another comes home");
        log.fails(1);
        assert!(
            log.staging.denies_room(Set::EMPTY) && !log.staging.denies_room(Set::EMPTY),
            "it is said once"
        );
        assert!(!log.staging.has_room(large, log.able(), |_| 0));
        log.stage(0, 8);
        assert!(!log.staging.denies_room(Set::EMPTY), "what was stuck is written over");
    }

    #[test]
    fn a_note_goes_to_the_first_tiers_that_have_room() {
        let log = Log::new(0);
        let [one, two, three] = [1, 2, 3].map(|member| Set::one(MemberId(member)));
        assert_eq!(log.staging.holders_for_note([three, two, one], false), three.or(two));
        assert_eq!(log.staging.holders_for_note([Set::EMPTY, one, two], false), one.or(two));
    }

    #[test]
    fn a_note_is_in_every_place_that_it_is_said_to_be_in() {
        let geo = Geometry::new(Level::Raid6, 6, 8, 64).expect("it is possible");
        let mut staging = Staging::empty((6, 3), Pba(100), core::iter::repeat_n(RING, 6), 0);
        let holders = staging.holders_for_note([geo.member_set(), Set::EMPTY, Set::EMPTY], true);
        let number = staging.begin(Kind::Tail, 1, holders, |_, _| Stripe(0));
        // As many as may be lost, one more, and one in place of the member that leaves.
        assert_eq!(holders.len(), 4);
        assert_eq!(staging.places(number).0.map(|(member, _)| member).collect::<Set<_>>(), holders);
    }
}

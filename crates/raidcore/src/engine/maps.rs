//! The maps on disk, a page at a time: the write-intent bitmap, the zero map, the map of what members
//! miss.
//!
//! Invariants: a page has one store in flight. A version of it is durable when more members that are
//! kept current have it than may still fail: a start takes the newest that it finds. One that fails
//! meanwhile may come back without it, as long as its failure is not on record. Versions take turns at
//! two places, so that what is durable is not written over. A change of a bit that no member has stored
//! is taken back, with an error for the jobs that wait for it; since a member may have it all the same,
//! what relies on a bit of the zero map stores its page anew first.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::flight::{Flight, Flights, Owner};
use super::jobs::Jobs;
use super::membership::Membership;
use super::wait::{Change, Wait};
use super::{Action, IoOp, JobId, RequestError};
use crate::meta::{Areas, ArrayId, BitMap, MapKind, MetaPage, PageVersions};
use crate::units::{MemberId, Set};

/// How many stores of pages may be in flight when pages are spread.
const SPREAD_MAX: u32 = 64;

/// A bitmap and how far its pages are durable.
#[derive(Debug)]
pub(super) struct MapStore {
    pub(super) map: BitMap,
    pages: Vec<Page>,
    /// Bits that members may have otherwise, as a change of them was stored by none and taken back.
    doubted: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    started: u64,
    durable: u64,
    outstanding: u32,
    /// The members on which what was started is being stored.
    under_way: Set<MemberId>,
    /// The members that have stored what was started.
    stored: Set<MemberId>,
    again: bool,
    /// The version that has the latest bit to be set.
    set_in: u64,
    /// The version that is to be on all members, if it may not be yet.
    spread_in: Option<u64>,
}

impl Page {
    /// Whether it goes to as many members as have to have it, and not to all.
    fn is_for_few(&self, kind: MapKind) -> bool {
        kind == MapKind::Bitmap && self.spread_in.is_none()
    }
}

impl MapStore {
    pub(super) fn new(map: BitMap, versions: &[PageVersions]) -> Self {
        let page = |&PageVersions { newest, durable }: &PageVersions| Page {
            started: newest,
            durable,
            ..Page::default()
        };
        Self { map, pages: versions.iter().map(page).collect(), doubted: BTreeSet::new() }
    }

    /// Which version of a page is durable.
    pub(super) fn durable(&self, index: u32) -> u64 {
        self.pages[index as usize].durable
    }

    /// Whether a bit is set, and all members would say so.
    pub(super) fn is_surely_set(&self, bit: u64) -> bool {
        self.map.get(bit) && !self.is_doubted(bit)
    }

    /// Whether members may have a bit otherwise.
    pub(super) fn is_doubted(&self, bit: u64) -> bool {
        !self.doubted.is_empty() && self.doubted.contains(&bit)
    }

    /// A change of a bit is stored by no member: it is taken back.
    fn take_back(&mut self, bit: u64, change: Change) {
        match change {
            // Others may rely on it by now, and it does no harm.
            Change::Set if self.map.kind() == MapKind::Missed => {}
            Change::Set => drop(self.map.clear(bit)),
            Change::Cleared => drop(self.map.set(bit)),
            Change::None => {}
        }
        self.doubted.insert(bit);
    }

    /// A version of a page is durable: what members have that say otherwise is older.
    fn stored(&mut self, index: u32, version: u64) {
        self.pages[index as usize].durable = version;
        if !self.doubted.is_empty() {
            let map = &self.map;
            self.doubted.retain(|&bit| map.page_of(bit) != index);
        }
    }

    fn page_of(&self, bit: u64) -> (u32, &Page) {
        let index = self.map.page_of(bit);
        (index, &self.pages[index as usize])
    }
}

/// The storing of pages: how many stores are in flight, and how far those have come that are only
/// made because members may lack a page.
#[derive(Debug, Default)]
struct Spread {
    next: Option<u32>,
    /// All pages follow once more, which overwrites their other places, too.
    again: bool,
    /// Those of what members miss are among them, even if nothing of that counts.
    all: bool,
    in_flight: u32,
    /// Pages whose spreading has begun and not ended.
    pending: u32,
}

/// A bit of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bit(pub(super) MapKind, pub(super) u64);

/// Where pages go: the devices of an array's members.
pub(super) struct Stores<'a> {
    membership: &'a Membership,
    /// The members that take long.
    busy: Set<MemberId>,
    flights: &'a mut Flights,
    areas: &'a Areas,
    out: &'a mut Vec<Action>,
}

impl<'a> Stores<'a> {
    pub(super) fn new(
        membership: &'a Membership,
        busy: Set<MemberId>,
        flights: &'a mut Flights,
        areas: &'a Areas,
        out: &'a mut Vec<Action>,
    ) -> Self {
        Self { membership, busy, flights, areas, out }
    }

    fn all(&self) -> Set<MemberId> {
        Set::first(self.membership.of_stripes())
    }

    /// Which members get a version of a page that is not to go to all: enough of those that serve, by
    /// turns, and none that takes long if others do not.
    fn few(&self, version: u64) -> Set<MemberId> {
        let (serving, enough) = (self.membership.serving(), self.membership.enough());
        if serving.len() <= enough {
            return self.all();
        }
        let of = self.membership.of_stripes() as u64;
        let by_turns = |among: Set<MemberId>| {
            let turns = (0..of).map(move |turn| MemberId::at(((version + turn) % of) as usize));
            turns.filter(move |&member| among.has(member))
        };
        let (calm, busy) = (serving.minus(self.busy), serving.and(self.busy));
        by_turns(calm).chain(by_turns(busy)).take(enough).collect()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) bitmap: MapStore,
    pub(super) zero: MapStore,
    pub(super) missed: MapStore,
    spread: Spread,
    /// How many stores were begun.
    begun: u64,
}

impl Maps {
    pub(super) fn new(bitmap: MapStore, zero: MapStore, missed: MapStore) -> Self {
        Self { bitmap, zero, missed, spread: Spread::default(), begun: 0 }
    }

    fn map(&self, kind: MapKind) -> &MapStore {
        match kind {
            MapKind::Bitmap => &self.bitmap,
            MapKind::ZeroMap => &self.zero,
            MapKind::Missed => &self.missed,
        }
    }

    fn map_mut(&mut self, kind: MapKind) -> &mut MapStore {
        match kind {
            MapKind::Bitmap => &mut self.bitmap,
            MapKind::ZeroMap => &mut self.zero,
            MapKind::Missed => &mut self.missed,
        }
    }

    fn page(&mut self, kind: MapKind, index: u32) -> &mut Page {
        &mut self.map_mut(kind).pages[index as usize]
    }

    /// The bytes of a page as it is now.
    pub(super) fn encode(&self, array: ArrayId, kind: MapKind, index: u32, into: &mut [u8]) {
        let store = self.map(kind);
        store.map.encode_page(array, index, store.pages[index as usize].started, into);
    }

    /// How many stores of pages were begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// A job waits until a bit that was just changed is durable.
    pub(super) fn store_bit(
        &mut self,
        jobs: &mut Jobs,
        id: JobId,
        Bit(kind, bit): Bit,
        change: Change,
        stores: &mut Stores<'_>,
    ) {
        let index = self.map(kind).map.page_of(bit);
        let version = self.store_set_page(kind, index, stores);
        let page = *self.page(kind, index);
        if page.outstanding == 0 {
            self.map_mut(kind).take_back(bit, change);
            self.page(kind, index).set_in = page.durable;
            jobs[id].error = Some(RequestError::Io);
        } else if page.durable < version {
            jobs.wait(id, Wait::Page { kind, index, version, bit, change });
        }
    }

    /// For which of the busy members a job would wait that sets a bit, until that is durable.
    pub(super) fn set_waits_for(
        &self,
        Bit(kind, bit): Bit,
        membership: &Membership,
        busy: Set<MemberId>,
    ) -> Set<MemberId> {
        let store = self.map(kind);
        let (_, page) = store.page_of(bit);
        let is_set = store.map.get(bit);
        if is_set && page.set_in <= page.durable {
            return Set::EMPTY;
        }
        let begins = !is_set || page.set_in > page.started;
        let passes_by =
            page.is_for_few(kind) && !membership.are_too_few(membership.serving().minus(busy));
        let under_way = page.under_way.and(busy);
        if begins && !passes_by { busy } else { under_way }
    }

    /// A job waits until a bit is durable that others have set, if it is not.
    pub(super) fn wait_for(&self, jobs: &mut Jobs, id: JobId, Bit(kind, bit): Bit) -> bool {
        let (index, page) = self.map(kind).page_of(bit);
        let (version, change) = (page.set_in, Change::None);
        let waits = version > page.durable;
        if waits {
            jobs.wait(id, Wait::Page { kind, index, version, bit, change });
        }
        waits
    }

    /// Stores a page with bits that were just set: they are durable when that version is.
    pub(super) fn store_set_page(
        &mut self,
        kind: MapKind,
        index: u32,
        stores: &mut Stores<'_>,
    ) -> u64 {
        let version = self.store_page(kind, index, stores);
        self.page(kind, index).set_in = version;
        version
    }

    /// Asks for a page to be stored as it is now; returns the version that will be, or one before it.
    pub(super) fn store_page(&mut self, kind: MapKind, index: u32, stores: &mut Stores<'_>) -> u64 {
        let page = self.page(kind, index);
        if page.outstanding > 0 {
            page.again = true;
            return page.started + 1;
        }
        self.start_page(kind, index, stores)
    }

    fn start_page(&mut self, kind: MapKind, index: u32, stores: &mut Stores<'_>) -> u64 {
        let page = self.page(kind, index);
        page.started += 1;
        if page.started % 2 == page.durable % 2 {
            // Versions take turns at two places: what is durable is not written over.
            page.started += 1;
        }
        page.stored = Set::EMPTY;
        let version = page.started;
        let holders = if page.is_for_few(kind) { stores.few(version) } else { stores.all() };
        let Stores { membership, flights, areas, out, .. } = stores;
        let at = areas.map_page(kind, index, version);
        let what = match kind {
            MapKind::Bitmap => MetaPage::Bitmap { index },
            MapKind::ZeroMap => MetaPage::ZeroMap { index },
            MapKind::Missed => MetaPage::Missed { index },
        };
        let mut begun = 0;
        for member in holders {
            for device in membership.stored_on(member) {
                begun += 1;
                let flight = Flight::new(Owner::Page { kind, index }, Some(member), device);
                flights.issue(flight, IoOp::Store(what), at, 1, out);
            }
        }
        let page = self.page(kind, index);
        (page.outstanding, page.under_way) = (page.outstanding + begun, holders);
        self.spread.in_flight += begun;
        self.begun += u64::from(begun);
        version
    }

    /// All pages of all maps go to all members, so that each of them can be the only one left.
    pub(super) fn spread(&mut self) {
        self.spread.all &= !self.are_spread();
        self.spread.next = Some(0);
    }

    /// The same for a device that becomes a member: both places of each page are overwritten. It may have
    /// been in a member's place in a life of the array that is not on record. Its pages of that life count
    /// as many versions as these, or more.
    pub(super) fn spread_to_both_places(&mut self) {
        self.spread.next = Some(0);
        (self.spread.again, self.spread.all) = (true, true);
    }

    /// Whether some of the pages that are to be spread were not begun.
    pub(super) fn is_spreading(&self) -> bool {
        self.spread.next.is_some() || self.spread.again
    }

    /// Stores more of the pages that are to be spread, a few at a time; those of what members miss only
    /// if anything of that counts.
    pub(super) fn store_spread_pages(&mut self, misses: bool, stores: &mut Stores<'_>) {
        // A page that was asked for while it was being stored would be stored once for both.
        if self.spread.next.is_none() && self.spread.pending == 0 && self.spread.again {
            (self.spread.next, self.spread.again) = (Some(0), false);
        }
        while let Some(next) = self.spread.next {
            if self.spread.in_flight >= SPREAD_MAX {
                return;
            }
            let (bitmap, zero) = (self.bitmap.map.pages(), self.zero.map.pages());
            let missed = if misses || self.spread.all { self.missed.map.pages() } else { 0 };
            let total = bitmap + zero + missed;
            self.spread.next = (next + 1 < total).then_some(next + 1);
            let (kind, index) = match next.checked_sub(bitmap) {
                None => (MapKind::Bitmap, next),
                Some(index) if index < zero => (MapKind::ZeroMap, index),
                Some(index) => (MapKind::Missed, index - zero),
            };
            // It goes to all members.
            let is_next = self.page(kind, index).spread_in.replace(u64::MAX).is_none();
            let version = self.store_page(kind, index, stores);
            let page = self.page(kind, index);
            page.spread_in = (page.outstanding > 0).then_some(version);
            self.spread.pending += u32::from(is_next && page.outstanding > 0);
        }
    }

    /// Whether all pages that are to be spread have been.
    pub(super) fn are_spread(&self) -> bool {
        !self.is_spreading() && self.spread.pending == 0
    }

    /// The store of a page on a member has ended. It is `taken` if a start would look at it there.
    pub(super) fn page_done(
        &mut self,
        kind: MapKind,
        index: u32,
        (member, taken): (MemberId, bool),
        jobs: &mut Jobs,
        stores: &mut Stores<'_>,
    ) {
        self.spread.in_flight -= 1;
        let page = self.page(kind, index);
        if taken {
            page.stored = page.stored.with(member);
        }
        page.under_way = page.under_way.without(member);
        page.outstanding -= 1;
        if page.outstanding > 0 {
            return;
        }
        let (stored, version) = (page.stored, page.started);
        // Some may have failed since it was begun, and others have begun to serve. Without redundancy
        // those serve, too, that have refused it.
        let membership = stores.membership;
        if membership.redundancy() > 0 && membership.are_too_few(stored) {
            self.start_page(kind, index, stores);
            return;
        }
        let page = self.page(kind, index);
        let spread = page.spread_in.take_if(|wanted| *wanted <= version).is_some();
        let again = core::mem::take(&mut page.again);
        self.spread.pending -= u32::from(spread);
        let over = |wait: &Wait| {
            matches!(*wait, Wait::Page { kind: k, index: i, version: v, .. }
                if k == kind && i == index && v <= version)
        };
        if !stored.is_empty() {
            self.map_mut(kind).stored(index, version);
            jobs.wake(over);
        } else if !again {
            self.page_is_lost(kind, index, jobs, over);
        }
        if again {
            // What waits for a page that no member has stored waits for this.
            self.start_page(kind, index, stores);
        }
    }

    /// A page was stored by no member, and nothing that waits is in a later version of it.
    fn page_is_lost(
        &mut self,
        kind: MapKind,
        index: u32,
        jobs: &mut Jobs,
        over: impl Fn(&Wait) -> bool,
    ) {
        let map = self.map_mut(kind);
        for wait in jobs.waits() {
            if let Wait::Page { bit, change, .. } = *wait
                && over(wait)
            {
                map.take_back(bit, change);
            }
        }
        let page = self.page(kind, index);
        page.set_in = page.durable;
        jobs.fail_waiting(over);
    }
}

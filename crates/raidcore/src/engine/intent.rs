//! What has to be durable before members change: region bits, zero-map bits, journal entries.
//!
//! Invariants: a page has one store in flight; a version of it is durable when all members that
//! are kept current have it; a region's bit is set on disk while a write in it is under way, and is
//! cleared only after a flush that began when no write was. A change of a bit that no member has
//! stored is taken back, with an error for the jobs that wait for it; since a member may have it all
//! the same, what relies on a bit of the zero map stores its page anew first.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::flight::{Flight, Owner};
use super::job::{Stage, Wait, Work};
use super::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::meta::{ArrayId, BitMap, Consistency, MapKind, MetaPage, SlotState};
use crate::units::MemberId;

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

/// What a job has changed of its bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// It was clear.
    Set,
    /// It was set.
    Cleared,
    /// It has changed nothing; members are told of the bit as it is.
    None,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    started: u64,
    durable: u64,
    outstanding: u32,
    stored: u32,
    /// A member has taken it that was still being filled, which does not count.
    early: bool,
    again: bool,
    /// The version that has the latest bit to be set.
    set_in: u64,
    /// The version that is to be on all members, if it may not be yet.
    spread_in: Option<u64>,
}

impl MapStore {
    pub(super) fn new(map: BitMap, versions: &[u64]) -> Self {
        let page = |&version| Page { started: version, durable: version, ..Page::default() };
        Self { map, pages: versions.iter().map(page).collect(), doubted: BTreeSet::new() }
    }

    /// Which version of a page is durable.
    pub(super) fn durable(&self, index: u32) -> u64 {
        self.pages[index as usize].durable
    }

    /// The page of a set bit, and the version of it that has to become durable before the bit is.
    pub(super) fn awaited(&self, bit: u64) -> Option<(u32, u64)> {
        let (index, page) = self.page_of(bit);
        (page.set_in > page.durable).then_some((index, page.set_in))
    }

    /// Whether a bit is set, and all members would say so.
    pub(super) fn is_surely_set(&self, bit: u64) -> bool {
        self.map.get(bit) && !self.is_doubted(bit)
    }

    fn is_doubted(&self, bit: u64) -> bool {
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

    /// A version of a page is on all members: they say what it says.
    fn stored(&mut self, index: u32, version: u64) {
        self.pages[index as usize].durable = version;
        if !self.doubted.is_empty() {
            let map = &self.map;
            self.doubted.retain(|&bit| map.page_of(bit) != index);
        }
    }

    pub(super) fn encode(&self, array: ArrayId, index: u32, into: &mut [u8]) {
        self.map.encode_page(array, index, self.pages[index as usize].started, into);
    }

    fn page_of(&self, bit: u64) -> (u32, &Page) {
        let index = self.map.page_of(bit);
        (index, &self.pages[index as usize])
    }
}

/// The storing of pages: how many stores are in flight, and how far those have come that are only
/// made because members may lack a page.
#[derive(Debug, Default)]
pub(super) struct Spread {
    next: Option<u32>,
    in_flight: u32,
    /// Pages whose spreading has begun and not ended.
    pending: u32,
}

/// What is known of the regions of the write-intent bitmap.
#[derive(Debug)]
pub(super) struct Regions {
    writes: Vec<u16>,
    state: Vec<RegionState>,
    /// Regions whose redundancy may not match since an unclean stop.
    pub(super) unsynced: BitMap,
    touched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RegionState {
    Idle,
    /// Written since the last look.
    Touched,
    /// Not written since a flush was asked for.
    Resting,
}

impl Regions {
    /// Every marked region may be out of step.
    pub(super) fn new(bitmap: &BitMap) -> Self {
        let count = bitmap.len() as usize;
        Self {
            writes: vec![0; count],
            state: vec![RegionState::Idle; count],
            unsynced: bitmap.clone(),
            touched: false,
        }
    }

    pub(super) fn is_unsynced(&self, region: u64) -> bool {
        !self.unsynced.is_empty() && self.unsynced.get(region)
    }

    /// Whether there is something to clear some time.
    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    /// A region is in step again; its bit may be cleared.
    pub(super) fn synced(&mut self, region: u64) {
        self.unsynced.clear(region);
        self.touch(region);
    }

    fn touch(&mut self, region: u64) {
        self.state[region as usize] = RegionState::Touched;
        self.touched = true;
    }

    /// The flush for the regions at rest did not do: they will need another.
    pub(super) fn rest_no_more(&mut self) {
        for state in &mut self.state {
            if *state == RegionState::Resting {
                *state = RegionState::Touched;
                self.touched = true;
            }
        }
    }

    /// Regions without writes under way come to rest, to be cleared after a flush.
    pub(super) fn rest(&mut self) {
        self.touched = false;
        for (state, &writes) in self.state.iter_mut().zip(&self.writes) {
            if *state == RegionState::Touched {
                if writes == 0 {
                    *state = RegionState::Resting;
                } else {
                    self.touched = true;
                }
            }
        }
    }
}

impl Engine {
    /// Makes durable what must be before members change.
    pub(super) fn intend(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.jobs[id];
        let stripe = job.stripe;
        if matches!(job.work, Work::Zero { .. }) {
            let change = if self.zero.map.set(stripe.0) { Change::Set } else { Change::None };
            self.store_bit(id, MapKind::ZeroMap, stripe.0, change, out);
            return Stage::Write;
        }
        self.note_missed(id, out);
        let job = &self.jobs[id];
        if self.zero.is_doubted(stripe.0) && job.error.is_none() {
            self.store_bit(id, MapKind::ZeroMap, stripe.0, Change::None, out);
        }
        let (consistency, job) = (self.array.recorder.record.consistency, &self.jobs[id]);
        let redundant = self.geo.redundancy() > 0;
        if redundant && consistency != Consistency::Resync && !job.marked {
            self.mark_region(id, out);
        }
        if self.needs_entry(id) {
            if let Some(ticket) = self.array.recorder.unrecorded_failure() {
                // Should who has failed come back, it would not have what the entry does not hold
                // for it, but which its parity counts on.
                self.wait_for_record(id, ticket);
                return Stage::Intend;
            }
            if !self.write_entry(id, out) {
                return Stage::Intend;
            }
        }
        Stage::Write
    }

    fn mark_region(&mut self, id: JobId, out: &mut Vec<Action>) {
        let region = self.areas.region(self.jobs[id].stripe);
        self.jobs[id].marked = true;
        self.regions.writes[region as usize] += 1;
        self.regions.touch(region);
        let (index, page) = self.bitmap.page_of(region);
        let (set_in, durable) = (page.set_in, page.durable);
        if self.bitmap.map.set(region) {
            self.store_bit(id, MapKind::Bitmap, region, Change::Set, out);
        } else if set_in > durable {
            // The region's bit may be durable already, and the page be stored for another's. Only the
            // write that has set a bit takes it back.
            let (kind, change) = (MapKind::Bitmap, Change::None);
            self.jobs.wait(id, Wait::Page { kind, index, version: set_in, bit: region, change });
        }
    }

    /// What a write had in hand is no longer under way.
    pub(super) fn end_intent(&mut self, id: JobId, out: &mut Vec<Action>) {
        let job = &mut self.jobs[id];
        let (stripe, failed) = (job.stripe, job.error.is_some());
        if core::mem::take(&mut job.marked) {
            let region = self.areas.region(stripe);
            self.regions.writes[region as usize] -= 1;
            self.regions.touch(region);
        }
        if let Some((entry, holders)) = job.entry.take().filter(|_| !failed) {
            self.entry_at_home(entry, holders, out);
        }
    }

    /// A job waits until a bit that was just changed is durable.
    pub(super) fn store_bit(
        &mut self,
        id: JobId,
        kind: MapKind,
        bit: u64,
        change: Change,
        out: &mut Vec<Action>,
    ) {
        let index = self.map(kind).page_of(bit).0;
        let version = self.store_set_page(kind, index, out);
        let page = self.map(kind).pages[index as usize];
        if page.outstanding == 0 {
            let map = self.map(kind);
            map.take_back(bit, change);
            map.pages[index as usize].set_in = page.durable;
            self.jobs[id].error = Some(RequestError::Io);
        } else if page.durable < version {
            self.jobs.wait(id, Wait::Page { kind, index, version, bit, change });
        }
    }

    /// The same for a page with bits that were just set: they are durable when that version is.
    pub(super) fn store_set_page(
        &mut self,
        kind: MapKind,
        index: u32,
        out: &mut Vec<Action>,
    ) -> u64 {
        let version = self.store_page(kind, index, out);
        self.map(kind).pages[index as usize].set_in = version;
        version
    }

    /// Asks for a page to be stored as it is now; returns the version that will be, or one before it.
    pub(super) fn store_page(&mut self, kind: MapKind, index: u32, out: &mut Vec<Action>) -> u64 {
        let page = &mut self.map(kind).pages[index as usize];
        if page.outstanding > 0 {
            page.again = true;
            return page.started + 1;
        }
        self.start_page(kind, index, out)
    }

    fn start_page(&mut self, kind: MapKind, index: u32, out: &mut Vec<Action>) -> u64 {
        let page = &mut self.map(kind).pages[index as usize];
        page.started += 1;
        if page.started % 2 == page.durable % 2 {
            // Versions take turns at two places: what is durable is not written over.
            page.started += 1;
        }
        (page.stored, page.early) = (0, false);
        let version = page.started;
        let at = self.areas.map_page(kind, index, version);
        let what = match kind {
            MapKind::Bitmap => MetaPage::Bitmap { index },
            MapKind::ZeroMap => MetaPage::ZeroMap { index },
            MapKind::Missed => MetaPage::Missed { index },
        };
        for member in (0..self.geo.members() as u8).map(MemberId) {
            for device in self.array.stored_on(member) {
                self.map(kind).pages[index as usize].outstanding += 1;
                self.spread.in_flight += 1;
                self.counters.meta_stores += 1;
                let op = Flight::new(Owner::Page { kind, index }, Some(member), device);
                self.issue(op, IoOp::Store(what), at, 1, out);
            }
        }
        version
    }

    /// All pages of all maps go to all members, so that each of them can be the only one left.
    pub(super) fn spread_maps(&mut self) {
        self.spread.next = Some(0);
    }

    /// Stores more of the pages that are to be spread, a few at a time.
    pub(super) fn store_spread_pages(&mut self, out: &mut Vec<Action>) {
        while let Some(next) = self.spread.next {
            if self.spread.in_flight >= SPREAD_MAX {
                return;
            }
            let (bitmap, zero) = (self.bitmap.map.pages(), self.zero.map.pages());
            let missed = if self.missed.is_used() { self.missed.store.map.pages() } else { 0 };
            let total = bitmap + zero + missed;
            self.spread.next = (next + 1 < total).then_some(next + 1);
            let (kind, index) = match next.checked_sub(bitmap) {
                None => (MapKind::Bitmap, next),
                Some(index) if index < zero => (MapKind::ZeroMap, index),
                Some(index) => (MapKind::Missed, index - zero),
            };
            let version = self.store_page(kind, index, out);
            let page = &mut self.map(kind).pages[index as usize];
            if page.outstanding > 0 && page.spread_in.replace(version).is_none() {
                self.spread.pending += 1;
            }
        }
    }

    /// Whether all pages that are to be spread have been.
    pub(super) fn maps_are_spread(&self) -> bool {
        self.spread.next.is_none() && self.spread.pending == 0
    }

    pub(super) fn page_done(
        &mut self,
        kind: MapKind,
        index: u32,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        match (result, op.member) {
            (Err(why), Some(member)) if self.array.is_current(&op) => {
                self.write_failed(member, why, out);
            }
            // What only a successor has, or a member being filled, is found by nobody after a crash.
            (Ok(()), Some(_)) if self.array.is_successor(op.device) => {}
            (Ok(()), Some(member)) if self.array.state(member) == SlotState::Up => {
                self.map(kind).pages[index as usize].stored += 1;
            }
            (Ok(()), Some(_)) => self.map(kind).pages[index as usize].early = true,
            (Ok(()) | Err(_), _) => {}
        }
        self.spread.in_flight -= 1;
        let page = &mut self.map(kind).pages[index as usize];
        page.outstanding -= 1;
        if page.outstanding > 0 {
            return;
        }
        let (stored, version) = (page.stored, page.started);
        if stored == 0 && page.early && !self.array.serving().is_empty() {
            // Perhaps who took it too early serves now.
            self.start_page(kind, index, out);
            return;
        }
        let page = &mut self.map(kind).pages[index as usize];
        let spread = page.spread_in.take_if(|wanted| *wanted <= version).is_some();
        let again = core::mem::take(&mut page.again);
        self.spread.pending -= u32::from(spread);
        let over = |wait: &Wait| {
            matches!(*wait, Wait::Page { kind: k, index: i, version: v, .. }
                if k == kind && i == index && v <= version)
        };
        if stored > 0 {
            self.map(kind).stored(index, version);
            self.jobs.wake(over);
        } else if !again {
            self.page_is_lost(kind, index, over);
        }
        if again {
            // Who waits for what no member has stored waits for this.
            self.start_page(kind, index, out);
        }
    }

    /// A page was stored by no member, and nothing that waits is in a later version of it.
    fn page_is_lost(&mut self, kind: MapKind, index: u32, over: impl Fn(&Wait) -> bool) {
        let map = match kind {
            MapKind::Bitmap => &mut self.bitmap,
            MapKind::ZeroMap => &mut self.zero,
            MapKind::Missed => &mut self.missed.store,
        };
        for wait in self.jobs.waits() {
            if let Wait::Page { bit, change, .. } = *wait
                && over(wait)
            {
                map.take_back(bit, change);
            }
        }
        let page = &mut self.map(kind).pages[index as usize];
        page.set_in = page.durable;
        self.jobs.fail_waiting(over);
    }

    /// Whether a region stays marked for the next start, as a write has left a stripe of it out of step.
    fn has_torn(&self, region: u64) -> bool {
        self.alignment.torn().any(|stripe| self.areas.region(stripe) == region)
    }

    /// Clears the bits of regions that rested through a flush.
    pub(super) fn clear_rested(&mut self, out: &mut Vec<Action>) {
        let mut page = None;
        for region in 0..self.regions.state.len() {
            if self.regions.state[region] != RegionState::Resting {
                continue;
            }
            self.regions.state[region] = RegionState::Idle;
            let region = region as u64;
            if self.regions.is_unsynced(region)
                || self.has_torn(region)
                || !self.bitmap.map.clear(region)
            {
                continue;
            }
            let index = self.bitmap.map.page_of(region);
            if let Some(before) = page.replace(index).filter(|&before| before != index) {
                self.store_page(MapKind::Bitmap, before, out);
            }
        }
        if let Some(index) = page {
            self.store_page(MapKind::Bitmap, index, out);
        }
    }
}

//! What has to be durable before members change: region bits, zero-map bits, journal entries.
//!
//! Invariant: while a write is under way, and until a flush that began after it has ended, either the
//! journal has its entry, or its region's bit is set on disk.

use alloc::vec;
use alloc::vec::Vec;

use super::flight::Flight;
use super::maps::{Bit, Stores, Taken};
use super::stage::Stage;
use super::wait::Change;
use super::work::Work;
use super::{Action, Engine, IoError, JobId};
use crate::meta::{BitMap, Consistency, MapKind, SlotState};

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
            let change = if self.maps.zero.map.set(stripe.0) { Change::Set } else { Change::None };
            self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), change, out);
            return Stage::Write;
        }
        self.note_missed(id, out);
        let job = &self.jobs[id];
        if self.maps.zero.is_doubted(stripe.0) && job.error.is_none() {
            self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), Change::None, out);
        }
        if self.needs_entry(id) {
            if let Some(ticket) = self.array.recorder.unrecorded_failure() {
                // Should the failed member come back, it would not have what the entry does not hold
                // for it, but which its parity counts on.
                self.wait_for_record(id, ticket);
                return Stage::Intend;
            }
            if !self.write_entry(id, out) {
                return Stage::Intend;
            }
        }
        if self.needs_mark(id) {
            self.mark_region(id, out);
        }
        Stage::Write
    }

    /// Whether a write's region has to be marked: a start would not find out by its entry in the journal
    /// which stripe it has left out of step.
    pub(super) fn needs_mark(&self, id: JobId) -> bool {
        let job = &self.jobs[id];
        // An entry goes with those that have the parity. Copies of a chunk may outlive them.
        let copied = self.array.spared().is_some() || self.array.succession.is_some();
        let told = !copied && (job.entry.is_some() || self.needs_entry(id));
        self.geo.redundancy() > 0
            && self.array.recorder.record.consistency != Consistency::Resync
            && !job.marked
            && !told
    }

    fn mark_region(&mut self, id: JobId, out: &mut Vec<Action>) {
        let region = self.areas.region(self.jobs[id].stripe);
        self.jobs[id].marked = true;
        self.regions.writes[region as usize] += 1;
        self.regions.touch(region);
        if self.maps.bitmap.map.set(region) {
            self.store_bit(id, Bit(MapKind::Bitmap, region), Change::Set, out);
        } else {
            // The region's bit may be durable already, and the page be stored for another's. Only the
            // write that has set a bit takes it back.
            self.maps.wait_for(&mut self.jobs, id, Bit(MapKind::Bitmap, region));
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
    pub(super) fn store_bit(&mut self, id: JobId, bit: Bit, change: Change, out: &mut Vec<Action>) {
        let mut stores = Stores::new(&self.array, &mut self.flights, &self.areas, out);
        self.maps.store_bit(&mut self.jobs, id, bit, change, &mut stores);
    }

    /// Asks for a page to be stored as it is now; returns the version that will be, or one before it.
    pub(super) fn store_page(&mut self, kind: MapKind, index: u32, out: &mut Vec<Action>) -> u64 {
        let mut stores = Stores::new(&self.array, &mut self.flights, &self.areas, out);
        self.maps.store_page(kind, index, &mut stores)
    }

    /// Stores more of the pages that are to be spread, a few at a time.
    pub(super) fn store_spread_pages(&mut self, out: &mut Vec<Action>) {
        if !self.maps.is_spreading() {
            return;
        }
        let mut stores = Stores::new(&self.array, &mut self.flights, &self.areas, out);
        let misses = self.missed.is_used(&self.maps.missed.map);
        self.maps.store_spread_pages(misses, &mut stores);
    }

    pub(super) fn page_done(
        &mut self,
        (kind, index): (MapKind, u32),
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let taken = match (result, op.member) {
            (Err(why), Some(member)) if self.array.is_current(&op) => {
                self.write_failed(member, why, out);
                Taken::No
            }
            // A start after a crash does not look at a successor, nor at a member being filled.
            (Ok(()), Some(_)) if self.array.is_successor(op.device) => Taken::Early,
            (Ok(()), Some(member)) if self.array.state(member) == SlotState::Up => Taken::Yes,
            (Ok(()), Some(_)) => Taken::Early,
            (Ok(()) | Err(_), _) => Taken::No,
        };
        let mut stores = Stores::new(&self.array, &mut self.flights, &self.areas, out);
        self.maps.page_done(kind, index, taken, &mut self.jobs, &mut stores);
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
                || !self.maps.bitmap.map.clear(region)
            {
                continue;
            }
            let index = self.maps.bitmap.map.page_of(region);
            if let Some(before) = page.replace(index).filter(|&before| before != index) {
                self.store_page(MapKind::Bitmap, before, out);
            }
        }
        if let Some(index) = page {
            self.store_page(MapKind::Bitmap, index, out);
        }
    }
}

//! What jobs make durable before members change: bits of the maps, and journal entries.
//!
//! Invariant: while a write is under way, and until a flush that began after it has ended, either the
//! journal has its entry, or its region's bit is set on disk.

use alloc::vec::Vec;

use crate::engine::flight::Flight;
use crate::engine::maps::{Bit, Stores};
use crate::engine::stage::Stage;
use crate::engine::wait::Change;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, JobId};
use crate::meta::{Consistency, MapKind, SlotState};

impl Engine {
    /// Makes durable what must be before members change.
    pub(super) fn intend(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.range.jobs[id];
        let stripe = job.stripe;
        if matches!(job.work, Work::Zero { .. }) {
            let change =
                if self.range.maps.zero.map.set(stripe.0) { Change::Set } else { Change::None };
            self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), change, out);
            return Stage::Write;
        }
        self.note_missed(id, out);
        let job = &self.range.jobs[id];
        if self.range.maps.zero.is_doubted(stripe.0) && job.error.is_none() {
            self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), Change::None, out);
        }
        if self.needs_entry(id) {
            if let Some(ticket) = self.array.membership.recorder.unrecorded_failure() {
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
        let job = &self.range.jobs[id];
        // An entry goes with those that have the parity. Copies of a chunk may outlive them.
        let copied = self.array.membership.spared().is_some()
            || self.array.membership.succession().is_some();
        let told = !copied && (job.journaled.entry.is_some() || self.needs_entry(id));
        self.layout.redundancy() > 0
            && self.array.membership.record().consistency != Consistency::Resync
            && !job.marked
            && !told
    }

    fn mark_region(&mut self, id: JobId, out: &mut Vec<Action>) {
        let region = self.areas.region(self.range.jobs[id].stripe);
        self.range.jobs[id].marked = true;
        self.range.regions.begin_write(region);
        if self.range.maps.bitmap.map.set(region) {
            self.store_bit(id, Bit(MapKind::Bitmap, region), Change::Set, out);
        } else {
            // The region's bit may be durable already, and the page be stored for another's. Only the
            // write that has set a bit takes it back.
            self.range.maps.wait_for(&mut self.range.jobs, id, Bit(MapKind::Bitmap, region));
        }
    }

    /// What a write had in hand is no longer under way.
    pub(super) fn end_intent(&mut self, id: JobId, out: &mut Vec<Action>) {
        let job = &mut self.range.jobs[id];
        let (stripe, failed) = (job.stripe, job.error.is_some());
        if core::mem::take(&mut job.marked) {
            let region = self.areas.region(stripe);
            self.range.regions.end_write(region);
        }
        if let Some((entry, holders)) = job.journaled.entry.take().filter(|_| !failed) {
            self.range.journal.entry_at_home(entry, holders);
            self.feed_starved(out);
        }
    }

    /// A job waits until a bit that was just changed is durable.
    pub(super) fn store_bit(&mut self, id: JobId, bit: Bit, change: Change, out: &mut Vec<Action>) {
        let mut stores = Stores::new(
            &self.array.membership,
            self.array.steering.busy(),
            &mut self.array.flights,
            &self.areas,
            out,
        );
        self.range.maps.store_bit(&mut self.range.jobs, id, bit, change, &mut stores);
    }

    /// Asks for a page to be stored as it is now; returns the version that will be, or one before it.
    pub(super) fn store_page(&mut self, kind: MapKind, index: u32, out: &mut Vec<Action>) -> u64 {
        let mut stores = Stores::new(
            &self.array.membership,
            self.array.steering.busy(),
            &mut self.array.flights,
            &self.areas,
            out,
        );
        self.range.maps.store_page(kind, index, &mut stores)
    }

    /// Whether all pages that are to be spread have been, or have to stay as they are for good.
    pub(super) fn are_maps_spread(&self) -> bool {
        let recorder = &self.array.membership.recorder;
        self.range.maps.are_spread() || recorder.is_broken() && recorder.keeps_former_maps()
    }

    /// Stores more of the pages that are to be spread, a few at a time.
    pub(super) fn store_spread_pages(&mut self, out: &mut Vec<Action>) {
        if !self.range.maps.is_spreading() || self.array.membership.recorder.keeps_former_maps() {
            return;
        }
        let mut stores = Stores::new(
            &self.array.membership,
            self.array.steering.busy(),
            &mut self.array.flights,
            &self.areas,
            out,
        );
        let misses = self.range.missed.is_used(&self.range.maps.missed.map);
        self.range.maps.store_spread_pages(misses, &mut stores);
    }

    pub(super) fn page_done(
        &mut self,
        (kind, index): (MapKind, u32),
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let Some(member) = op.member else { return };
        let membership = &self.array.membership;
        // A start after a crash does not look at a successor, nor at a member being filled.
        let is_looked_at =
            !membership.is_successor(op.device) && membership.state(member) == SlotState::Up;
        if let (Err(why), true) = (result, membership.is_current(&op)) {
            self.write_failed(member, why, out);
        }
        let taken = (member, result.is_ok() && is_looked_at);
        let mut stores = Stores::new(
            &self.array.membership,
            self.array.steering.busy(),
            &mut self.array.flights,
            &self.areas,
            out,
        );
        self.range.maps.page_done(kind, index, taken, &mut self.range.jobs, &mut stores);
    }

    /// Whether a region stays marked for the next start, as a write has left a stripe of it out of step.
    fn has_torn(&self, region: u64) -> bool {
        self.range.alignment.torn().any(|stripe| self.areas.region(stripe) == region)
    }

    /// Clears the bits of regions that rested through a flush.
    pub(super) fn clear_rested(&mut self, out: &mut Vec<Action>) {
        let (mut page, mut next) = (None, 0);
        while let Some(region) = self.range.regions.next_rested(next) {
            next = region + 1;
            if self.range.regions.is_unsynced(region)
                || self.has_torn(region)
                || !self.range.maps.bitmap.map.clear(region)
            {
                continue;
            }
            let index = self.range.maps.bitmap.map.page_of(region);
            if let Some(before) = page.replace(index).filter(|&before| before != index) {
                self.store_page(MapKind::Bitmap, before, out);
            }
        }
        if let Some(index) = page {
            self.store_page(MapKind::Bitmap, index, out);
        }
    }
}

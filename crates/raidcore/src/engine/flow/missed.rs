//! What members that are away miss is noted, and filled when they return.

use alloc::vec::Vec;

use crate::engine::maps::{Bit, Stores};
use crate::engine::wait::Change;
use crate::engine::{Action, Engine, JobId, MissedStatus, Phase};
use crate::meta::{Consistency, MapKind, SlotState};
use crate::units::{MemberId, Stripe};

impl Engine {
    /// Sees to it that a job's region is in the map before members change, if it has to be. Tells whether
    /// the job has to wait for that, or has failed.
    pub(super) fn note_missed(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let noted = self.notes_missed();
        if !noted && !self.range.missed.is_filling() {
            return false;
        }
        let (work, stripe) = (self.range.jobs[id].work, self.range.jobs[id].stripe);
        if !work.is_missed() || self.range.jobs[id].error.is_some() {
            return false;
        }
        let region = self.areas.region(stripe);
        let bit = Bit(MapKind::Missed, region);
        if noted && self.range.maps.missed.map.set(region) {
            self.store_bit(id, bit, Change::Set, out);
            return true;
        }
        if !self.range.maps.missed.map.get(region) {
            return false;
        }
        if !self.range.maps.missed.is_surely_set(region) {
            self.store_bit(id, bit, Change::None, out);
            return true;
        }
        self.range.maps.wait_for(&mut self.range.jobs, id, bit)
    }

    /// Whether writes note which regions they change.
    pub(super) fn notes_missed(&self) -> bool {
        let recorder = &self.array.membership.recorder;
        self.range.missed.is_noted(|version| recorder.is_on_record(version))
    }

    /// A job begins to change members.
    pub(super) fn note_unmarked(&mut self, id: JobId) {
        if self.range.jobs[id].work.is_unmarked() {
            let region = self.areas.region(self.range.jobs[id].stripe);
            self.range.missed.begin_unmarked(region);
        }
    }

    /// A job has ended: a flush that begins from now on makes durable what it has changed.
    pub(super) fn end_unmarked(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        if job.work.is_unmarked() {
            let region = self.areas.region(job.stripe);
            self.range.missed.end_unmarked(region, self.array.flusher.next_round());
        }
    }

    /// A flush round has made durable what had been changed when it began, but not what is still under way.
    pub(super) fn forget_unmarked(&mut self, round: u64) {
        let (jobs, areas) = (&self.range.jobs, &self.areas);
        let is_under_way = |region| {
            let mut unmarked = jobs.iter().filter(|job| job.work.is_unmarked());
            unmarked.any(|job| areas.region(job.stripe) == region)
        };
        self.range.missed.flushed(round, is_under_way);
    }

    /// Adds the regions of all jobs that may change members, or have begun to.
    fn add_those_under_way(&mut self) {
        for job in self.range.jobs.iter() {
            if job.work.is_missed() {
                self.range.maps.missed.map.set(self.areas.region(job.stripe));
            }
        }
    }

    /// Stores all pages of the map; those that are needed are these versions.
    fn store_missed(&mut self, out: &mut Vec<Action>) {
        let mut stores = Stores::new(
            &self.array.membership,
            self.array.steering.busy(),
            &mut self.array.flights,
            &self.areas,
            out,
        );
        for index in 0..self.range.maps.missed.map.pages() {
            let version = self.range.maps.store_set_page(MapKind::Missed, index, &mut stores);
            self.range.missed.wants(index, version);
        }
    }

    /// A member is out of service that was known to lack nothing, or what: its device may return, and what
    /// it may lack is noted. Its state is failed by now.
    pub(super) fn is_away(&mut self, member: MemberId, out: &mut Vec<Action>) {
        self.range.missed.forget(member);
        let stripes = member.index() < self.layout.members() && self.layout.redundancy() > 0;
        // A stop is answered when its record is durable: pages would be under way then.
        if !stripes || self.phase == Phase::Stopped {
            return;
        }
        let unmarked = self.array.membership.record().consistency == Consistency::Resync;
        if unmarked && self.phase != Phase::Replaying {
            self.range.maps.missed.map.set_all();
        }
        self.range.maps.missed.map.set_those_of(&self.range.maps.bitmap.map);
        self.range.maps.missed.map.set_those_of(self.range.regions.unsynced());
        for stripe in self.range.journal.unflushed() {
            self.range.maps.missed.map.set(self.areas.region(stripe));
        }
        for region in self.range.missed.unmarked() {
            self.range.maps.missed.map.set(region);
        }
        self.add_those_under_way();
        let version = self.array.membership.record().events;
        self.range.missed.goes_away(member, version);
        self.store_missed(out);
    }

    /// A device has returned to a member's place, and catches up: from now on it is written wherever it is
    /// current. Jobs that were planned without it go on without it, so it is not current where they are.
    pub(super) fn catches_up(&mut self, member: MemberId, out: &mut Vec<Action>) {
        self.range.missed.forget(member);
        self.add_those_under_way();
        self.store_missed(out);
        self.range.missed.fills(member, self.range.maps.missed.map.clone());
    }

    /// Puts on record that devices may return, when all that they miss is in durable pages; and forgets
    /// what was missed when it is on record that it is not needed.
    pub(super) fn settle_missed(&mut self, out: &mut Vec<Action>) {
        if !self.range.missed.is_used(&self.range.maps.missed.map)
            || matches!(self.phase, Phase::Broken | Phase::Stopped)
        {
            return;
        }
        let away = self.range.missed.take_recordable(&self.range.maps.missed);
        for &(member, left) in &away {
            self.array.membership.may_come_back(member, left);
        }
        if !away.is_empty() {
            self.record_change(out);
        }
        // Before a start is on record, the members that are missing are not known to be away.
        let unused = self.phase != Phase::Replaying
            && self.range.missed.is_none_away()
            && !self.array.membership.record().keeps_missed();
        if unused && self.array.membership.recorder.is_durable() {
            self.range.maps.missed.map.clear_all();
        }
    }

    /// What the device that a member has, or had, lacks; nothing if it lacks nothing, or that is not known.
    pub(super) fn missed_by(&self, member: MemberId) -> Option<MissedStatus> {
        let slot = &self.array.membership.record().slots[member.index()];
        let map = &self.range.maps.missed.map;
        let regions = match slot.state {
            SlotState::Failed => slot.left.map(|_| map.count())?,
            SlotState::Rebuilding { .. } => {
                let filled = self.range.missed.to_fill(member)?;
                let per_region = self.areas.region_stripes();
                let left = (0..filled.len()).filter(|&region| filled.get(region));
                let progress = self.array.background.progress_of(member);
                let end = |region: u64| ((region + 1) * per_region).min(self.layout.stripes());
                let open = |region: &u64| {
                    progress.next_open(region * per_region, end(*region)) < end(*region)
                };
                left.filter(open).count() as u64
            }
            SlotState::Up => return None,
        };
        let blocks =
            regions * self.layout.blocks_before(Stripe(self.areas.region_stripes()), member);
        Some(MissedStatus { regions, of: map.len(), blocks })
    }
}

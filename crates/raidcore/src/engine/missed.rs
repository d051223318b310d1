//! Members that are away and may come back: what they miss, and what has to be filled when they return.
//!
//! A member that fails lacks at most what was written in marked regions or is in the journal, and what was
//! changed there and elsewhere since. So the *map of what is missed* takes over the marks and the journal's
//! stripes when a member fails, and after that gets a bit for each region before members change in it. A device that returns is current in all other
//! regions at once, and the ordinary rebuild fills those.
//!
//! Invariants:
//! - While a member is away whose device may return, its region's bit is durable before any other member
//!   changes; likewise as long as it is not on record that it has returned, or that another device has its
//!   place. What changes members without a mark in the write-intent bitmap is remembered until a flush that
//!   began after it has ended.
//! - That a device may return is on record only when all that it had missed when it failed is in durable
//!   pages. A release that does not know of this writes neither.
//! - Bits are never cleared but all at once, when it is on record that no member is away or catching up.
//! - Where a device that has returned is not current, the region's bit is set, and durable before others
//!   change there.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::maps::{Bit, MapStore, Stores};
use super::wait::Change;
use super::work::Work;
use super::{Action, Engine, JobId, MissedStatus, PassKind, Phase};
use crate::meta::{Assembled, BitMap, Consistency, MapKind, SlotState};
use crate::units::{MemberId, Set, Stripe};

/// What members miss.
#[derive(Debug)]
pub(super) struct Missed {
    /// The members that are away and may return.
    away: Set<MemberId>,
    /// Those of them of which that is not on record yet, and the latest record that they may have.
    unrecorded: Vec<(MemberId, u64)>,
    /// The version of each page that has to be durable before it is.
    wanted: Vec<u64>,
    /// Regions in which members were changed without a mark, and the flush round that makes durable what
    /// has ended of that; none yet while the first change is under way.
    unmarked: BTreeMap<u64, Option<u64>>,
    /// Members that have returned, and are being filled.
    catching_up: Set<MemberId>,
    /// The version of the record that has the latest device in the place of one that was away. Until it is
    /// durable, a crash makes the member one that is away again, which may lack what was written since.
    placed_with: u64,
    /// For each of them, the regions in which it is not current until it is filled there.
    filling: Vec<Option<BitMap>>,
}

impl Missed {
    /// As it was recorded.
    pub(super) fn new(assembled: &Assembled) -> Self {
        let record = &assembled.record;
        let members = record.slots.iter().take(record.geometry.members());
        let which = || (0..members.len()).map(MemberId::at).zip(members.clone());
        let away = which().filter(|(_, slot)| slot.left.is_some());
        let catching_up = which().filter(|(_, slot)| slot.catches_up);
        let filled = members.map(|slot| slot.catches_up.then(|| assembled.missed.clone()));
        Self {
            away: away.map(|(member, _)| member).collect(),
            unrecorded: Vec::new(),
            wanted: vec![0; assembled.missed_versions.len()],
            unmarked: BTreeMap::new(),
            catching_up: catching_up.map(|(member, _)| member).collect(),
            placed_with: 0,
            filling: filled.collect(),
        }
    }

    /// A device is in a failed member's place, and this version of the record is to say so.
    pub(super) fn placed_with(&mut self, version: u64) {
        self.placed_with = version;
    }

    /// Whether anything in the map of what is missed counts.
    pub(super) fn is_used(&self, map: &BitMap) -> bool {
        map.count() > 0 || !self.away.is_empty() || !self.catching_up.is_empty()
    }

    /// Whether a member that has returned is current in a region from the start.
    pub(super) fn is_current(&self, member: MemberId, region: u64) -> bool {
        self.filling.get(member.index()).is_some_and(|filled| is_apart(filled.as_ref(), region))
    }

    /// Of a member that has returned, the regions that have to be filled.
    pub(super) fn to_fill(&self, member: MemberId) -> Option<&BitMap> {
        self.filling.get(member.index())?.as_ref()
    }

    /// Another device takes a member's place, or the member's device serves again.
    pub(super) fn forget(&mut self, member: MemberId) {
        self.away = self.away.without(member);
        self.catching_up = self.catching_up.without(member);
        self.unrecorded.retain(|&(other, _)| other != member);
        if let Some(filled) = self.filling.get_mut(member.index()) {
            *filled = None;
        }
    }

    fn are_pages_durable(&self, store: &MapStore) -> bool {
        (0u32..).zip(&self.wanted).all(|(index, &wanted)| store.durable(index) >= wanted)
    }
}

/// Whether there is a map of what is to be filled, and a region is not in it.
fn is_apart(filled: Option<&BitMap>, region: u64) -> bool {
    filled.is_some_and(|filled| !filled.get(region))
}

impl Work {
    /// Whether it changes what a member that is away should have, or may find it changed. What fills a
    /// device changes nothing that others have.
    fn is_missed(self) -> bool {
        match self {
            Self::Write
            | Self::Reclaim
            | Self::Align
            | Self::Repair
            | Self::Replay { .. }
            | Self::Sync(PassKind::Resync | PassKind::Scrub { .. }) => true,
            Self::Read
            | Self::Zero { .. }
            | Self::Sync(PassKind::Rebuild(_) | PassKind::Distribute(_) | PassKind::Copy(_)) => {
                false
            }
        }
    }

    /// Whether it changes members in regions that need not be marked.
    fn is_unmarked(self) -> bool {
        matches!(self, Self::Repair | Self::Sync(PassKind::Scrub { .. }))
    }
}

impl Engine {
    /// Sees to it that a job's region is in the map before members change, if it has to be. Tells whether
    /// the job has to wait for that, or has failed.
    pub(super) fn note_missed(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let placed = self.array.recorder.is_on_record(self.missed.placed_with);
        let away = !self.missed.away.is_empty() || !placed;
        if !away && self.missed.catching_up.is_empty() {
            return false;
        }
        let (work, stripe) = (self.jobs[id].work, self.jobs[id].stripe);
        if !work.is_missed() || self.jobs[id].error.is_some() {
            return false;
        }
        let region = self.areas.region(stripe);
        let bit = Bit(MapKind::Missed, region);
        if away && self.maps.missed.map.set(region) {
            self.store_bit(id, bit, Change::Set, out);
            return true;
        }
        if !self.maps.missed.map.get(region) {
            return false;
        }
        if !self.maps.missed.is_surely_set(region) {
            self.store_bit(id, bit, Change::None, out);
            return true;
        }
        self.maps.wait_for(&mut self.jobs, id, bit)
    }

    /// A job begins to change members.
    pub(super) fn note_unmarked(&mut self, id: JobId) {
        if self.jobs[id].work.is_unmarked() {
            let region = self.areas.region(self.jobs[id].stripe);
            self.missed.unmarked.insert(region, None);
        }
    }

    /// A job has ended: a flush that begins from now on makes durable what it has changed.
    pub(super) fn end_unmarked(&mut self, id: JobId) {
        let job = &self.jobs[id];
        if job.work.is_unmarked() && !self.missed.unmarked.is_empty() {
            let region = self.areas.region(job.stripe);
            let next = self.flusher.next_round();
            self.missed.unmarked.entry(region).and_modify(|ends| *ends = Some(next));
        }
    }

    /// A flush round has made durable what had been changed when it began, but not what is still under way.
    pub(super) fn forget_unmarked(&mut self, round: u64) {
        let (jobs, areas) = (&self.jobs, &self.areas);
        let is_under_way = |region| {
            let mut unmarked = jobs.iter().filter(|job| job.work.is_unmarked());
            unmarked.any(|job| areas.region(job.stripe) == region)
        };
        self.missed
            .unmarked
            .retain(|&region, ends| ends.is_none_or(|ends| ends > round) || is_under_way(region));
    }

    /// Adds the regions of all jobs that may change members, or have begun to.
    fn add_those_under_way(&mut self) {
        for job in self.jobs.iter() {
            if job.work.is_missed() {
                self.maps.missed.map.set(self.areas.region(job.stripe));
            }
        }
    }

    /// Stores all pages of the map; those that are needed are these versions.
    fn store_missed(&mut self, out: &mut Vec<Action>) {
        let mut stores = Stores::new(&self.array, &mut self.flights, &self.areas, out);
        for index in 0..self.maps.missed.map.pages() {
            let version = self.maps.store_set_page(MapKind::Missed, index, &mut stores);
            self.missed.wanted[index as usize] = version;
        }
    }

    /// A member is out of service that was known to lack nothing, or what: its device may return, and what
    /// it may lack is noted. Its state is failed by now.
    pub(super) fn is_away(&mut self, member: MemberId, out: &mut Vec<Action>) {
        self.missed.forget(member);
        let stripes = member.index() < self.geo.members() && self.geo.redundancy() > 0;
        // A stop is answered when its record is durable: pages would be under way then.
        if !stripes || self.phase == Phase::Stopped {
            return;
        }
        let unmarked = self.array.recorder.record.consistency == Consistency::Resync;
        if unmarked && self.phase != Phase::Replaying {
            self.maps.missed.map.set_all();
        }
        self.maps.missed.map.set_those_of(&self.maps.bitmap.map);
        self.maps.missed.map.set_those_of(&self.regions.unsynced);
        for stripe in self.journal.unflushed() {
            self.maps.missed.map.set(self.areas.region(stripe));
        }
        for &region in self.missed.unmarked.keys() {
            self.maps.missed.map.set(region);
        }
        self.add_those_under_way();
        self.missed.away = self.missed.away.with(member);
        self.missed.unrecorded.push((member, self.array.recorder.record.events));
        self.store_missed(out);
    }

    /// A device has returned to a member's place, and catches up: from now on it is written wherever it is
    /// current. Jobs that were planned without it go on without it, so it is not current where they are.
    pub(super) fn catches_up(&mut self, member: MemberId, out: &mut Vec<Action>) {
        self.missed.forget(member);
        self.add_those_under_way();
        self.store_missed(out);
        self.missed.catching_up = self.missed.catching_up.with(member);
        self.missed.filling[member.index()] = Some(self.maps.missed.map.clone());
    }

    /// Puts on record that devices may return, when all that they miss is in durable pages; and forgets
    /// what was missed when it is on record that it is not needed.
    pub(super) fn settle_missed(&mut self, out: &mut Vec<Action>) {
        if !self.missed.is_used(&self.maps.missed.map)
            || matches!(self.phase, Phase::Broken | Phase::Stopped)
        {
            return;
        }
        if !self.missed.unrecorded.is_empty() && self.missed.are_pages_durable(&self.maps.missed) {
            for (member, left) in core::mem::take(&mut self.missed.unrecorded) {
                self.array.recorder.record.slots[member.index()].left = Some(left);
            }
            self.record_change(out);
        }
        // Before a start is on record, the members that are missing are not known to be away.
        let unused = self.phase != Phase::Replaying
            && self.missed.away.is_empty()
            && !self.array.recorder.record.keeps_missed();
        if unused && self.array.recorder.is_durable() {
            self.maps.missed.map.clear_all();
        }
    }

    /// What the device that a member has, or had, lacks; nothing if it lacks nothing, or that is not known.
    pub(super) fn missed_by(&self, member: MemberId) -> Option<MissedStatus> {
        let slot = &self.array.recorder.record.slots[member.index()];
        let map = &self.maps.missed.map;
        let regions = match slot.state {
            SlotState::Failed => slot.left.map(|_| map.count())?,
            SlotState::Rebuilding { .. } => {
                let filled = self.missed.filling.get(member.index())?.as_ref()?;
                let per_region = self.areas.region_stripes();
                let left = (0..filled.len()).filter(|&region| filled.get(region));
                let last = |region: u64| ((region + 1) * per_region).min(self.geo.stripes()) - 1;
                let open =
                    |region: &u64| !self.background.is_rebuilt(member, Stripe(last(*region)));
                left.filter(open).count() as u64
            }
            SlotState::Up => return None,
        };
        let blocks = regions * self.geo.blocks_before(Stripe(self.areas.region_stripes()), member);
        Some(MissedStatus { regions, of: map.len(), blocks })
    }
}

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
use core::mem;

use super::PassKind;
use super::maps::MapStore;
use super::work::Work;
use crate::meta::{Assembled, BitMap};
use crate::units::{MemberId, Set};

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

    /// Whether regions have to be noted before members change: a member is away, or would be again after
    /// a crash, as it is not on record that another device has its place.
    pub(super) fn is_noted(&self, is_on_record: impl FnOnce(u64) -> bool) -> bool {
        !self.away.is_empty() || !is_on_record(self.placed_with)
    }

    /// Whether members that have returned are being filled.
    pub(super) fn is_filling(&self) -> bool {
        !self.catching_up.is_empty()
    }

    /// Whether no member is away.
    pub(super) fn is_none_away(&self) -> bool {
        self.away.is_empty()
    }

    /// A member is away and may return, with a record no later than this version. That is to be put on
    /// record when the pages of what it misses are durable.
    pub(super) fn goes_away(&mut self, member: MemberId, version: u64) {
        self.away = self.away.with(member);
        self.unrecorded.push((member, version));
    }

    /// A member has returned, and is not current in these regions until it is filled there.
    pub(super) fn fills(&mut self, member: MemberId, regions: BitMap) {
        self.catching_up = self.catching_up.with(member);
        self.filling[member.index()] = Some(regions);
    }

    /// A page of what is missed has to be durable in this version before it is on record which members are away.
    pub(super) fn wants(&mut self, page: u32, version: u64) {
        self.wanted[page as usize] = version;
    }

    /// The members of which it can be put on record now that they are away, with the latest record that
    /// each may have.
    pub(super) fn take_recordable(&mut self, store: &MapStore) -> Vec<(MemberId, u64)> {
        let durable =
            || (0u32..).zip(&self.wanted).all(|(page, &wanted)| store.durable(page) >= wanted);
        let ready = !self.unrecorded.is_empty() && durable();
        if ready { mem::take(&mut self.unrecorded) } else { Vec::new() }
    }

    // Changes without a mark.

    /// Members begin to be changed in a region without a mark.
    pub(super) fn begin_unmarked(&mut self, region: u64) {
        self.unmarked.insert(region, None);
    }

    /// A change without a mark has ended: this flush round makes it durable.
    pub(super) fn end_unmarked(&mut self, region: u64, round: u64) {
        if let Some(ends) = self.unmarked.get_mut(&region) {
            *ends = Some(round);
        }
    }

    /// A flush round has made durable what had been changed when it began, but not what is still under
    /// way.
    pub(super) fn flushed(&mut self, round: u64, is_under_way: impl Fn(u64) -> bool) {
        let is_kept = |region, ends: &Option<u64>| {
            ends.is_none_or(|ends| ends > round) || is_under_way(region)
        };
        self.unmarked.retain(|&region, ends| is_kept(region, ends));
    }

    /// The regions in which members were changed without a mark and not durably.
    pub(super) fn unmarked(&self) -> impl Iterator<Item = u64> + '_ {
        self.unmarked.keys().copied()
    }
}

/// Whether there is a map of what is to be filled, and a region is not in it.
fn is_apart(filled: Option<&BitMap>, region: u64) -> bool {
    filled.is_some_and(|filled| !filled.get(region))
}

impl Work {
    /// Whether it changes what a member that is away should have, or may find it changed. What fills a
    /// device changes nothing that others have.
    pub(super) fn is_missed(self) -> bool {
        match self {
            Self::Write
            | Self::Reclaim
            | Self::Align
            | Self::Repair
            | Self::Replay { .. }
            | Self::Sync(PassKind::Resync | PassKind::Scrub { .. } | PassKind::Reshape) => true,
            Self::Read
            | Self::Zero { .. }
            | Self::Sync(PassKind::Rebuild(_) | PassKind::Distribute(_) | PassKind::Copy(_)) => {
                false
            }
        }
    }

    /// Whether it changes members in regions that need not be marked.
    pub(super) fn is_unmarked(self) -> bool {
        matches!(self, Self::Repair | Self::Sync(PassKind::Scrub { .. } | PassKind::Reshape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::MapKind;

    const MEMBER: MemberId = MemberId(1);

    fn missed() -> Missed {
        Missed {
            away: Set::EMPTY,
            unrecorded: Vec::new(),
            wanted: vec![0],
            unmarked: BTreeMap::new(),
            catching_up: Set::EMPTY,
            placed_with: 0,
            filling: vec![None; 3],
        }
    }

    #[test]
    fn regions_are_noted_until_it_is_on_record_which_device_has_the_place() {
        let mut missed = missed();
        assert!(!missed.is_noted(|_| true));
        missed.goes_away(MEMBER, 7);
        assert!(missed.is_noted(|_| true));
        missed.placed_with(8);
        missed.forget(MEMBER);
        assert!(missed.is_noted(|version| version < 8));
        assert!(!missed.is_noted(|version| version <= 8));
    }

    #[test]
    fn a_change_without_a_mark_is_kept_until_a_flush_that_began_after_it() {
        let mut missed = missed();
        missed.begin_unmarked(4);
        missed.flushed(9, |_| false);
        assert_eq!(missed.unmarked().collect::<Vec<_>>(), [4], "it has not ended");
        missed.end_unmarked(4, 10);
        missed.flushed(9, |_| false);
        missed.flushed(10, |region| region == 4);
        assert_eq!(missed.unmarked().collect::<Vec<_>>(), [4], "another one is under way");
        missed.flushed(10, |_| false);
        assert_eq!(missed.unmarked().count(), 0);
        missed.end_unmarked(4, 11);
        assert_eq!(missed.unmarked().count(), 0, "nothing has begun there");
    }

    #[test]
    fn a_member_that_has_returned_is_current_where_nothing_has_to_be_filled() {
        let mut missed = missed();
        let mut regions = BitMap::new(MapKind::Missed, 4);
        regions.set(2);
        missed.fills(MEMBER, regions);
        assert!(missed.is_filling() && missed.is_current(MEMBER, 1));
        assert!(!missed.is_current(MEMBER, 2) && !missed.is_current(MemberId(0), 1));
        missed.forget(MEMBER);
        assert!(!missed.is_filling() && !missed.is_current(MEMBER, 1));
    }
}

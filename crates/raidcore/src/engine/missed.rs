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

use super::PassKind;
use super::maps::MapStore;
use super::work::Work;
use crate::meta::{Assembled, BitMap};
use crate::units::{MemberId, Set};

/// What members miss.
#[derive(Debug)]
pub(super) struct Missed {
    /// The members that are away and may return.
    pub(super) away: Set<MemberId>,
    /// Those of them of which that is not on record yet, and the latest record that they may have.
    pub(super) unrecorded: Vec<(MemberId, u64)>,
    /// The version of each page that has to be durable before it is.
    pub(super) wanted: Vec<u64>,
    /// Regions in which members were changed without a mark, and the flush round that makes durable what
    /// has ended of that; none yet while the first change is under way.
    pub(super) unmarked: BTreeMap<u64, Option<u64>>,
    /// Members that have returned, and are being filled.
    pub(super) catching_up: Set<MemberId>,
    /// The version of the record that has the latest device in the place of one that was away. Until it is
    /// durable, a crash makes the member one that is away again, which may lack what was written since.
    pub(super) placed_with: u64,
    /// For each of them, the regions in which it is not current until it is filled there.
    pub(super) filling: Vec<Option<BitMap>>,
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

    pub(super) fn are_pages_durable(&self, store: &MapStore) -> bool {
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
    pub(super) fn is_missed(self) -> bool {
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
    pub(super) fn is_unmarked(self) -> bool {
        matches!(self, Self::Repair | Self::Sync(PassKind::Scrub { .. }))
    }
}

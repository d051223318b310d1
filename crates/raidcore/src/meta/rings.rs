//! Which journal entries have to be replayed after an unclean stop.
//!
//! An entry is replayed if it is live on all its holders that are present and current in its
//! stripe, and there is at least one such holder. The rings of other holders don't count: later
//! writes of the stripe are not journaled there.
//!
//! A write goes home only when all its holders have its entry, or their failure is on record. So if
//! a holder lacks the entry, the write never went home, was not acknowledged, and may be forgotten.
//! Replaying it all the same would be wrong: a crash during the replay, with the loss of those that
//! have the entry, would leave the write half at home.
//!
//! A ring that can't be read in full is left alone, and so is every entry that its member should
//! have. It can't be told whether the member has it, and the next start may find that it does not.
//! Such an array is complete, and is resynced.
//!
//! Holders that are missing now are recorded as failed before the replay, so none of them comes
//! back without the replayed blocks. A holder may have retired an entry by a greater tail: older
//! rings must not bring it back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::iter;

use super::headers::{JournalEntry, JournalHeader, JournalRun, Log};
use super::image::{Image, RingOf, there};
use super::journal::{Replay, ReplayRun, scan};
use super::page::BitMap;
use super::problem::Warning;
use super::ranges::Filling;
use super::record::{ArrayRecord, SlotState};
use super::shapes::can_leave_out;
use crate::geometry::Layout;
use crate::units::{MemberId, Pba, Set, Stripe};

/// The live entries of each member whose ring can be read, by their number.
pub(super) struct Rings<'a> {
    record: &'a ArrayRecord,
    missed: &'a BitMap,
    present: Set<MemberId>,
    /// Members that are present but whose ring can't be read.
    unreadable: Set<MemberId>,
    live: Vec<BTreeMap<u64, JournalEntry>>,
    tails: Vec<u64>,
    next_entry: u64,
}

impl<'a> Rings<'a> {
    /// Reads the rings of the members that have an image.
    pub(super) fn read<I: Image>(
        record: &'a ArrayRecord,
        images: &[Option<&I>],
        missed: &'a BitMap,
    ) -> Self {
        let mut rings = Self {
            record,
            missed,
            present: Set::EMPTY,
            unreadable: Set::EMPTY,
            live: Vec::new(),
            tails: Vec::new(),
            next_entry: 1,
        };
        let (start, blocks) = record.journal_ring();
        for (index, image) in images.iter().enumerate() {
            let (mut live, mut tail) = (BTreeMap::new(), 0);
            let member = MemberId::at(index);
            if image.is_some() {
                rings.unreadable = rings.unreadable.with(member);
            }
            let is_there = |image: &I, at| there(image, Pba(start.0 + at)).is_some();
            let is_whole = |image: &&I| (0..blocks).all(|at| is_there(image, at));
            if let Some(image) = image.filter(is_whole) {
                rings.present = rings.present.with(member);
                rings.unreadable = rings.unreadable.without(member);
                let ring = RingOf { image, start };
                let entries = scan(Log::Journal, blocks, &ring, record.array, record.epoch, member);
                if let Some(last) = entries.last().map(|entry| entry.header) {
                    rings.next_entry = rings.next_entry.max(last.entry + 1);
                    tail = last.tail;
                    let entries = entries.into_iter().map(|entry| (entry.header.entry, entry));
                    live.extend(entries.filter(|&(number, _)| number >= tail));
                }
            }
            rings.live.push(live);
            rings.tails.push(tail);
        }
        rings
    }

    /// The least number above those of all entries that were found.
    pub(super) fn next_entry(&self) -> u64 {
        self.next_entry
    }

    /// The entries to be replayed, in this order. No block is written more than once: if an older
    /// version were written first, a crash in between and the loss of those that have the newer one
    /// would leave the older version.
    pub(super) fn replay(&self, warnings: &mut Vec<Warning>) -> Vec<Replay> {
        let numbers: BTreeSet<u64> = self.live.iter().flat_map(BTreeMap::keys).copied().collect();
        let mut replays = Vec::new();
        let mut written = BTreeSet::new();
        for number in numbers.into_iter().rev() {
            let Some(entry) = self.due(number) else {
                continue;
            };
            if !is_possible(&self.record.layout(), entry) {
                warnings.push(Warning::JournalEntryInvalid { entry: number });
                continue;
            }
            let start = self.record.areas.journal().0.0;
            let copies = (0u8..).zip(&self.live).filter_map(|(member, live)| {
                let copy = live.get(&number)?;
                Some((MemberId(member), Pba(start + copy.payload_at)))
            });
            let stripe = entry.header.stripe;
            let runs = unwritten(entry, &written);
            written.extend(blocks_of(entry));
            written.extend(left_out(entry));
            if !runs.is_empty() {
                let (copies, left_out) = (copies.collect(), entry.header.left_out());
                replays.push(Replay { entry: number, stripe, copies, runs, left_out });
            }
        }
        replays.reverse();
        replays
    }

    /// Whether a member's chunk of a stripe is current.
    fn is_current(&self, member: MemberId, stripe: Stripe) -> bool {
        let slot = &self.record.slots[member.index()];
        match slot.state {
            SlotState::Up => true,
            SlotState::Rebuilding { watermark } => {
                let region = self.record.areas.region(stripe);
                let caught_up = region < self.missed.len() && !self.missed.get(region);
                let ranges = self.record.filled_ranges(Filling::Device(slot.device));
                let filled = ranges.is_some_and(|ranges| ranges.has(ranges.of(stripe)));
                stripe.0 < watermark || filled || slot.catches_up && caught_up
            }
            SlotState::Failed => false,
        }
    }

    /// The entry, if it has payload, all copies agree, and all members that must have it do.
    fn due(&self, number: u64) -> Option<&JournalEntry> {
        let mut copies = self
            .live
            .iter()
            .enumerate()
            .filter_map(|(index, live)| Some((MemberId::at(index), live.get(&number)?)));
        let (_, entry) = copies.clone().next()?;
        let JournalHeader { holders, stripe, open, .. } = entry.header;
        let agrees = |(member, other): (MemberId, &JournalEntry)| {
            holders.has(member)
                && other.header.holders == holders
                && other.header.stripe == stripe
                && other.header.open == open
                && other.runs == entry.runs
                && other.crcs == entry.crcs
        };
        let is_current = |member: MemberId| self.is_current(member, stripe);
        let mut present = holders.and(self.present);
        let due = !entry.runs.is_empty()
            && !holders.and(self.unreadable).any(is_current)
            && copies.clone().any(|(member, _)| is_current(member))
            && copies.all(agrees)
            && present.all(|member| {
                let has = self.live[member.index()].contains_key(&number);
                let retired = self.tails[member.index()] > number;
                !retired && (has || !is_current(member))
            });
        due.then_some(entry)
    }
}

/// The regions with stripes whose parity members are all lost, one of them only now. A write may
/// have been under way there whose entry is on none of the present members. So it is not known
/// whether the other members' chunks of such a stripe agree with those that return later.
pub(super) fn unknown<'a, I: Image>(
    record: &'a ArrayRecord,
    images: &'a [Option<&I>],
    regions: u64,
) -> impl Iterator<Item = u64> + 'a {
    let (layout, per_region) = (record.layout(), record.areas.region_stripes());
    let is_up = |member: MemberId| record.slots[member.index()].state == SlotState::Up;
    let is_there = move |member: MemberId| is_up(member) && images[member.index()].is_some();
    // A member that catches up holds entries, too, where it is current.
    let has_gone = move |member: MemberId| {
        record.slots[member.index()].is_known() && images[member.index()].is_none()
    };
    let is_unknown = move |stripe: Stripe| {
        let parities = layout.of(stripe).spare_roles();
        let mut holders = parities.map(|role| layout.member(stripe, role));
        holders.clone().any(has_gone) && !holders.any(is_there)
    };
    (0..regions).filter(move |region| {
        let first = region * per_region;
        let end = (first + per_region).min(layout.stripes()).max(first);
        layout.samples(first..end).any(is_unknown)
    })
}

/// Whether the array has all blocks that an entry would write, and the entry has each only once. Those
/// of a partial entry are parity, and the member that it leaves out has data.
pub(super) fn is_possible(layout: &Layout, entry: &JournalEntry) -> bool {
    let mut places: Vec<_> =
        entry.runs.iter().map(|run| (run.member, run.row, run.row + run.blocks)).collect();
    places.sort_unstable();
    let apart = |pair: &[(MemberId, u32, u32)]| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1;
    let stripe = entry.header.stripe;
    let has_part = |member: MemberId| {
        member.index() < layout.members() && layout.role(stripe, member).is_some()
    };
    let is_parity = |member: MemberId| {
        let role = layout.role(stripe, member);
        role.map(|role| role.index() >= layout.of(stripe).data())
    };
    let is_partial = |out: MemberId| {
        out.index() < layout.members()
            && is_parity(out) == Some(false)
            && can_leave_out(layout.of(stripe))
            && places.iter().all(|&(member, ..)| is_parity(member) == Some(true))
    };
    stripe.0 < layout.stripes()
        && places.windows(2).all(apart)
        && places
            .iter()
            .all(|&(member, _, end)| has_part(member) && end <= layout.of(stripe).chunk())
        && entry.header.left_out().is_none_or(is_partial)
}

/// A block of a member: the row of its chunk of a stripe.
type BlockPlace = (Stripe, MemberId, u32);

/// The blocks that an entry holds, in their order.
pub(super) fn blocks_of(entry: &JournalEntry) -> impl Iterator<Item = BlockPlace> {
    let rows = |run: &JournalRun| (run.row..run.row + run.blocks).zip(iter::repeat(run.member));
    let stripe = entry.header.stripe;
    entry.runs.iter().flat_map(rows).map(move |(row, member)| (stripe, member, row))
}

/// The blocks that a write has changed although its partial entry leaves them out: an older entry's
/// version of them must not come back.
fn left_out(entry: &JournalEntry) -> impl Iterator<Item = BlockPlace> {
    let stripe = entry.header.stripe;
    let rows = entry.runs.iter().flat_map(|run| run.row..run.row + run.blocks);
    let out = entry.header.left_out().into_iter();
    out.flat_map(move |member| rows.clone().map(move |row| (stripe, member, row)))
}

/// The runs of an entry without the blocks that are `written` already.
pub(super) fn unwritten(entry: &JournalEntry, written: &BTreeSet<BlockPlace>) -> Vec<ReplayRun> {
    let mut runs: Vec<ReplayRun> = Vec::new();
    for (from, place) in (0..).zip(blocks_of(entry)) {
        if written.contains(&place) {
            continue;
        }
        let (_, member, row) = place;
        match runs.last_mut() {
            Some(last) if last.continues(member, row, from) => last.to.blocks += 1,
            _ => runs.push(ReplayRun { to: JournalRun { member, row, blocks: 1 }, from }),
        }
    }
    runs
}

impl ReplayRun {
    fn continues(&self, member: MemberId, row: u32, from: u32) -> bool {
        let JournalRun { blocks, .. } = self.to;
        (self.to.member, self.to.row + blocks, self.from + blocks) == (member, row, from)
    }
}

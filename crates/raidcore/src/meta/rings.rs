//! What an unclean stop has left in the journal and has to be carried out.
//!
//! A write goes home only after its entry is durable on all of its holders. So an entry that a
//! present holder lacks was never begun at home, or has been retired there; only one that every
//! present holder has, live, is carried out. Carrying out an entry that never went home is
//! harmless: its write was not acknowledged, and the entry holds it whole.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::assemble::MemberImage;
use super::journal::{JournalEntry, Replay, scan};
use super::problem::Warning;
use super::record::ArrayRecord;
use crate::units::{BLOCK_BYTES, MemberId, Pba, Set};

/// The live entries of each member that is there, by their number.
pub(super) struct Rings<'a> {
    record: &'a ArrayRecord,
    present: Set,
    live: Vec<BTreeMap<u64, JournalEntry>>,
    next_entry: u64,
}

impl<'a> Rings<'a> {
    /// Reads the rings of the members that have an image.
    pub(super) fn read(record: &'a ArrayRecord, images: &[Option<&MemberImage>]) -> Self {
        let mut rings = Self {
            record,
            present: Set::EMPTY,
            live: Vec::new(),
            next_entry: 1,
        };
        for (index, image) in images.iter().enumerate() {
            let mut live = BTreeMap::new();
            if let Some(image) = image {
                rings.present = rings.present.with(index);
                let ring = ring_of(record, image);
                let entries = scan(ring, record.array, record.epoch, MemberId(index as u8));
                if let Some(last) = entries.last().map(|entry| entry.header) {
                    rings.next_entry = rings.next_entry.max(last.entry.saturating_add(1));
                    let entries = entries.into_iter().map(|entry| (entry.header.entry, entry));
                    live.extend(entries.filter(|&(number, _)| number >= last.tail));
                }
            }
            rings.live.push(live);
        }
        rings
    }

    /// The least number above those of all entries that were found.
    pub(super) fn next_entry(&self) -> u64 {
        self.next_entry
    }

    /// What has to be carried out, in this order.
    pub(super) fn replay(&self, warnings: &mut Vec<Warning>) -> Vec<Replay> {
        let numbers: BTreeSet<u64> = self.live.iter().flat_map(BTreeMap::keys).copied().collect();
        let mut replays = Vec::new();
        for number in numbers {
            let Some((holder, entry)) = self.complete(number) else {
                continue;
            };
            if !self.is_possible(entry) {
                warnings.push(Warning::JournalEntryInvalid { entry: number });
                continue;
            }
            let header = &entry.header;
            let payload =
                self.record.areas.journal().0.0 + header.at + u64::from(entry.header_blocks());
            replays.push(Replay {
                entry: number,
                stripe: header.stripe,
                holder,
                at: Pba(payload),
                runs: entry.runs.clone(),
            });
        }
        replays
    }

    /// The entry and one of its holders, if it has payload and all holders that are there have it.
    fn complete(&self, number: u64) -> Option<(MemberId, &JournalEntry)> {
        let (finder, entry) = self
            .live
            .iter()
            .enumerate()
            .find_map(|(m, live)| Some((m, live.get(&number)?)))?;
        let holders = entry.header.holders;
        let same = |other: &JournalEntry| {
            other.header.holders == holders
                && other.header.stripe == entry.header.stripe
                && other.runs == entry.runs
                && other.crcs == entry.crcs
        };
        let has = |member: usize| self.live[member].get(&number).is_some_and(same);
        let complete = !entry.runs.is_empty()
            && holders.has(finder)
            && holders.and(self.present).into_iter().all(has);
        complete.then_some((MemberId(finder as u8), entry))
    }

    /// Whether the array has the blocks that an entry would write.
    fn is_possible(&self, entry: &JournalEntry) -> bool {
        let geometry = &self.record.geometry;
        entry.header.stripe.0 < geometry.stripes()
            && entry.runs.iter().all(|run| {
                run.member.index() < geometry.members() && run.row + run.blocks <= geometry.chunk()
            })
    }
}

/// The bytes of a member's ring, as far as they are there.
fn ring_of<'a>(record: &ArrayRecord, image: &'a MemberImage) -> &'a [u8] {
    let (start, blocks) = record.areas.journal();
    let byte = |block: u64| {
        usize::try_from(block).map_or(usize::MAX, |block| block.saturating_mul(BLOCK_BYTES))
    };
    let end = byte(start.0 + blocks).min(image.meta.len());
    image.meta.get(byte(start.0)..end).unwrap_or(&[])
}

//! What an unclean stop has left in the journal and has to be carried out.
//!
//! An entry is carried out if a present holder has it, live, and no present holder has retired it
//! (by a tail beyond it). It need not be on all of them: the write may have gone home although a
//! holder failed to take the entry, or a spare has taken a holder's place since. An entry that
//! never went home does no harm: its write was not acknowledged, the entry holds it whole, and as
//! long as an entry is live its stripe is changed only by later entries, which come after it. The
//! tails of the others matter where a holder had failed, unrecorded: its ring stands still, and
//! what they have retired since is not to be undone.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::assemble::Image;
use super::journal::{JournalEntry, Replay, scan};
use super::problem::Warning;
use super::record::ArrayRecord;
use crate::units::{MemberId, Pba, Set};

/// The live entries of each member that is there, by their number.
pub(super) struct Rings<'a> {
    record: &'a ArrayRecord,
    present: Set,
    live: Vec<BTreeMap<u64, JournalEntry>>,
    tails: Vec<u64>,
    next_entry: u64,
}

impl<'a> Rings<'a> {
    /// Reads the rings of the members that have an image.
    pub(super) fn read<I: Image>(record: &'a ArrayRecord, images: &[Option<&I>]) -> Self {
        let mut rings = Self {
            record,
            present: Set::EMPTY,
            live: Vec::new(),
            tails: Vec::new(),
            next_entry: 1,
        };
        let (start, blocks) = record.areas.journal();
        for (index, image) in images.iter().enumerate() {
            let (mut live, mut tail) = (BTreeMap::new(), 0);
            if let Some(image) = image {
                rings.present = rings.present.with(index);
                let block = |at| image.block(Pba(start.0 + at)).ok().filter(|b| !b.is_empty());
                let member = MemberId(index as u8);
                let entries = scan(blocks, block, record.array, record.epoch, member);
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

    /// What has to be carried out, in this order.
    pub(super) fn replay(&self, warnings: &mut Vec<Warning>) -> Vec<Replay> {
        let numbers: BTreeSet<u64> = self.live.iter().flat_map(BTreeMap::keys).copied().collect();
        let mut replays = Vec::new();
        for number in numbers {
            let Some(entry) = self.due(number) else {
                continue;
            };
            if !self.is_possible(entry) {
                warnings.push(Warning::JournalEntryInvalid { entry: number });
                continue;
            }
            let start = self.record.areas.journal().0.0;
            let copies = (0u8..).zip(&self.live).filter_map(|(member, live)| {
                let copy = live.get(&number)?;
                let payload = start + copy.header.at + u64::from(copy.header_blocks());
                Some((MemberId(member), Pba(payload)))
            });
            let (stripe, runs) = (entry.header.stripe, entry.runs.clone());
            replays.push(Replay { entry: number, stripe, copies: copies.collect(), runs });
        }
        replays
    }

    /// The entry, if it has payload, is not retired, and all copies agree.
    fn due(&self, number: u64) -> Option<&JournalEntry> {
        let mut copies = self
            .live
            .iter()
            .enumerate()
            .filter_map(|(member, live)| Some((member, live.get(&number)?)));
        let (_, entry) = copies.clone().next()?;
        let holders = entry.header.holders;
        let agrees = |(member, other): (usize, &JournalEntry)| {
            holders.has(member)
                && other.header.holders == holders
                && other.header.stripe == entry.header.stripe
                && other.runs == entry.runs
                && other.crcs == entry.crcs
        };
        let retired = |member: usize| self.tails[member] > number;
        let due = !entry.runs.is_empty()
            && copies.all(agrees)
            && !holders.and(self.present).into_iter().any(retired);
        due.then_some(entry)
    }

    /// Whether the array has the blocks that an entry would write, and each is written once.
    fn is_possible(&self, entry: &JournalEntry) -> bool {
        let geometry = &self.record.geometry;
        let mut places: Vec<_> =
            entry.runs.iter().map(|run| (run.member, run.row, run.row + run.blocks)).collect();
        places.sort_unstable();
        let apart =
            |pair: &[(MemberId, u32, u32)]| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1;
        entry.header.stripe.0 < geometry.stripes()
            && places.windows(2).all(apart)
            && places.iter().all(|&(member, _, end)| {
                member.index() < geometry.members() && end <= geometry.chunk()
            })
    }
}

//! Which staged blocks have to be brought home after an unclean stop.
//!
//! Entries are numbered over all members without a gap. All below the greatest tail in any ring are
//! void. Of the others, the latest counts for each block. An entry that is not on all its holders
//! was never acknowledged. It counts all the same: users are served only after all staged blocks
//! are at home and the log is void, so they never see it disappear. An entry is lost if none of its
//! holders has it although a later entry says that all did, or if one of its blocks can be read
//! from none of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::headers::{JournalEntry, Log};
use super::image::{Image, RingOf};
use super::journal::{Replay, scan};
use super::problem::Warning;
use super::record::ArrayRecord;
use super::rings::{blocks_of, is_possible, unwritten};
use crate::units::{MemberId, Pba};

/// An entry, and the members that have it with where its payload begins on each.
type Found = (JournalEntry, Vec<(MemberId, Pba)>);

/// The blocks to bring home, in the order in which they were staged, and the first entry that is
/// lost. `images` are those of the members that are up.
pub(super) fn read<I: Image>(
    record: &ArrayRecord,
    images: &[Option<&I>],
    warnings: &mut Vec<Warning>,
) -> (Vec<Replay>, Option<u64>) {
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    let (mut tail, mut complete) = (0, 0);
    for (member, image) in (0u8..).map(MemberId).zip(images) {
        let Some(image) = image else { continue };
        let (start, blocks) = record.staging_of(member);
        let (ring, epoch) = (RingOf { image: *image, start }, record.staging_epoch);
        let entries = scan(Log::Staging, blocks, &ring, record.array, epoch, member);
        for entry in entries {
            let header = entry.header;
            tail = tail.max(header.tail);
            complete = complete.max(header.entry - u64::from(header.open).min(header.entry));
            let payload = start.0 + entry.payload_at;
            match found.get_mut(&header.entry) {
                Some((known, copies)) if agree(known, &entry) => {
                    known.unreadable.retain(|index| entry.unreadable.contains(index));
                    copies.push((member, Pba(payload)));
                }
                Some(_) => warnings.push(Warning::StagedInvalid { entry: header.entry }),
                None => {
                    found.insert(header.entry, (entry, [(member, Pba(payload))].into()));
                }
            }
        }
    }
    let mut written = BTreeSet::new();
    let (mut staged, mut lost) = (Vec::new(), None);
    for (&number, (entry, copies)) in found.range(tail..).rev() {
        if !is_possible(&record.layout(), entry) {
            warnings.push(Warning::StagedInvalid { entry: number });
            continue;
        }
        let runs = unwritten(entry, &written);
        let wanted = |index: &u32| runs.iter().any(|run| run.reads(*index));
        let is_lost = entry.unreadable.iter().any(wanted);
        if is_lost && number >= complete {
            // It was not acknowledged, so the version before it counts.
            continue;
        }
        written.extend(blocks_of(entry));
        if is_lost {
            lost = Some(number);
            continue;
        }
        if !runs.is_empty() && !entry.crcs.is_empty() {
            let stripe = entry.header.stripe;
            staged.push(Replay {
                entry: number,
                stripe,
                copies: copies.clone(),
                runs,
                left_out: None,
            });
        }
    }
    staged.reverse();
    let missing = (tail.max(1)..complete).find(|number| !found.contains_key(number));
    (staged, missing.into_iter().chain(lost).min())
}

fn agree(a: &JournalEntry, b: &JournalEntry) -> bool {
    (a.header.stripe, &a.runs, &a.crcs) == (b.header.stripe, &b.runs, &b.crcs)
}

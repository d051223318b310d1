//! An entry is written to its holders, and to others in place of those that take long (hedged requests:
//! Dean and Barroso, "The Tail at Scale").
//!
//! Invariants:
//! - An entry counts when it is on as many members as it has to be, whichever these are. Entries that share a
//!   header are written by the same I/O, so they count together, and how they are being written is known of the
//!   first of them.
//! - A copy that is stored later is none: its memory may have been a user's again, and have changed. Its
//!   room is taken until that I/O has ended.

use alloc::vec::Vec;

use super::Staging;
use crate::units::{MemberId, Pba, Set};

/// The most members that an entry is written to: as many as may be lost, one more, and others in place of
/// those that take long.
pub(super) const COPIES_MAX: usize = 6;

/// How many copies may be under way at a time beyond those that entries need.
pub(in crate::engine) const EXTRA_MAX: usize = 32;

/// How an entry is being written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copying {
    /// The members to which it is under way.
    under_way: Set<MemberId>,
    /// How many more are to have it.
    lacks: u8,
    /// How many others it is written to in their place.
    extra: u8,
}

impl Copying {
    /// Whether nothing of it is being written.
    pub(super) fn is_over(&self) -> bool {
        self.under_way.is_empty()
    }
}

impl Staging {
    /// An entry is under way to these members, and to be on all of them.
    pub(in crate::engine) fn begin_copies(&mut self, number: u64, members: Set<MemberId>) {
        let lacks = members.len() as u8;
        self.entry_mut(number).copying = Copying { under_way: members, lacks, extra: 0 };
    }

    /// Whether an entry lacks copies, be it alone or written with others.
    pub(in crate::engine) fn is_waited_for(&self, number: u64) -> bool {
        let lead = self.entry(number).lead;
        lead >= self.front() && self.entry(lead).copying.lacks > 0
    }

    /// An entry takes long, the first of those that share its header: as many others as it lacks copies get it, of those that are `calm`, those with the
    /// least `burden` first. Tells which, and where; none if there is no room.
    pub(in crate::engine) fn begin_others(
        &mut self,
        number: u64,
        calm: Set<MemberId>,
        burden: impl Fn(MemberId) -> u32,
    ) -> Vec<(MemberId, Pba)> {
        let entry = self.entry(number);
        let (lacks, others) = (usize::from(entry.copying.lacks), calm.minus(entry.written_to()));
        let most = lacks.min(COPIES_MAX - usize::from(entry.copies)).min(EXTRA_MAX - self.extra);
        let blocks = u64::from(self.size(number).blocks());
        let mut begun = Vec::new();
        for _ in 0..most {
            let taken: Set<_> = begun.iter().map(|&(member, _)| member).collect();
            let Some(member) = self.next_holder(others.minus(taken), blocks, &burden) else {
                break;
            };
            let at = self.take_room(number, member);
            self.sharing_mut(number).for_each(|entry| entry.holders = entry.holders.with(member));
            let copying = &mut self.entry_mut(number).copying;
            copying.under_way = copying.under_way.with(member);
            copying.extra += 1;
            self.extra += 1;
            begun.push((member, at));
        }
        begun
    }

    /// A copy of an entry is stored, or its member has failed: then one less is left that may. Tells whether
    /// the entry waits for it.
    pub(in crate::engine) fn copy_ended(&mut self, number: u64, member: MemberId) -> bool {
        let entry = self.entry_mut(number);
        let copying = &mut entry.copying;
        copying.under_way = copying.under_way.without(member);
        let counts = copying.lacks > 0;
        copying.lacks -= u8::from(counts);
        let late = copying.under_way;
        let (enough, is_over) = (counts && copying.lacks == 0, copying.is_over());
        if enough {
            self.sharing_mut(number).for_each(|entry| entry.holders = entry.holders.minus(late));
        }
        if is_over {
            self.extra -= usize::from(core::mem::take(&mut self.entry_mut(number).copying.extra));
        }
        counts
    }
}

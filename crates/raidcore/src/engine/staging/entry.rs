//! An entry of the staging log, and what is written of it.

use alloc::vec::Vec;

use det::Instant;

use super::copying::{COPIES_MAX, Copying};
use super::{Size, Staging};
use crate::engine::JobId;
use crate::geometry::{Layout, Role};
use crate::meta::{self, ArrayRecord, JournalHeader, JournalRun, Log};
use crate::units::{Mem, MemberId, Pba, Set, Stripe};

/// Consecutive blocks of a data chunk.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Run {
    pub(in crate::engine) role: Role,
    pub(in crate::engine) row: u32,
    pub(in crate::engine) blocks: u32,
    /// Where they come from while the entry is being written.
    pub(in crate::engine) mem: Mem,
}

/// What a job has to do with the staging log.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Logged {
    /// The entry that it writes.
    pub(in crate::engine) staged: Option<u64>,
    /// The next of the jobs whose entries share a header with its own.
    pub(in crate::engine) beside: Option<JobId>,
    /// It writes over what is staged.
    pub(in crate::engine) covers: bool,
    /// There is room for its marker.
    pub(in crate::engine) promised: bool,
    /// It is a write that the log would take.
    pub(in crate::engine) may_stage: bool,
    /// It brings home what was staged before this entry.
    pub(in crate::engine) gathered: Option<u64>,
}

/// What an entry is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It holds blocks.
    Data,
    /// It says that home counts.
    Marker,
    /// It tells the tail.
    Tail,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) stripe: Stripe,
    /// The tail that it tells.
    pub(super) tail: u64,
    /// The members that have it and are in service, or get it.
    pub(super) holders: Set<MemberId>,
    /// Where its payload begins, by member.
    pub(super) payload: [(MemberId, Pba); COPIES_MAX],
    /// How many members it was written to.
    pub(super) copies: u8,
    /// The first of the entries that share a header with it, and are written as one: itself if none does.
    pub(super) lead: u64,
    /// How many these are; of the first of them.
    pub(super) sharing: u32,
    /// How they are being written; of the first of them.
    pub(super) copying: Copying,
    /// How many blocks of payload it has.
    pub(super) blocks: u32,
    pub(super) runs: Vec<Run>,
    /// It is on all its holders.
    pub(super) done: bool,
    pub(super) dirty: u32,
    /// The number of the last homecoming of a part of it.
    pub(super) home: u64,
    pub(super) pins: u32,
    /// When it was made.
    pub(super) since: Instant,
}

impl Entry {
    /// An entry that is not on its holders yet.
    pub(super) fn new(
        number: u64,
        kind: Kind,
        stripe: Stripe,
        holders: Set<MemberId>,
        runs: Vec<Run>,
    ) -> Self {
        let blocks = match kind {
            Kind::Data => runs.iter().map(|run| run.blocks).sum(),
            Kind::Marker | Kind::Tail => 0,
        };
        Self {
            number,
            kind,
            stripe,
            tail: 0,
            holders,
            payload: [(MemberId(0), Pba(0)); COPIES_MAX],
            copies: 0,
            lead: number,
            sharing: 1,
            copying: Copying::default(),
            blocks,
            runs,
            done: false,
            dirty: 0,
            home: 0,
            pins: 0,
            since: Instant::ORIGIN,
        }
    }

    /// It is written to another member, too, where its payload begins there.
    pub(super) fn add_copy(&mut self, member: MemberId, payload: Pba) {
        self.payload[usize::from(self.copies)] = (member, payload);
        self.copies += 1;
    }

    /// The members that it was written to.
    pub(super) fn written_to(&self) -> Set<MemberId> {
        self.places().iter().map(|&(member, _)| member).collect()
    }

    /// Those, and where its payload begins on each.
    pub(super) fn places(&self) -> &[(MemberId, Pba)] {
        &self.payload[..usize::from(self.copies)]
    }

    /// The runs whose blocks it has itself.
    fn payload_runs(&self) -> &[Run] {
        if self.kind == Kind::Data { &self.runs } else { &[] }
    }

    /// The memory that its payload comes from, block by block, in order.
    pub(super) fn payload_blocks(&self) -> impl Iterator<Item = Mem> {
        self.payload_runs().iter().flat_map(|run| (0..run.blocks).map(|i| run.mem.plus(i)))
    }
}

impl Staging {
    /// An entry, and those that share a header with it, of which it is the first.
    pub(super) fn sharing(&self, lead: u64) -> impl Iterator<Item = &Entry> + Clone {
        let first = self.index(lead as u32);
        self.entries.range(first..first + self.entries[first].sharing as usize)
    }

    /// The same.
    pub(super) fn sharing_mut(&mut self, lead: u64) -> impl Iterator<Item = &mut Entry> {
        let first = self.index(lead as u32);
        let sharing = self.entries[first].sharing as usize;
        self.entries.range_mut(first..first + sharing)
    }

    /// How large an entry is with those that share a header with it, of which it is the first.
    pub(super) fn size(&self, lead: u64) -> Size {
        let sizes =
            self.sharing(lead).map(|entry| Size::with(entry.blocks, entry.runs.len() as u32));
        sizes.reduce(Size::plus).unwrap_or_default()
    }

    /// Where an entry that has just begun is to be written, and how many blocks it has, with those that share a
    /// header with it, of which it is the first.
    pub(in crate::engine) fn places(
        &self,
        number: u64,
    ) -> (impl Iterator<Item = (MemberId, Pba)> + use<>, u32) {
        let entry = self.entry(number);
        let size = self.size(number);
        let (blocks, header) = (size.blocks(), size.header_blocks());
        let places = entry.payload.into_iter().take(usize::from(entry.copies));
        (places.map(move |(member, at)| (member, Pba(at.0 - u64::from(header)))), blocks)
    }

    /// How many header blocks an entry begins with, the first of those that share them.
    pub(in crate::engine) fn header_blocks(&self, number: u64) -> u32 {
        self.size(number).header_blocks()
    }

    /// The memory that the payload of an entry comes from and of those that share its header, of which it is the
    /// first, and how many blocks of it, in order.
    pub(in crate::engine) fn payload(&self, number: u64, mut visit: impl FnMut(Mem, u32)) {
        let runs = self.sharing(number).flat_map(Entry::payload_runs);
        runs.for_each(|run| visit(run.mem, run.blocks));
    }

    /// Encodes the header blocks of an entry, the first of those that share them, as one of its holders gets
    /// them. `crc_of` gives the checksum of one block of memory.
    pub(in crate::engine) fn encode(
        &self,
        number: u64,
        member: MemberId,
        (record, geo): (&ArrayRecord, &Layout),
        mut crc_of: impl FnMut(Mem) -> u32,
        into: &mut [u8],
    ) {
        let entry = self.entry(number);
        let place = entry.places().iter().find(|(holder, _)| *holder == member);
        let Some(&(_, payload)) = place else { return };
        let first_open = self.first_open.max(self.front()).min(number);
        let headers = self.size(number).header_blocks();
        let header = JournalHeader {
            log: Log::Staging,
            array: record.array,
            epoch: record.staging_epoch,
            entry: number,
            tail: entry.tail,
            open: u32::try_from(number - first_open).unwrap_or(u32::MAX),
            member,
            at: payload.0 - u64::from(headers) - self.start.0,
            holders: entry.holders,
            stripe: entry.stripe,
        };
        let runs = self.sharing(number).flat_map(|entry| {
            entry.runs.iter().map(|run| JournalRun {
                member: geo.member(entry.stripe, run.role),
                row: run.row,
                blocks: run.blocks,
            })
        });
        let crcs = self.sharing(number).flat_map(Entry::payload_blocks).map(&mut crc_of);
        if entry.sharing == 1 {
            return meta::encode_journal_header(&header, runs, crcs, into);
        }
        let parts = self.sharing(number).map(|entry| (entry.stripe, entry.runs.len() as u32));
        meta::encode_shared(&header, parts, runs, crcs, into);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Log;
    use super::*;

    #[test]
    fn the_room_of_entries_that_share_a_header_is_free_with_the_last() {
        let mut log = Log::new(0);
        let run = Run { role: Role(0), row: 0, blocks: 1, mem: Mem::Zero };
        let size = Log::size(1).plus(Log::size(1)).plus(Log::size(1));
        let holders = log.staging.holders_for(size, log.able(), |_| 0).expect("there is room");
        let first = log.staging.begin_data(Instant(7), 3, holders, |index, runs| {
            runs.push(run);
            Stripe(index as u64)
        });
        assert_eq!(log.staging.places(first).1, 4, "a header, and a block of each");
        (first..first + 3).for_each(|number| {
            assert_eq!(log.staging.stored(number, &[], &log.layout), (1, 0));
        });
        let place = |log: &Log, number| log.staging.best_holder(number, Set::EMPTY, |_| 0);
        let [(_, Pba(one)), (_, Pba(other))] =
            [first, first + 2].map(|number| place(&log, number).expect("it is there"));
        assert_eq!(other, one + 2);
        for left in [2, 1] {
            log.bring_home(2 - left, 1);
            log.flush();
            assert!(log.tell() && log.staging.front() == first + 3 - left);
            assert!(log.staging.used().0 >= 4, "{left} of them need it");
        }
        log.bring_home(2, 1);
        log.flush();
        assert!(log.tell() && log.staging.used().0 < 4);
    }
}

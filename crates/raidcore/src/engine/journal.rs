//! The stripe journal: a redo log on the members that hold the stripe's parity, which closes the
//! write hole.
//!
//! An entry holds all blocks that a write is about to change, parity included. Its copies lie on
//! the parity members, one each: a stripe whose parity members are gone has no hole.
//!
//! Invariants:
//! - A member's blocks change only when the entry is durable on all holders.
//! - An entry may be overwritten only when its blocks are durable at home *and* a later entry on
//!   disk says so through its tail: until then a replay after a crash would carry it out.
//! - A stripe with an entry that a replay would carry out is written only through the journal, or
//!   the replay would bring the past back.
//! - The latest entry of a ring is never overwritten: it carries the tail.

use alloc::vec;
use alloc::vec::Vec;

use super::flight::{Flight, Owner};
use super::journal_ring::{Entry, JournalRing};
use super::wait::Wait;
use super::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::meta::{self, ArrayRecord, Consistency, JournalRun, Replay, ReplayRun};
use crate::plan::WriteKind;
use crate::units::{MemberId, Pba, Set, Stripe};

/// Blocks that entries leave free, so that a tail record finds room.
const RESERVE: u64 = 2;

const BUCKETS: usize = 4096;

/// The number of what is no entry, but is to be written where it is.
pub(super) const IN_PLACE: u64 = u64::MAX;

/// The rings.
#[derive(Debug)]
pub(super) struct Journal {
    start: Pba,
    len: u64,
    rings: Vec<JournalRing>,
    next_entry: u64,
    homes_done: u64,
    /// How many entries that a replay would carry out a stripe has, by a hash of the stripe.
    live: Vec<u32>,
    entries: u32,
    /// Since when, in `homes_done`, a stripe has been written past the journal, by a hash of the stripe.
    passed: Vec<u64>,
    /// What of that is durable.
    flushed: u64,
    /// A job waits for room.
    starved: bool,
}

impl Journal {
    pub(super) fn new(record: &ArrayRecord, next_entry: u64) -> Self {
        let (start, len) = record.areas.journal();
        let used = record.consistency == Consistency::Journal && record.geometry.parities() > 0;
        let len = if used { len } else { 0 };
        Self {
            start,
            len,
            rings: (0..record.geometry.members()).map(|_| JournalRing::with_room(len)).collect(),
            next_entry,
            homes_done: 0,
            live: vec![0; BUCKETS],
            entries: 0,
            passed: vec![0; BUCKETS],
            flushed: 0,
            starved: false,
        }
    }

    pub(super) fn homes_done(&self) -> u64 {
        self.homes_done
    }

    /// An entry, or a record of the tail, of a member's ring.
    pub(super) fn entry(&self, member: MemberId, id: u64) -> Option<&Entry> {
        self.rings[member.index()].entries().iter().rev().find(|entry| entry.id == id)
    }

    /// Whether a member's ring has an entry; what is none, but is written where it is, anybody has.
    pub(super) fn holds(&self, member: MemberId, entry: u64) -> bool {
        let ring = self.rings.get(member.index());
        entry == IN_PLACE || ring.is_some_and(|ring| ring.entries().iter().any(|e| e.id == entry))
    }

    /// What entries hold is at home, or was not begun to be brought there: once that is durable, none
    /// has to be carried out.
    pub(super) fn all_at_home(&mut self) {
        self.homes_done += 1;
        for entry in self.rings.iter_mut().flat_map(|ring| ring.ring.entries_mut()) {
            entry.home = entry.home.or(Some(self.homes_done));
        }
    }

    fn bucket(stripe: Stripe) -> u16 {
        (stripe.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as u16
    }

    fn is_live(&self, stripe: Stripe) -> bool {
        self.live[usize::from(Self::bucket(stripe))] > 0
    }

    /// Whether a replay would carry out an entry of this very stripe.
    fn would_replay(&self, stripe: Stripe) -> bool {
        let mut entries = self.rings.iter().flat_map(JournalRing::entries);
        self.is_live(stripe) && entries.any(|entry| entry.stripe == Some(stripe))
    }

    /// Whether a replay would change a stripe: carry out an entry whose write was refused, so that its
    /// blocks were not brought home.
    pub(super) fn would_change(&self, stripe: Stripe) -> bool {
        let mut entries = self.rings.iter().flat_map(JournalRing::entries);
        self.is_live(stripe) && entries.any(|e| e.stripe == Some(stripe) && e.home.is_none())
    }

    /// A write of a stripe has come home without an entry and without FUA.
    pub(super) fn pass_by(&mut self, stripe: Stripe) {
        if self.len > 0 {
            self.homes_done += 1;
            self.passed[usize::from(Self::bucket(stripe))] = self.homes_done;
        }
    }

    /// Whether a stripe may hold what was written past the journal and is not durable.
    pub(super) fn is_passed(&self, stripe: Stripe) -> bool {
        self.passed[usize::from(Self::bucket(stripe))] > self.flushed
    }

    /// Whether a replay would carry out any entry, or a tail lags behind.
    pub(super) fn is_unsettled(&self) -> bool {
        self.entries > 0
    }

    /// The stripes of which a member may not have, or not durably, what entries hold.
    pub(super) fn unflushed(&self) -> impl Iterator<Item = Stripe> + '_ {
        let entries = self.rings.iter().flat_map(JournalRing::entries);
        entries.filter(|entry| !entry.retired).filter_map(|entry| entry.stripe)
    }

    /// The number of the next entry.
    pub(super) fn next_entry(&self) -> u64 {
        self.next_entry
    }

    /// Whether a replay would carry out nothing of a member's ring from before this entry.
    pub(super) fn is_settled_before(&self, member: MemberId, entry: u64) -> bool {
        let ring = self.rings.get(member.index());
        let mut before =
            ring.into_iter().flat_map(JournalRing::entries).take_while(|e| e.id < entry);
        before.all(|entry| entry.retired)
    }

    /// A member has another device, whose ring has the same as before from this entry on.
    pub(super) fn inherit_ring(&mut self, member: MemberId, first: u64) {
        while let Some(ring) = self.rings.get_mut(member.index())
            && let Some(entry) = ring.ring.pop_if(|entry| entry.id < first)
        {
            self.forget(entry);
        }
    }

    /// A member is gone, and its ring with it.
    pub(super) fn drop_ring(&mut self, member: MemberId) {
        while let Some(entry) = self.rings[member.index()].ring.pop_if(|_| true) {
            self.forget(entry);
        }
        self.rings[member.index()].clear();
    }

    fn forget(&mut self, entry: Entry) {
        if let Some(stripe) = entry.stripe {
            self.live[usize::from(Self::bucket(stripe))] -= 1;
            self.entries -= 1;
        }
    }

    /// An entry or tail record is durable in a ring: what it says is no longer live is free.
    fn on_disk(&mut self, member: MemberId, id: u64) {
        let ring = &mut self.rings[member.index()];
        let Some(entry) = ring.find(id) else {
            return;
        };
        entry.on_disk = true;
        let tail = entry.tail;
        ring.tail = ring.tail.max(tail);
        let latest = ring.entries().iter().rev().find(|e| e.on_disk).map_or(0, |e| e.id);
        // A tail record needs no replay, but its write may still be under way.
        let tail = ring.tail;
        let is_void = |oldest: &Entry| {
            let live = oldest.id >= tail;
            !live && oldest.id < latest && oldest.on_disk
        };
        while let Some(entry) = self.rings[member.index()].ring.pop_if(is_void) {
            self.forget(entry);
        }
    }
}

impl Engine {
    /// Whether a write has to go through the journal: it leaves blocks alone that it could harm,
    /// or the array is degraded, or a replay would overwrite it.
    pub(super) fn needs_entry(&self, id: JobId) -> bool {
        let job = &self.jobs[id];
        let made_real = job.base == crate::plan::Base::Zeros;
        let at_risk = !made_real
            && (job.kind != WriteKind::Full
                || self.array.impaired
                || !self.array.recorder.is_durable());
        self.journal.len > 0
            && job.entry.is_none()
            && job.error.is_none()
            && (at_risk || self.journal.is_live(job.stripe))
            && !self.holders(id).is_empty()
    }

    /// Makes a job wait while a replay would write to its stripe what it is about to overwrite
    /// without an entry of its own: a rebuild, what the member held before it failed; a scrub's
    /// correction, redundancy for what the scrub no longer believes. Returns whether it has to.
    pub(super) fn wait_for_replay_to_be_void(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        if !self.journal.would_replay(self.jobs[id].stripe) || !self.array.takes_writes() {
            return false;
        }
        self.journal.starved = true;
        self.jobs.wait(id, Wait::Space);
        self.flush(out);
        true
    }

    /// The members that hold the parity that a job writes. A spare that has taken a member's place
    /// since the plan was made is none: later writes of the stripe would pass its ring by.
    fn holders(&self, id: JobId) -> Set<MemberId> {
        let job = &self.jobs[id];
        let (_, writable) = self.health(job.stripe);
        let roles = job.plan.writes.iter().map(|io| io.role);
        roles
            .filter(|&role| role.index() >= self.geo.of(job.stripe).data() && writable.has(role))
            .fold(Set::EMPTY, |set, role| set.or(self.holders_of(job.stripe, role)))
    }

    pub(super) fn entry_blocks(&self, id: JobId) -> (u32, u32) {
        let writes = &self.jobs[id].plan.writes;
        let payload = writes.iter().map(|io| io.blocks).sum();
        (meta::journal_header_blocks(payload, writes.len() as u32), payload)
    }

    /// Writes a job's entry to all holders; returns whether there was room. If not, the job waits.
    pub(super) fn write_entry(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let holders = self.holders(id);
        let (header, payload) = self.entry_blocks(id);
        let blocks = u64::from(header + payload);
        if !self.array.takes_writes() {
            // Room is made by writes that come home, and none does any more.
            self.jobs[id].error = Some(RequestError::Io);
            return true;
        }
        let fits = |of: &JournalRing| of.ring.room(blocks + RESERVE).is_some();
        if !holders.into_iter().all(|member| fits(&self.journal.rings[member.index()])) {
            self.journal.starved = true;
            self.jobs.wait(id, Wait::Space);
            self.flush(out);
            return false;
        }
        let entry = self.journal.next_entry;
        self.journal.next_entry += 1;
        let stripe = self.jobs[id].stripe;
        for member in holders {
            let ring = &mut self.journal.rings[member.index()];
            let Some(at) = ring.ring.room(blocks + RESERVE) else {
                continue;
            };
            ring.push(entry, at, blocks, Some(stripe));
            self.journal.live[usize::from(Journal::bucket(stripe))] += 1;
            self.journal.entries += 1;
            let begun = self.store_in_ring(
                member.index(),
                Owner::Entry { job: id },
                (entry, at, blocks),
                out,
            );
            self.jobs[id].outstanding += begun;
        }
        self.jobs[id].entry = Some((entry, holders));
        self.counters.journal_entries += 1;
        true
    }

    pub(super) fn entry_done(
        &mut self,
        id: JobId,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        match (result, op.member) {
            (Err(why), Some(member))
                if self.array.is_current(&op) && !self.write_failed(member, why, out) =>
            {
                self.jobs[id].error = Some(RequestError::Io);
                if let Some((entry, _)) = self.jobs[id].entry {
                    self.journal.rings[member.index()].refuse(entry);
                }
            }
            (_, Some(member)) => {
                if let Some((entry, _)) = self.jobs[id].entry {
                    self.stored_in_ring(member, entry);
                }
            }
            (_, None) => {}
        }
        self.jobs.one_done(id);
    }

    /// Stores an entry, or a record of the tail, in a member's ring, and in that of its successor, where
    /// it has the same place. Tells how many stores that are.
    fn store_in_ring(
        &mut self,
        index: usize,
        owner: Owner,
        (entry, at, blocks): (u64, u64, u64),
        out: &mut Vec<Action>,
    ) -> u32 {
        let member = MemberId::at(index);
        let mut stores = 0;
        for device in self.array.stored_on(member) {
            stores += 1;
            if let Some(entry) = self.journal.rings[index].find(entry) {
                entry.stores += 1;
            }
            let place = Pba(self.journal.start.0 + at);
            self.issue(
                Flight::new(owner, Some(member), device),
                IoOp::Journal,
                place,
                blocks as u32,
                out,
            );
        }
        stores
    }

    /// A store in a ring has ended. What it says counts when it is wherever it has to be; returns
    /// whether it is.
    fn stored_in_ring(&mut self, member: MemberId, id: u64) -> bool {
        let Some(entry) = self.journal.rings[member.index()].find(id) else {
            return false;
        };
        entry.stores -= 1;
        let everywhere = entry.stores == 0 && !entry.refused;
        entry.on_disk |= entry.stores == 0;
        if everywhere {
            self.ring_moved(member, id);
        }
        everywhere
    }

    fn ring_moved(&mut self, member: MemberId, entry: u64) {
        let before = self.journal.rings[member.index()].entries().len();
        self.journal.on_disk(member, entry);
        if self.journal.rings[member.index()].entries().len() < before {
            self.journal.starved = false;
            self.jobs.wake(|wait| *wait == Wait::Space);
        }
    }

    /// What a replay would carry out of a job's entry, if it has one.
    pub(super) fn replay_of(&self, id: JobId) -> Option<Replay> {
        let job = &self.jobs[id];
        let (number, holders) = job.entry?;
        let header = u64::from(self.entry_blocks(id).0);
        let copy = |member: MemberId| {
            let mut entries = self.journal.rings[member.index()].entries().iter();
            let at = entries.find(|e| e.id == number)?.at;
            Some((member, Pba(self.journal.start.0 + at + header)))
        };
        let runs = job.plan.writes.iter().scan(0, |from, io| {
            let member = self.geo.member(job.stripe, io.role);
            let to = JournalRun { member, row: io.row, blocks: io.blocks };
            let run = ReplayRun { to, from: *from };
            *from += io.blocks;
            Some(run)
        });
        Some(Replay {
            entry: number,
            stripe: job.stripe,
            copies: holders.into_iter().filter_map(copy).collect(),
            runs: runs.collect(),
        })
    }

    /// The blocks of an entry are written to where they belong (but may not be durable there).
    pub(super) fn entry_at_home(
        &mut self,
        entry: u64,
        holders: Set<MemberId>,
        out: &mut Vec<Action>,
    ) {
        self.journal.homes_done += 1;
        let home = self.journal.homes_done;
        for member in holders {
            if let Some(entry) = self.journal.rings[member.index()].find(entry) {
                entry.home = Some(home);
            }
        }
        self.feed_starved(out);
    }

    /// Flushes if a job waits for room in the journal, which a flush can make.
    pub(super) fn feed_starved(&mut self, out: &mut Vec<Action>) {
        self.journal.starved &= self.jobs.waits().any(|wait| *wait == Wait::Space);
        if self.journal.starved {
            self.flush(out);
        }
    }

    /// What was home when a flush began needs no replay any more.
    pub(super) fn retire_entries(&mut self, mark: u64, out: &mut Vec<Action>) {
        self.journal.flushed = mark;
        for index in 0..self.journal.rings.len() {
            let ring = &mut self.journal.rings[index];
            for entry in ring.ring.entries_mut() {
                entry.retired |= entry.home.is_some_and(|home| home <= mark);
            }
            if self.journal.starved || ring.ring.used() > self.journal.len / 2 {
                self.write_tail(MemberId::at(index), out);
            }
        }
    }

    /// Writes how far a ring has become free, if it has.
    pub(super) fn write_tail(&mut self, member: MemberId, out: &mut Vec<Action>) {
        let id = self.journal.next_entry;
        if self.array.live_device(member).is_none() {
            return;
        }
        let ring = &mut self.journal.rings[member.index()];
        let wanted = ring.has_retired() && !ring.tail_in_flight;
        let Some(at) = ring.ring.room(1).filter(|_| wanted) else {
            return;
        };
        ring.push(id, at, 1, None);
        ring.tail_in_flight = true;
        self.journal.next_entry += 1;
        self.store_in_ring(member.index(), Owner::Tail { entry: id }, (id, at, 1), out);
    }

    pub(super) fn tail_done(
        &mut self,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let (Owner::Tail { entry }, Some(member)) = (op.owner, op.member) else {
            return;
        };
        let failed = match result {
            Err(why) => self.array.is_current(&op) && !self.write_failed(member, why, out),
            Ok(()) => false,
        };
        if failed {
            self.journal.rings[member.index()].refuse(entry);
        }
        if failed || self.stored_in_ring(member, entry) {
            self.journal.rings[member.index()].tail_in_flight = false;
        }
        // What was retired meanwhile may be what a job waits for, and no flush may follow.
        if !failed && self.journal.starved {
            self.write_tail(member, out);
        }
    }

    /// Writes the tails of all rings that lag behind.
    pub(super) fn write_tails(&mut self, out: &mut Vec<Action>) {
        for index in 0..self.journal.rings.len() {
            self.write_tail(MemberId::at(index), out);
        }
    }
}

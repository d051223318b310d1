//! Jobs' entries in the journal, and records of how far its rings are free.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::journal::{Journal, RESERVE};
use crate::engine::journal_ring::JournalRing;
use crate::engine::wait::Wait;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::meta::{self, JournalRun, Replay, ReplayRun};
use crate::plan::WriteKind;
use crate::units::{MemberId, Pba, Set};

impl Engine {
    /// Whether a write has to go through the journal: it leaves blocks alone that it could harm,
    /// or the array is degraded, or a replay would overwrite it.
    pub(super) fn needs_entry(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        let made_real = job.base == crate::plan::Base::Zeros;
        let at_risk = !made_real
            && (job.kind != WriteKind::Full
                || self.array.membership.impaired
                || !self.array.membership.recorder.is_durable());
        self.range.journal.len > 0
            && job.entry.is_none()
            && job.error.is_none()
            && (at_risk || self.range.journal.is_live(job.stripe))
            && !self.holders(id).is_empty()
    }

    /// Makes a job wait while a replay would write to its stripe what it is about to overwrite
    /// without an entry of its own: a rebuild, what the member held before it failed; a scrub's
    /// correction, redundancy for what the scrub no longer believes. Returns whether it has to.
    pub(super) fn wait_for_replay_to_be_void(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        if !self.range.journal.would_replay(self.range.jobs[id].stripe)
            || !self.array.membership.takes_writes()
        {
            return false;
        }
        self.range.journal.starved = true;
        self.range.jobs.wait(id, Wait::Space);
        self.flush(out);
        true
    }

    /// The members that hold the parity that a job writes. A spare that has taken a member's place
    /// since the plan was made is none: later writes of the stripe would pass its ring by.
    fn holders(&self, id: JobId) -> Set<MemberId> {
        let job = &self.range.jobs[id];
        let (_, writable) = self.health(job.stripe);
        let roles = job.plan.writes.iter().map(|io| io.role);
        roles
            .filter(|&role| role.index() >= self.geo.of(job.stripe).data() && writable.has(role))
            .fold(Set::EMPTY, |set, role| set.or(self.holders_of(job.stripe, role)))
    }

    pub(super) fn entry_blocks(&self, id: JobId) -> (u32, u32) {
        let writes = &self.range.jobs[id].plan.writes;
        let payload = writes.iter().map(|io| io.blocks).sum();
        (meta::journal_header_blocks(payload, writes.len() as u32), payload)
    }

    /// Writes a job's entry to all holders; returns whether there was room. If not, the job waits.
    pub(super) fn write_entry(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let holders = self.holders(id);
        let (header, payload) = self.entry_blocks(id);
        let blocks = u64::from(header + payload);
        if !self.array.membership.takes_writes() {
            // Room is made by writes that come home, and none does any more.
            self.range.jobs[id].error = Some(RequestError::Io);
            return true;
        }
        let fits = |of: &JournalRing| of.ring.room(blocks + RESERVE).is_some();
        if !holders.into_iter().all(|member| fits(&self.range.journal.rings[member.index()])) {
            self.range.journal.starved = true;
            self.range.jobs.wait(id, Wait::Space);
            self.flush(out);
            return false;
        }
        let entry = self.range.journal.next_entry;
        self.range.journal.next_entry += 1;
        let stripe = self.range.jobs[id].stripe;
        for member in holders {
            let ring = &mut self.range.journal.rings[member.index()];
            let Some(at) = ring.ring.room(blocks + RESERVE) else {
                continue;
            };
            ring.push(entry, at, blocks, Some(stripe));
            self.range.journal.live[usize::from(Journal::bucket(stripe))] += 1;
            self.range.journal.entries += 1;
            let begun = self.store_in_ring(
                member.index(),
                Owner::Entry { job: id },
                (entry, at, blocks),
                out,
            );
            self.range.jobs[id].outstanding += begun;
        }
        self.range.jobs[id].entry = Some((entry, holders));
        self.array.counters.journal_entries += 1;
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
                if self.array.membership.is_current(&op)
                    && !self.write_failed(member, why, out) =>
            {
                self.range.jobs[id].error = Some(RequestError::Io);
                if let Some((entry, _)) = self.range.jobs[id].entry {
                    self.range.journal.rings[member.index()].refuse(entry);
                }
            }
            (_, Some(member)) => {
                if let Some((entry, _)) = self.range.jobs[id].entry {
                    self.stored_in_ring(member, entry);
                }
            }
            (_, None) => {}
        }
        self.range.jobs.one_done(id);
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
        for device in self.array.membership.stored_on(member) {
            stores += 1;
            if let Some(entry) = self.range.journal.rings[index].find(entry) {
                entry.stores += 1;
            }
            let place = Pba(self.range.journal.start.0 + at);
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
        let Some(entry) = self.range.journal.rings[member.index()].find(id) else {
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
        let before = self.range.journal.rings[member.index()].entries().len();
        self.range.journal.on_disk(member, entry);
        if self.range.journal.rings[member.index()].entries().len() < before {
            self.range.journal.starved = false;
            self.range.jobs.wake(|wait| *wait == Wait::Space);
        }
    }

    /// What a replay would carry out of a job's entry, if it has one.
    pub(super) fn replay_of(&self, id: JobId) -> Option<Replay> {
        let job = &self.range.jobs[id];
        let (number, holders) = job.entry?;
        let header = u64::from(self.entry_blocks(id).0);
        let copy = |member: MemberId| {
            let mut entries = self.range.journal.rings[member.index()].entries().iter();
            let at = entries.find(|e| e.id == number)?.at;
            Some((member, Pba(self.range.journal.start.0 + at + header)))
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
        self.range.journal.homes_done += 1;
        let home = self.range.journal.homes_done;
        for member in holders {
            if let Some(entry) = self.range.journal.rings[member.index()].find(entry) {
                entry.home = Some(home);
            }
        }
        self.feed_starved(out);
    }

    /// Flushes if a job waits for room in the journal, which a flush can make.
    pub(super) fn feed_starved(&mut self, out: &mut Vec<Action>) {
        self.range.journal.starved &= self.range.jobs.waits().any(|wait| *wait == Wait::Space);
        if self.range.journal.starved {
            self.flush(out);
        }
    }

    /// What was home when a flush began needs no replay any more.
    pub(super) fn retire_entries(&mut self, mark: u64, out: &mut Vec<Action>) {
        self.range.journal.flushed = mark;
        for index in 0..self.range.journal.rings.len() {
            let ring = &mut self.range.journal.rings[index];
            for entry in ring.ring.entries_mut() {
                entry.retired |= entry.home.is_some_and(|home| home <= mark);
            }
            if self.range.journal.starved || ring.ring.used() > self.range.journal.len / 2 {
                self.write_tail(MemberId::at(index), out);
            }
        }
    }

    /// Writes how far a ring has become free, if it has.
    pub(super) fn write_tail(&mut self, member: MemberId, out: &mut Vec<Action>) {
        let id = self.range.journal.next_entry;
        if self.array.membership.live_device(member).is_none() {
            return;
        }
        let ring = &mut self.range.journal.rings[member.index()];
        let wanted = ring.has_retired() && !ring.tail_in_flight;
        let Some(at) = ring.ring.room(1).filter(|_| wanted) else {
            return;
        };
        ring.push(id, at, 1, None);
        ring.tail_in_flight = true;
        self.range.journal.next_entry += 1;
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
            Err(why) => {
                self.array.membership.is_current(&op) && !self.write_failed(member, why, out)
            }
            Ok(()) => false,
        };
        if failed {
            self.range.journal.rings[member.index()].refuse(entry);
        }
        if failed || self.stored_in_ring(member, entry) {
            self.range.journal.rings[member.index()].tail_in_flight = false;
        }
        // What was retired meanwhile may be what a job waits for, and no flush may follow.
        if !failed && self.range.journal.starved {
            self.write_tail(member, out);
        }
    }

    /// Writes the tails of all rings that lag behind.
    pub(super) fn write_tails(&mut self, out: &mut Vec<Action>) {
        for index in 0..self.range.journal.rings.len() {
            self.write_tail(MemberId::at(index), out);
        }
    }
}

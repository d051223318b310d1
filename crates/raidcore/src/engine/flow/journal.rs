//! Jobs' entries in the journal, and records of how far its rings are free.

use alloc::vec::Vec;
use core::mem;

use crate::engine::flight::{Flight, Owner};
use crate::engine::form::{Form, Trace, entry_blocks};
use crate::engine::wait::Wait;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::geometry::Role;
use crate::meta::{JournalRun, Replay, ReplayRun};
use crate::plan::{self, Base, SubIo, WriteKind};
use crate::units::{MemberId, Pba, Set};

impl Engine {
    /// Whether a write has to go through the journal: it leaves blocks alone that it could harm,
    /// or the array is degraded, or a replay would overwrite it.
    pub(super) fn needs_entry(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        let made_real = job.base == Base::Zeros;
        let at_risk = !made_real
            && (job.kind != WriteKind::Full
                || self.array.membership.impaired
                || !self.array.membership.recorder.is_durable());
        self.range.journal.exists()
            && job.journaled.entry.is_none()
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
        self.wait_for_space(id, out);
        true
    }

    /// A job waits for room in the journal, which a flush can make.
    fn wait_for_space(&mut self, id: JobId, out: &mut Vec<Action>) {
        self.range.journal.starve();
        self.range.jobs.wait(id, Wait::Space);
        self.flush(out);
    }

    /// The members that hold the parity that a job writes. A spare that has taken a member's place
    /// since the plan was made is none: later writes of the stripe would pass its ring by.
    fn holders(&self, id: JobId) -> Set<MemberId> {
        let job = &self.range.jobs[id];
        let (_, writable) = self.health(job.stripe);
        let roles = job.plan.writes.iter().map(|io| io.role);
        roles
            .filter(|&role| role.index() >= self.layout.of(job.stripe).data() && writable.has(role))
            .fold(Set::EMPTY, |set, role| set.or(self.holders_of(job.stripe, role)))
    }

    /// Decides which form the entry of a write will have that was planned. See the invariant of
    /// [`form`](crate::engine::form). If the entry has to hold a block that can't be read, the job waits
    /// until earlier entries are durable at home; returns whether it need not.
    pub(super) fn choose_form(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        self.range.jobs[id].journaled.form = Form::Whole;
        self.range.jobs[id].journaled.kept.clear();
        if !self.range.journal.has_partial() {
            return true;
        }
        let stripe = self.range.jobs[id].stripe;
        // Mostly there is no entry of the stripe, and nothing more to be looked at.
        let (readable, holders) = match self.range.journal.is_live(stripe) {
            true => (self.health(stripe).0, self.holders(id)),
            false => (Set::EMPTY, Set::EMPTY),
        };
        let mut plan = mem::take(&mut self.range.jobs[id].plan);
        let mut kept = mem::take(&mut self.range.jobs[id].journaled.kept);
        let (job, geo) = (&self.range.jobs[id], self.layout.of(stripe));
        let write = Trace::new(Form::Whole, geo, &plan.writes);
        let unflushed = || self.range.journal.unflushed_of(stripe, &write, holders);
        let is_alone = |role: &Role| unflushed().all(|trace| trace.sole == Some(*role));
        let mut all_kept = Ok(());
        let form = match write.sole.filter(|_| self.may_leave_out(id)).filter(is_alone) {
            Some(role) => {
                plan::leave_out(&mut plan, geo, role, &job.pieces);
                Form::Partial(role)
            }
            None => {
                for trace in unflushed() {
                    let rows = trace.from.max(write.from)..trace.to.min(write.to);
                    if let Some(role) = trace.left_out.filter(|&role| readable.has(role)) {
                        let more = plan::keep(&mut plan, &mut kept, role, rows, &job.bad);
                        all_kept = all_kept.and(more);
                    }
                }
                Form::Whole
            }
        };
        let job = &mut self.range.jobs[id];
        (job.plan, job.journaled.kept, job.journaled.form) = (plan, kept, form);
        if all_kept.is_err() {
            self.wait_for_space(id, out);
        }
        all_kept.is_ok()
    }

    /// Whether a write's entry may be partial, as far as that is up to the write and the members: all are
    /// there, each has its chunk in one place, and parity is computed from all of the stripe. If a member fails
    /// after that, its chunk is one that is lost, and no job copies any of the stripe's before this one ends.
    fn may_leave_out(&self, id: JobId) -> bool {
        matches!(self.range.jobs[id].kind, WriteKind::Rest | WriteKind::Delta)
            && self.array.membership.is_plain()
    }

    /// What a job's entry holds, and where that is in the plan's memory.
    pub(super) fn entry_runs(&self, id: JobId) -> impl Iterator<Item = SubIo> + Clone + '_ {
        let job = &self.range.jobs[id];
        job.journaled.form.runs(self.layout.of(job.stripe), &job.plan.writes, &job.journaled.kept)
    }

    /// Writes a job's entry to all holders; returns whether there was room. If not, the job waits.
    pub(super) fn write_entry(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        if !self.array.membership.takes_writes() {
            // Room is made by writes that come home, and none does any more.
            self.range.jobs[id].error = Some(RequestError::Io);
            return true;
        }
        let holders = self.holders(id);
        let (header, payload) = entry_blocks(self.entry_runs(id));
        let blocks = header + payload;
        let job = &self.range.jobs[id];
        let trace = Trace::new(job.journaled.form, self.layout.of(job.stripe), &job.plan.writes);
        let entry = self.range.journal.begin_entry(job.stripe, holders, u64::from(blocks), trace);
        let Some(entry) = entry else {
            self.wait_for_space(id, out);
            return false;
        };
        for member in holders {
            let owner = Owner::Entry { job: id };
            self.range.jobs[id].outstanding +=
                self.store_in_ring(member, owner, entry, blocks, out);
        }
        self.range.jobs[id].journaled.entry = Some((entry, holders));
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
        if let Some((entry, _)) = self.range.jobs[id].journaled.entry
            && !self.stored_in_ring(entry, &op, result, out)
        {
            self.range.jobs[id].error = Some(RequestError::Io);
        }
        self.range.jobs.one_done(id);
    }

    /// Stores an entry, or a record of the tail, in a member's ring, and in that of its successor, where
    /// it has the same place. Tells how many stores that are.
    fn store_in_ring(
        &mut self,
        member: MemberId,
        owner: Owner,
        entry: u64,
        blocks: u32,
        out: &mut Vec<Action>,
    ) -> u32 {
        let mut stores = 0;
        for device in self.array.membership.stored_on(member) {
            let Some(at) = self.range.journal.begin_store(member, entry) else { break };
            stores += 1;
            self.issue(Flight::new(owner, Some(member), device), IoOp::Journal, at, blocks, out);
        }
        stores
    }

    /// A store in a ring has ended. Returns whether it does not matter that the member has not taken it, if
    /// it has not.
    fn stored_in_ring(
        &mut self,
        entry: u64,
        op: &Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(member) = op.member else { return true };
        if let Err(why) = result
            && self.array.membership.is_current(op)
            && !self.write_failed(member, why, out)
        {
            self.range.journal.refuse(member, entry);
            return false;
        }
        if self.range.journal.stored(member, entry) {
            self.range.jobs.wake(|wait| *wait == Wait::Space);
        }
        true
    }

    /// What a replay would carry out of a job's entry, if it has one.
    pub(super) fn replay_of(&self, id: JobId) -> Option<Replay> {
        let job = &self.range.jobs[id];
        let (number, holders) = job.journaled.entry?;
        let header = u64::from(entry_blocks(self.entry_runs(id)).0);
        let copy = |member: MemberId| {
            let at = self.range.journal.place(member, number)?;
            Some((member, Pba(at.0 + header)))
        };
        let runs = self.entry_runs(id).scan(0, |from, io| {
            let member = self.layout.member(job.stripe, io.role);
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
            left_out: match job.journaled.form {
                Form::Partial(role) => Some(self.layout.member(job.stripe, role)),
                Form::Whole => None,
            },
        })
    }

    /// Flushes if a job waits for room in the journal, which a flush can make.
    pub(super) fn feed_starved(&mut self, out: &mut Vec<Action>) {
        let waits = || self.range.jobs.waits().any(|wait| *wait == Wait::Space);
        if self.range.journal.is_still_starved(waits) {
            self.flush(out);
        }
    }

    /// What was home when a flush began needs no replay any more.
    pub(super) fn retire_entries(&mut self, mark: u64, out: &mut Vec<Action>) {
        self.range.journal.flushed(mark);
        for member in self.layout.member_set() {
            if self.range.journal.is_wanting(member) {
                self.write_tail(member, out);
            }
        }
    }

    /// Writes how far a ring has become free, if it has.
    fn write_tail(&mut self, member: MemberId, out: &mut Vec<Action>) {
        if self.array.membership.live_device(member).is_some()
            && let Some(entry) = self.range.journal.begin_tail(member)
        {
            self.store_in_ring(member, Owner::Tail { entry }, entry, 1, out);
        }
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
        // What was retired meanwhile may be what a job waits for, and no flush may follow.
        if self.stored_in_ring(entry, &op, result, out) && self.range.journal.is_starved() {
            self.write_tail(member, out);
        }
    }

    /// Writes the tails of all rings that lag behind.
    pub(super) fn write_tails(&mut self, out: &mut Vec<Action>) {
        self.layout.member_set().for_each(|member| self.write_tail(member, out));
    }
}

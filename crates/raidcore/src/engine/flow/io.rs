//! What a job reads and writes: a plan's I/Os become devices' I/Os.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::stage::Stage;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, Note, RequestError};
use crate::geometry::Role;
use crate::plan::{Bad, WriteKind};
use crate::units::{MemberId, Pba, Set};

impl Engine {
    pub(super) fn issue_reads(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let (readable, _) = self.health(self.range.jobs[id].stripe);
        self.range.jobs[id].hedge.begin_reads();
        for index in 0..self.range.jobs[id].plan.reads.len() {
            self.issue_read(id, index, readable, out);
        }
        self.issue_fetches(id, out);
        if let Some(patience) = self.range.jobs[id].hedge.patience {
            self.range.patience.wait(self.now + patience, id);
        }
        Stage::AfterRead
    }

    /// Begins one of the plan's reads; `readable` is what can be read in the stripe now.
    fn issue_read(&mut self, id: JobId, index: usize, readable: Set<Role>, out: &mut Vec<Action>) {
        let job = &self.range.jobs[id];
        let io = job.plan.reads[index];
        let (member, at, current) = match self.replayed_run(id, index) {
            Some((entry, run)) => {
                // Nothing is left to be read from if none of those that have it is in service.
                let copy = self.replay_copy(entry);
                let (member, at) = copy.unwrap_or((MemberId(0), Pba(0)));
                (member, Pba(at.0 + u64::from(run.from)), copy.is_some())
            }
            None => {
                let source = self.source(id, index);
                let (member, at) = source.unwrap_or((MemberId(0), Pba(0)));
                (member, at, source.is_some() && readable.has(io.role))
            }
        };
        let Some(device) = self.array.membership.device(member).filter(|_| current) else {
            // It went between the plan and now, perhaps a spare is in its place; what is left
            // decides anew.
            self.range.jobs[id].replan = true;
            return;
        };
        let mem = job.bind(io.mem);
        self.range.jobs[id].outstanding += 1;
        let op = Flight::new(Owner::Read { job: id, index: index as u16 }, Some(member), device);
        self.issue(op, IoOp::Read(mem), at, io.blocks, out);
    }

    pub(super) fn issue_writes(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.range.jobs[id];
        if job.error.is_some() {
            return Stage::Record;
        }
        if self.range.jobs[id].writes_home() && !self.array.membership.takes_writes() {
            self.range.jobs[id].error = Some(RequestError::Io);
            return Stage::Record;
        }
        if matches!(self.range.jobs[id].work, Work::Write | Work::Reclaim) && self.needs_entry(id) {
            // A member has failed since: what needed no journal then does now.
            return Stage::Intend;
        }
        if self.note_missed(id, out) {
            return Stage::Write;
        }
        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure()
            && self.range.jobs[id].writes_home()
        {
            // A failed member must not come back without this write, nor without its entry.
            self.wait_for_record(id, ticket);
            return Stage::Write;
        }
        self.count_write(id);
        let job = &self.range.jobs[id];
        if job.work == (Work::Zero { trim: true }) {
            self.issue_discards(id, out);
        } else if job.work.resyncs() && self.layout.of(job.stripe).parities() == 0 {
            // Copies that agree need not be written; one that can't be read now may differ.
            if job.scrub.agrees() && job.bad.is_empty() {
                return Stage::Record;
            }
        }
        self.note_unmarked(id);
        for index in 0..self.range.jobs[id].plan.writes.len() {
            let job = &self.range.jobs[id];
            let (io, fua) = (job.plan.writes[index], job.asked.fua);
            let from = job.bind(io.mem);
            for (member, at) in self.targets(id, &io).iter() {
                // A member that failed since the plan was made misses the write; that is recorded before it
                // is acknowledged.
                for device in self.written_devices(id, member) {
                    self.range.jobs[id].outstanding += 1;
                    let owner = Owner::Write { job: id, index: index as u16 };
                    let op = Flight::new(owner, Some(member), device);
                    self.issue(op, IoOp::Write { from, fua }, at, io.blocks, out);
                }
            }
        }
        self.range.jobs[id].warming.written = true;
        self.after_write(id)
    }

    fn count_write(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        if job.work != Work::Write {
            return;
        }
        match job.kind {
            WriteKind::Full => {
                self.array.counters.full_stripe_writes += 1;
                self.array.counters.unjournaled_writes += u64::from(job.journaled.entry.is_none());
            }
            WriteKind::Delta => self.array.counters.delta_writes += 1,
            WriteKind::Rest | WriteKind::Survivors => self.array.counters.reconstruct_writes += 1,
        }
    }

    /// Tells all members that they need not keep a stripe.
    fn issue_discards(&mut self, id: JobId, out: &mut Vec<Action>) {
        let stripe = self.range.jobs[id].stripe;
        for member in self.layout.member_set() {
            let Some(role) = self.layout.role(stripe, member) else { continue };
            let (_, at) = self.layout.place(stripe, role);
            let blocks = self.layout.of(stripe).chunk();
            for device in self.written_devices(id, member) {
                self.range.jobs[id].outstanding += 1;
                let op = Flight::new(Owner::Discard { job: id }, Some(member), device);
                self.issue(op, IoOp::Discard, at, blocks, out);
            }
        }
    }

    pub(super) fn read_done(
        &mut self,
        id: JobId,
        index: u16,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let replays = || self.replayed_run(id, usize::from(index)).is_some();
        match (result, op.member) {
            (Ok(()), _) | (_, None) => self.range.jobs[id].hedge.land(index),
            (Err(_), Some(_)) if !self.array.membership.is_current(&op) => {
                self.range.jobs[id].replan = true
            }
            (Err(why), Some(member)) if why.is_final() || replays() => {
                if replays() {
                    self.range.replays.pass_copy_by(member);
                }
                if why.is_final() {
                    self.read_failed(member, why, out);
                } else {
                    self.array.membership.count_read_error(member);
                }
                self.range.jobs[id].replan = true;
            }
            (Err(_), Some(member)) => {
                self.array.membership.count_read_error(member);
                let io = self.range.jobs[id].plan.reads[usize::from(index)];
                let bad = Bad { role: io.role, row: io.row, blocks: 1 };
                if io.blocks > 1 {
                    self.range.jobs[id].retries.scan(io);
                } else if self.reads_another_copy(id, index, member, out) {
                    self.range.jobs[id].retries.had_from_another(bad);
                    return self.range.jobs.one_done(id);
                } else {
                    self.range.jobs[id].bad.push(bad);
                    self.range.jobs[id].replan = true;
                }
            }
        }
        self.range.jobs[id].retries.scanned(index);
        self.scan_on(id, out);
        self.range.jobs.one_done(id);
    }

    /// Reads a block anew that a member can't read, if another has it, too; tells whether it does.
    fn reads_another_copy(
        &mut self,
        id: JobId,
        index: u16,
        tried: MemberId,
        out: &mut Vec<Action>,
    ) -> bool {
        let job = &self.range.jobs[id];
        let role = job.plan.reads[usize::from(index)].role;
        if self.layout.member(job.stripe, role) == tried || self.array.membership.spared().is_none()
        {
            return false;
        }
        self.range.jobs[id].retries.try_another(index, tried);
        let before = self.range.jobs[id].outstanding;
        if self.source(id, usize::from(index)).is_some() {
            let (readable, _) = self.health(self.range.jobs[id].stripe);
            self.issue_read(id, usize::from(index), readable, out);
        }
        self.range.jobs[id].outstanding > before
    }

    /// Reads the next block of a read that failed, to find out which are the bad ones: one at a
    /// time, as a dying device fails them all.
    fn scan_on(&mut self, id: JobId, out: &mut Vec<Action>) {
        let job = &mut self.range.jobs[id];
        let index = job.plan.reads.len() as u16;
        let Some(block) = job.retries.next_block(index) else { return };
        job.plan.reads.push(block);
        let before = job.outstanding;
        let (readable, _) = self.health(self.range.jobs[id].stripe);
        self.issue_read(id, usize::from(index), readable, out);
        if self.range.jobs[id].outstanding == before {
            // The member went meanwhile: what is left decides anew.
            self.range.jobs[id].retries.scan_no_more();
        }
    }

    pub(super) fn write_done(
        &mut self,
        id: JobId,
        index: u16,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let io = self.range.jobs[id].plan.writes[usize::from(index)];
        if let (Err(why), Some(member), true) =
            (result, op.member, self.array.membership.is_current(&op))
        {
            let work = self.range.jobs[id].work;
            let helps = matches!(work, Work::Repair | Work::Align);
            if let Work::Replay { .. } = work
                && !self.array.healing.is_under_way()
                && !self.can_spare(member)
            {
                self.range.replays.refused_by(member, why);
                self.range.alignment.leave_behind(self.range.jobs[id].stripe, io.role);
                self.range.jobs[id].error = Some(RequestError::Io);
            } else if helps && !self.can_spare(member) {
                self.array.membership.count_write_error(member);
                if work == Work::Align {
                    self.range.jobs[id].error = Some(RequestError::Io);
                }
            } else if !self.write_failed(member, why, out) {
                self.range.jobs[id].error = Some(RequestError::Io);
                if self.range.jobs[id].writes_home() && self.layout.redundancy() > 0 {
                    self.tear(id, member, &io);
                }
            }
        } else if let (Ok(()), Some(member), Work::Repair) =
            (result, op.member, self.range.jobs[id].work)
            && !self.array.membership.is_successor(op.device)
        {
            let mut places = self.targets(id, &io).iter();
            if let Some((_, at)) = places.find(|&(target, _)| target == member) {
                out.push(Action::Note(Note::BlocksRepaired { member, at, blocks: io.blocks }));
            }
        }
        self.range.jobs.one_done(id);
    }
}

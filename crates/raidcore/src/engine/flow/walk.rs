//! A job's walk: what each stage does, and which one is next.
//!
//! Invariants: a stage is entered only when nothing of the job is outstanding; from `Plan` to
//! `Finish` the job holds its stripe's lock; it holds scratch buffers from `Buffers` on and gives
//! them back before it plans again.

use alloc::vec::Vec;
use core::mem;

use crate::engine::job::{Asked, Job};
use crate::engine::maps::Bit;
use crate::engine::stage::Stage;
use crate::engine::steering::Way;
use crate::engine::wait::{Change, Wait};
use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, PassKind, RequestError};
use crate::meta::MapKind;
use crate::plan::{Bad, Step, WriteKind};
use crate::units::Stripe;

impl Engine {
    /// A new job, if there is room for one of its sort.
    pub(super) fn new_job(&mut self, work: Work, stripe: Stripe) -> Option<JobId> {
        self.range.jobs.create(work, stripe, self.now)
    }

    /// Sets a job going: it takes its stripe's lock or waits for it.
    pub(super) fn start_job(&mut self, id: JobId) {
        let (geo, busy) = (&self.layout, self.array.steering.busy());
        self.range.jobs.start(id, |stripe, role| busy.has(geo.member(stripe, role)));
    }

    /// Takes a job's lock; if it is not free, the job is made ready when it is.
    fn lock(&mut self, id: JobId) -> bool {
        let (geo, busy) = (&self.layout, self.array.steering.busy());
        self.range.jobs.lock(id, |stripe, role| busy.has(geo.member(stripe, role)))
    }

    /// Walks a job on until it has to wait.
    pub(super) fn advance(&mut self, id: JobId, out: &mut Vec<Action>) {
        loop {
            let job = &self.range.jobs[id];
            if job.outstanding > 0 || job.queued {
                return;
            }
            let next = match job.stage {
                Stage::Lock => match self.lock(id) {
                    true => Stage::Plan,
                    false => {
                        self.range.jobs[id].stage = Stage::Plan;
                        return;
                    }
                },
                Stage::Plan => self.plan(id, out),
                Stage::Store => self.store(id, out),
                Stage::Buffers => {
                    self.range.jobs.take_buffers(id);
                    Stage::Read
                }
                Stage::Read => self.issue_reads(id, out),
                Stage::AfterRead => self.after_read(id),
                Stage::Compute => self.compute(id, out),
                Stage::Keep => self.keep(id, out),
                Stage::Locate => self.locate(id, out),
                Stage::Judge => self.judge(id),
                Stage::Mend => self.mend(id, out),
                Stage::Intend => self.intend(id, out),
                Stage::Write => self.issue_writes(id, out),
                Stage::Harden => self.harden(id, out),
                Stage::Unzero => self.unzero(id, out),
                Stage::Invalidate => self.invalidate_staged(id, out),
                Stage::Record => self.record_failures(id),
                Stage::Finish => return self.finish(id, out),
            };
            self.range.jobs[id].stage = next;
        }
    }

    fn after_read(&mut self, id: JobId) -> Stage {
        let failed = self.range.jobs[id].error.is_some() || self.range.jobs[id].replan;
        if self.range.jobs.is_given_up(id) {
            self.tell_late(id);
            return Stage::Finish;
        }
        if failed && self.range.jobs.gives_up(id) || self.range.jobs[id].error.is_some() {
            return Stage::Finish;
        }
        if mem::take(&mut self.range.jobs[id].replan) {
            self.range.jobs.release_buffers(id);
            return Stage::Plan;
        }
        self.claim(id);
        // A member that it is to write to may have become busy meanwhile.
        let Job { work, asked: Asked { way, .. }, plan, .. } = &self.range.jobs[id];
        let (work, way, late) = (*work, *way, !plan.reads.is_empty());
        match work {
            Work::Write if way == Way::Calm && self.is_to_be_staged(id, late) => {
                self.range.jobs.release_buffers(id);
                Stage::Store
            }
            Work::Reclaim if self.is_put_off(id) => Stage::Finish,
            Work::Read
            | Work::Write
            | Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => Stage::Compute,
        }
    }

    fn compute(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        self.ask_for_arithmetic(id, out);
        let job = &self.range.jobs[id];
        self.array.counters.kept_reads += job.kept.len() as u64;
        match job.work {
            Work::Read => {
                let copies =
                    |&(step, _): &_| matches!(step, Step::Clear { .. } | Step::Copy { .. });
                let rebuilt = !job.plan.steps.iter().all(copies);
                self.array.counters.reconstructed_reads += u64::from(rebuilt);
                if rebuilt {
                    self.demand(id);
                }
                if self.range.jobs[id].is_copied { Stage::Keep } else { Stage::Finish }
            }
            Work::Write | Work::Reclaim => Stage::Intend,
            Work::Sync(PassKind::Scrub { .. }) => Stage::Locate,
            Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. } => Stage::Write,
        }
    }

    /// The host carries out the plan's steps, if it has any.
    pub(super) fn ask_for_arithmetic(&mut self, id: JobId, out: &mut Vec<Action>) {
        let job = &mut self.range.jobs[id];
        if !job.plan.steps.is_empty() {
            job.outstanding += 1;
            out.push(Action::Compute(id));
        }
    }

    fn harden(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.range.jobs[id];
        if job.writes_home() && job.journaled.entry.is_none() && !job.asked.fua {
            self.range.journal.pass_by(job.stripe);
        }
        let (job, leans) = (&self.range.jobs[id], self.leans_on_caches(id));
        if job.error.is_some() || !job.makes_real() && !job.log.covers && !leans {
            return Stage::Record;
        }
        if let Work::Zero { .. } = job.work {
            // The zero map says so already.
            return Stage::Invalidate;
        }
        if self.config.undefined_discards && !job.log.covers && !leans {
            return Stage::Unzero;
        }
        let ticket = self.flush(out);
        self.wait_for_flush(id, ticket);
        Stage::Unzero
    }

    fn unzero(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        if self.array.flusher.has_failed() {
            self.range.jobs[id].error = Some(RequestError::Io);
        }
        if self.range.jobs[id].error.is_some() {
            return Stage::Record;
        }
        if !self.range.jobs[id].makes_real() {
            return Stage::Invalidate;
        }
        // A member that failed and came back would show what it held before the discard.
        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure() {
            self.wait_for_record(id, ticket);
            return Stage::Unzero;
        }
        let stripe = self.range.jobs[id].stripe;
        self.range.maps.zero.map.clear(stripe.0);
        self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), Change::Cleared, out);
        Stage::Invalidate
    }

    /// Whether a write is to be durable when it ends, but with a member less some of it would be made of
    /// what other members have taken of its rows past the journal and not flushed.
    fn leans_on_caches(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        job.asked.fua
            && job.work == Work::Write
            && job.kind != WriteKind::Full
            && self.range.journal.is_passed(job.stripe)
    }

    /// A job waits for the record of a failure, which may be impossible.
    pub(super) fn wait_for_record(&mut self, id: JobId, ticket: u64) {
        if self.array.membership.recorder.is_broken() {
            self.range.jobs[id].error = Some(RequestError::Io);
        } else {
            self.range.jobs.wait(id, Wait::Record(ticket));
        }
    }

    /// A write that a member missed is acknowledged only when all others have that on record.
    fn record_failures(&mut self, id: JobId) -> Stage {
        let writes = self.range.jobs[id].work != Work::Read;
        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure().filter(|_| writes)
        {
            self.wait_for_record(id, ticket);
        }
        Stage::Finish
    }

    fn finish(&mut self, id: JobId, out: &mut Vec<Action>) {
        let left = self.left_behind(id);
        self.range.jobs.release_buffers(id);
        self.end_warming(id);
        self.end_intent(id, out);
        self.end_staging(id);
        self.end_twin(id, left);
        self.end_unmarked(id);
        let Job { work, stripe, error, .. } = self.range.jobs[id];
        match work {
            Work::Sync(kind) => {
                self.tell_findings(id, out);
                self.pass_step_done(kind, id, out);
            }
            Work::Replay { .. } => self.replayed(error.is_none()),
            Work::Align => self.range.alignment.ended(stripe, error.is_none()),
            Work::Write | Work::Zero { .. } | Work::Reclaim | Work::Repair if error.is_none() => {
                self.has_changed(id);
            }
            Work::Read | Work::Write | Work::Zero { .. } | Work::Repair | Work::Reclaim => {}
        }
        if self.range.alignment.is_torn(stripe) {
            self.look_at_torn(id);
        }
        self.answer(id, out);
        self.range.jobs.unlock(id);
        let (bad, weak) = (
            mem::take(&mut self.range.jobs[id].bad),
            mem::take(self.range.jobs[id].retries.weak()),
        );
        if work != Work::Repair && error.is_none() {
            self.repair_later(stripe, &bad);
            self.repair_later(stripe, &weak);
        }
        (self.range.jobs[id].bad, *self.range.jobs[id].retries.weak()) = (bad, weak);
        self.range.jobs.remove(id);
    }

    /// A job has changed its stripe: a pass that could not do it may do it now.
    fn has_changed(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        let (stripe, geo) = (job.stripe, self.layout.of(job.stripe));
        let (writes, pieces) = (job.work == Work::Write, &job.pieces);
        if writes && job.asked.way == Way::Around {
            // It was staged, and home is as it was.
            return;
        }
        self.array.background.changed(stripe, |lba| {
            let mut written = pieces
                .iter()
                .flat_map(|piece| geo.lbas(stripe, piece.role, piece.row, piece.blocks));
            !writes || written.any(|other| other == lba)
        });
    }

    /// A job has done what users want of it, or failed to.
    pub(super) fn answer(&mut self, id: JobId, out: &mut Vec<Action>) {
        self.tell_policy(id);
        let error = self.range.jobs[id].error;
        for index in 0..self.range.jobs[id].asked.tags.len() {
            let tag = self.range.jobs[id].asked.tags[index];
            self.part_done(tag, error, out);
        }
        self.range.jobs[id].asked.tags.clear();
    }

    /// Rewrites unreadable blocks once the lock is free, row by row; if there is no room for a job
    /// now, the next read of the blocks will find them again.
    fn repair_later(&mut self, stripe: Stripe, bad: &[Bad]) {
        for (index, first) in bad.iter().enumerate() {
            if bad[..index].iter().any(|b| b.row == first.row) {
                continue;
            }
            let Some(repair) = self.new_job(Work::Repair, stripe) else { return };
            self.range.jobs[repair].bad.extend(bad.iter().filter(|b| b.row == first.row));
            self.start_job(repair);
        }
    }
}

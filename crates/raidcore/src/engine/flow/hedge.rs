//! A read that takes long is tried a second way, and an entry of the staging log is put on others. Of writes at
//! home that take long see [`twins`](super::twins).

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use crate::engine::hedge::{Hedge, Second};
use crate::engine::job::Asked;
use crate::engine::jobs::Jobs;
use crate::engine::stage::Stage;
use crate::engine::staging::Staging;
use crate::engine::steering::Way;
use crate::engine::{Action, Engine, JobId};
use crate::geometry::Role;
use crate::plan::{self, Base, Health, Parity};
use crate::units::Set;

/// The least that passes before a read or write that takes long is looked at again.
pub(super) const AGAIN: Duration = Duration::from_micros(10);

impl Engine {
    /// Plans a read that will not wait for ever, if the policy says so. Tells whether it has.
    pub(super) fn plan_first(&mut self, id: JobId, readable: Set<Role>, parity: Parity) -> bool {
        let job = &self.range.jobs[id];
        let able = job.base == Base::Stored
            && job.bad.is_empty()
            && job.fetching.is_empty()
            && job.kept.is_empty()
            && self.layout.redundancy() > 0;
        if !able {
            return false;
        }
        let patience = self.array.steering.patience(self.now, job.asked.blocks);
        let Some(patience) = patience else { return false };
        let prefer = self.preferred_copy(job.stripe);
        if !self.plan_aside(id, readable, parity, prefer) {
            return false;
        }
        if Hedge::can_follow(self.range.jobs[id].plan.reads.len()) {
            self.look_after(id, patience, patience);
        }
        true
    }

    /// Plans the second of two that read the same, if the policy wants it now.
    pub(super) fn plan_second(&mut self, id: JobId, readable: Set<Role>, parity: Parity) -> Stage {
        let first = self.range.jobs.other_of(id);
        let job = &self.range.jobs[id];
        let others = readable.minus(job.hedge.avoids());
        let calm = others.minus(self.roles_of(job.stripe, self.array.steering.busy()));
        // Even a member that is said to be busy may answer before the one that takes long.
        let planned = parity == Parity::InStep
            && (self.plan_aside(id, calm, parity, 0) || self.plan_aside(id, others, parity, 0));
        if !planned {
            self.range.jobs.gives_up(id);
            if let Some(first) = first {
                self.look_again(first);
            }
            return Stage::Finish;
        }
        let job = &self.range.jobs[id];
        let extra: u32 = job.plan.reads.iter().map(|io| io.blocks).sum();
        if !self.array.steering.takes(self.now, job.asked.blocks, extra) {
            self.range.jobs.gives_up(id);
            if let Some(first) = first {
                self.range.jobs[first].hedge.waited = None;
            }
            return Stage::Finish;
        }
        self.array.counters.detour_blocks += u64::from(extra);
        self.array.counters.hedged_reads += 1;
        // Whichever of the two answers.
        for id in first.into_iter().chain([id]) {
            self.range.jobs[id].asked.way = Way::Around;
        }
        Stage::Buffers
    }

    /// There is no second way now: too many members take long, or there is no room. A read that has waited is looked at
    /// again after as long again, when it may wait for fewer.
    fn look_again(&mut self, id: JobId) {
        let Some(waited) = self.range.jobs[id].hedge.waited else { return };
        let again = waited.max(AGAIN);
        self.look_after(id, again, again.saturating_mul(2));
    }

    /// A read will have `waited` when it is looked at.
    fn look_after(&mut self, id: JobId, wait: Duration, waited: Duration) {
        self.range.jobs[id].hedge.waited = Some(waited);
        self.range.patience.wait(self.now + wait, id);
    }

    /// A read has all that it needs. If it is one of two, it answers.
    pub(super) fn claim(&mut self, id: JobId) {
        let Some(other) = self.range.jobs.other_of(id) else { return };
        if self.range.jobs.claim(id) {
            self.array.counters.hedges_won += 1;
            self.range.jobs[other].hedge.set_answered(self.now);
        } else {
            self.tell_hedged(id, self.now);
        }
    }

    /// The policy learns when a read that was given up has ended at home.
    pub(super) fn tell_late(&mut self, id: JobId) {
        if let Some(answered) = self.range.jobs[id].hedge.answered() {
            self.tell_hedged(id, answered);
        }
    }

    /// The first of two reads has ended; its request was answered then. If it has ended well, the policy learns of it:
    /// one of a member that has failed since may have hung.
    fn tell_hedged(&mut self, id: JobId, answered: Instant) {
        let job = &self.range.jobs[id];
        let (readable, _) = self.health(job.stripe);
        let is_well = !job.replan && job.plan.reads.iter().all(|io| readable.has(io.role));
        let Asked { blocks, begun, .. } = job.asked;
        if is_well {
            self.array.steering.hedged(blocks, answered - begun, self.now - begun);
        }
    }

    /// Plans a read to scratch memory; tells whether it can be read.
    pub(super) fn plan_aside(
        &mut self,
        id: JobId,
        readable: Set<Role>,
        parity: Parity,
        prefer: usize,
    ) -> bool {
        let job = &mut self.range.jobs[id];
        let health = Health { readable, writable: readable, parity, bad: &[] };
        let plan = &mut job.plan;
        plan::read_aside(plan, self.layout.of(job.stripe), &health, &job.pieces, prefer).is_ok()
    }

    /// Begins a second read for each that has waited long enough, and stores elsewhere what was to be stored by
    /// now.
    pub(super) fn hedge(&mut self, out: &mut Vec<Action>) {
        while let Some(id) = self.range.patience.pop_due(self.now) {
            if self.range.jobs.writes_alone(id) {
                self.stage_too(id);
            } else if self.range.jobs.reads_alone(id) {
                self.read_too(id);
            } else if let Some(number) = entry_waited_for(&self.range.jobs, &self.range.staging, id)
            {
                self.store_elsewhere(id, number, out);
            }
        }
    }

    /// A read has waited long enough, or had, before it was planned anew.
    fn read_too(&mut self, id: JobId) {
        let is_looked_at = self.range.jobs[id].hedge.waited.is_some();
        if is_looked_at && self.range.jobs.begin_second(id, self.now) == Second::NotYet {
            self.look_again(id);
        }
    }

    /// Forgets the deadlines of jobs that wait no more.
    pub(super) fn forget_patience(&mut self) {
        let (jobs, staging) = (&self.range.jobs, &self.range.staging);
        let waits = |id| {
            jobs.writes_alone(id)
                || jobs.reads_alone(id)
                || entry_waited_for(jobs, staging, id).is_some()
        };
        self.range.patience.forget_ended(waits);
    }
}

/// The entry that a job waits for, if it lacks copies.
fn entry_waited_for(jobs: &Jobs, staging: &Staging, id: JobId) -> Option<u64> {
    jobs.get(id)?.log.staged.filter(|&number| staging.is_waited_for(number))
}

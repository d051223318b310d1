//! A read that takes long is tried a second way.

use core::cmp::Reverse;
use core::mem;

use det::{Id, Instant};

use crate::engine::hedge::READS_MAX;
use crate::engine::stage::Stage;
use crate::engine::steering::Way;
use crate::engine::work::Work;
use crate::engine::{Engine, JobId};
use crate::geometry::Role;
use crate::plan::{self, Base, Health, Parity};
use crate::units::{Mem, Set};

impl Engine {
    /// When the first to wait has waited long enough.
    pub(in crate::engine) fn patience_deadline(&self) -> Option<Instant> {
        self.range.patience.until.peek().map(|Reverse((at, _))| *at)
    }

    /// Plans a read that will not wait for ever, if the policy says so. Tells whether it has.
    pub(super) fn plan_first(&mut self, id: JobId, readable: Set<Role>, parity: Parity) -> bool {
        let job = &self.range.jobs[id];
        let able = job.base == Base::Stored
            && job.bad.is_empty()
            && job.fetching.is_empty()
            && self.geo.redundancy() > 0;
        if !able {
            return false;
        }
        let patience = self.array.steering.patience(self.now, job.blocks);
        let Some(patience) = patience else { return false };
        let prefer = self.preferred_copy(job.stripe);
        if !self.plan_aside(id, readable, parity, prefer) {
            return false;
        }
        if self.range.jobs[id].plan.reads.len() <= READS_MAX {
            self.range.patience.until.push(Reverse((self.now + patience, id.to_bits())));
        }
        true
    }

    /// Plans the second of two that read the same, if the policy wants it now.
    pub(super) fn plan_second(&mut self, id: JobId, readable: Set<Role>, parity: Parity) -> Stage {
        let job = &self.range.jobs[id];
        let others = readable.minus(job.hedge.avoids);
        let calm = others.minus(self.roles_of(job.stripe, self.array.steering.busy()));
        // Even a member that is said to be busy may answer before the one that takes long.
        let planned = parity == Parity::InStep
            && (self.plan_aside(id, calm, parity, 0) || self.plan_aside(id, others, parity, 0));
        if !planned {
            self.gives_up(id);
            return Stage::Finish;
        }
        let job = &self.range.jobs[id];
        let extra: u32 = job.plan.reads.iter().map(|io| io.blocks).sum();
        if !self.array.steering.takes(self.now, job.blocks, extra) {
            self.gives_up(id);
            return Stage::Finish;
        }
        self.array.counters.detour_blocks += u64::from(extra);
        self.array.counters.hedged_reads += 1;
        self.range.jobs[id].way = Way::Around;
        Stage::Buffers
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
        plan::read_aside(plan, &self.geo, &health, &job.pieces, prefer).is_ok()
    }

    /// One of a job's reads has ended well.
    pub(super) fn landed(&mut self, id: JobId, index: u16) {
        let (job, index) = (&mut self.range.jobs[id], usize::from(index));
        if index < READS_MAX {
            job.hedge.landed = job.hedge.landed.with(index);
        }
    }

    /// Begins a second read for each that has waited long enough.
    pub(super) fn hedge(&mut self) {
        while let Some(&Reverse((at, first))) = self.range.patience.until.peek()
            && at <= self.now
        {
            self.range.patience.until.pop();
            if self.waits(first) {
                self.begin_second(Id::from_bits(first));
            }
        }
    }

    /// Pops the entries of reads that have ended.
    pub(super) fn forget_landed(&mut self) {
        while let Some(&Reverse((_, first))) = self.range.patience.until.peek()
            && !self.waits(first)
        {
            self.range.patience.until.pop();
        }
    }

    /// Whether a job is still on its way to being read, alone, and to answer.
    fn waits(&self, job: u64) -> bool {
        let job = self.range.jobs.get(Id::from_bits(job));
        job.is_some_and(|job| {
            let reads = matches!(job.stage, Stage::Buffers | Stage::Read | Stage::AfterRead);
            reads && job.hedge.partner.is_none() && !job.tags.is_empty()
        })
    }

    fn begin_second(&mut self, first: JobId) {
        let job = &self.range.jobs[first];
        // One that is tried block by block has more and more reads.
        if job.plan.reads.len() > READS_MAX {
            return;
        }
        // What was planned anew after an error may have no end of patience, and go to the user's memory.
        if job.plan.reads.iter().any(|io| matches!(io.mem, Mem::Payload { .. })) {
            return;
        }
        let reads = job.plan.reads.iter().enumerate();
        let late = reads.filter(|(index, _)| !job.hedge.landed.has(*index));
        let late: Set<Role> = late.map(|(_, io)| io.role).collect();
        let is_read = job.stage == Stage::AfterRead && !job.replan && job.bad.is_empty();
        if !is_read || late.is_empty() {
            return;
        }
        let (stripe, blocks, begun) = (job.stripe, job.blocks, job.begun);
        let Some(second) = self.new_job(Work::Read, stripe) else { return };
        self.range.jobs[first].hedge.partner = Some(second);
        let pieces = mem::take(&mut self.range.jobs[first].pieces);
        let job = &mut self.range.jobs[second];
        job.pieces.extend(&pieces);
        (job.hedge.partner, job.hedge.avoids, job.blocks, job.begun) =
            (Some(first), late, blocks, begun);
        self.range.jobs[first].pieces = pieces;
        self.range.jobs.join(second);
    }

    /// Whether another job has answered in this one's place.
    pub(super) fn is_given_up(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        job.work == Work::Read && job.tags.is_empty() && job.hedge.partner.is_none()
    }

    /// Leaves the answer to the other of two that read the same; tells whether there is one.
    pub(super) fn gives_up(&mut self, id: JobId) -> bool {
        let Some(other) = self.part(id) else { return false };
        let tags = mem::take(&mut self.range.jobs[id].tags);
        self.range.jobs[other].tags.extend(&tags);
        self.range.jobs[id].tags = tags;
        self.range.jobs[id].tags.clear();
        // It goes on as if it had always been alone.
        self.range.jobs[other].hedge.avoids = Set::EMPTY;
        true
    }

    /// A job has read all, and answers.
    pub(super) fn claim(&mut self, id: JobId) {
        let Some(other) = self.part(id) else { return };
        if self.range.jobs[id].tags.is_empty() {
            let tags = mem::take(&mut self.range.jobs[other].tags);
            self.range.jobs[id].tags.extend(&tags);
            self.range.jobs[other].tags = tags;
            self.range.jobs[other].tags.clear();
            self.array.counters.hedges_won += 1;
        }
    }

    /// Two that read the same go on each by itself.
    fn part(&mut self, id: JobId) -> Option<JobId> {
        let other = self.range.jobs[id].hedge.partner.take()?;
        self.range.jobs[other].hedge.partner = None;
        Some(other)
    }
}

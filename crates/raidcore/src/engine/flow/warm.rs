//! Writes of what was written not long ago find old data and parity in memory, and leave there what
//! they have made of it.

use core::mem;

use crate::engine::job::Job;
use crate::engine::range::Range;
use crate::engine::warm::Warmed;
use crate::engine::work::Work;
use crate::engine::{Engine, JobId};
use crate::geometry::Role;
use crate::plan::{self, Base, Piece, Plan, Step, SubIo, WriteKind};
use crate::units::{Mem, MemberId, Pba};

/// The most blocks of a piece that is kept. Of larger ones, copying costs more than reading them does.
const LARGEST: u32 = 16;

impl Engine {
    /// A job begins to plan. Its slots of an earlier plan become free. Unless it is a write, all that is
    /// held of its stripe is forgotten, as it may change that. Writes are left to
    /// [`warm_up`](Self::warm_up).
    pub(super) fn cool_down(&mut self, id: JobId) {
        let Range { warm, jobs, .. } = &mut self.range;
        if warm.is_off() {
            return;
        }
        let job = &mut jobs[id];
        job.warming.blocks.drain(..).for_each(|warmed| warm.release(warmed.slot));
        if job.is_exclusive() && !matches!(job.work, Work::Write | Work::Reclaim) {
            warm.forget(job.stripe);
        }
    }

    /// A write is planned that goes home. Blocks that are held are taken out of its reads, and what it
    /// makes of rows that are written again and again is held when it has ended. (Which way it goes, and
    /// whether it has to wait for a busy member, was decided as if it read all of them.)
    pub(super) fn warm_up(&mut self, id: JobId) {
        let writes = matches!(self.range.jobs[id].work, Work::Write | Work::Reclaim);
        if !writes || self.range.warm.is_off() {
            return;
        }
        let (known, version) = (self.leaves_known(id), self.record_version());
        let Range { warm, jobs, .. } = &mut self.range;
        warm.follow(version);
        let job = &mut jobs[id];
        let (stripe, geo) = (job.stripe, self.layout.of(job.stripe));
        let Some(parity) = geo.spare_roles().least().filter(|_| known) else {
            return warm.forget(stripe);
        };
        let is_small = |piece: &Piece| piece.blocks <= LARGEST;
        let keeps = job.kind != WriteKind::Full && job.pieces.iter().all(is_small);
        let is_held = warm.concerns(stripe);
        let before = job.plan.steps.len();
        for index in 0..job.plan.writes.len() {
            let io = job.plan.writes[index];
            for row in (io.row..io.row + io.blocks).filter(|_| io.role == parity) {
                let again = keeps && warm.is_written_again(stripe, row);
                if !again && !is_held {
                    continue;
                }
                for role in geo.roles() {
                    let (written, read) = used(&job.plan, role, row);
                    if written.is_none() && !(read && keeps) {
                        continue;
                    }
                    let place = warm.place(stripe, role, row);
                    let (held, home) = (warm.take(place), plan::scratch(role, row));
                    let had = held.is_some() && read;
                    if let Some(slot) = held.filter(|_| read) {
                        let src = Job::in_plan(warm.memory(slot));
                        if !is_changed_by(&mut job.plan.steps[..before], home, src) {
                            job.plan.steps.push((Step::Copy { dst: home, src }, 1));
                        }
                    }
                    if let Some(slot) = held.or_else(|| again.then(|| warm.claim()).flatten()) {
                        let from = written.unwrap_or(home);
                        job.warming.blocks.push(Warmed { place, slot, from, had });
                    }
                }
            }
        }
        // What is held is there before anything is made of it.
        let copies = job.plan.steps.len() - before;
        job.plan.steps.rotate_right(copies);
        for &Warmed { slot, from, .. } in &job.warming.blocks {
            let dst = Job::in_plan(warm.memory(slot));
            job.plan.steps.push((Step::Copy { dst, src: from }, 1));
        }
        let blocks = &job.warming.blocks;
        let is_had = |place| blocks.iter().any(|warmed| warmed.had && warmed.place == place);
        let spared = job.plan.spare_reads(|role, row| is_had(warm.place(stripe, role, row)));
        job.warming.version = version;
        self.array.counters.warm_blocks += u64::from(spared);
    }

    /// Whether what a planned write leaves at home is known when it has ended: all members take it, and
    /// what it has read is what they have.
    fn leaves_known(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        job.base == Base::Stored
            && job.bad.is_empty()
            && self.array.membership.is_plain()
            && self.is_in_step(job.stripe)
    }

    fn record_version(&self) -> u64 {
        self.array.membership.recorder.next_version()
    }

    /// A job has ended: what it has left at home is held, if it has written all of it and no member has
    /// failed meanwhile.
    pub(super) fn end_warming(&mut self, id: JobId) {
        let version = self.record_version();
        let Range { warm, jobs, .. } = &mut self.range;
        let job = &mut jobs[id];
        let warming = &mut job.warming;
        let known =
            mem::take(&mut warming.written) && job.error.is_none() && warming.version == version;
        for Warmed { place, slot, .. } in warming.blocks.drain(..) {
            match known {
                true => warm.put(place, slot, self.now),
                false => warm.release(slot),
            }
        }
    }

    /// Gives back the memory of what is held once nothing was written again for a while.
    pub(super) fn cool_off(&mut self) {
        if self.range.warm.deadline(self.config.quiesce_delay).is_some_and(|at| at <= self.now) {
            self.range.warm.forget_all();
        }
    }

    /// The blocks at home of which the content is held in memory, each with its member and place, and
    /// where in memory it is: for checks.
    pub fn held_blocks(&self) -> impl Iterator<Item = (MemberId, Pba, Mem)> + '_ {
        self.range.warm.held(self.record_version()).map(|(stripe, role, row, mem)| {
            let (member, at) = self.place(stripe, role, row);
            (member, at, mem)
        })
    }
}

/// Whether one of the steps changes parity by this old content of a single block, which is `held`: it is
/// taken from there.
fn is_changed_by(steps: &mut [(Step, u32)], content: Mem, held: Mem) -> bool {
    for (step, blocks) in steps {
        if let Step::Delta { old, .. } = step
            && (*old, *blocks) == (content, 1)
        {
            *old = held;
            return true;
        }
    }
    false
}

/// What a plan writes to a row of a role, and whether it reads it.
fn used(plan: &Plan, role: Role, row: u32) -> (Option<Mem>, bool) {
    let covers = |io: &&SubIo| io.role == role && (io.row..io.row + io.blocks).contains(&row);
    let written = plan.writes.iter().find(covers).map(|io| io.mem.plus(row - io.row));
    (written, plan.reads.iter().any(|io| covers(&io)))
}

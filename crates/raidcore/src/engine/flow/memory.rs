//! What is staged is kept in memory, and found there by what reads it.

use alloc::vec::Vec;

use crate::engine::job::Job;
use crate::engine::range::Range;
use crate::engine::staging::Kept;
use crate::engine::{Action, Engine, JobId};
use crate::plan::{Piece, Step};
use crate::units::{Lba, Mem, MemberId, Pba};

/// The most blocks of a write that is kept: of a larger one the copy costs more than to read it back.
const LARGEST: u32 = 16;

impl Engine {
    /// Copies the blocks of an entry that a job has begun into memory, as far as there is room, unless they are
    /// many. The write is acknowledged when it is in both.
    pub(super) fn keep_staged(&mut self, id: JobId, number: u64, out: &mut Vec<Action>) {
        let Range { staging, jobs, .. } = &mut self.range;
        let job = &mut jobs[id];
        // It is not carried out as it was planned.
        job.plan.steps.clear();
        if job.asked.blocks <= LARGEST {
            staging.claim(number, &mut job.kept);
        }
        for &Kept { slot, at } in &job.kept {
            let dst = Job::in_plan(staging.memory_of(slot));
            add_copy(&mut job.plan.steps, dst, at);
        }
        self.ask_for_arithmetic(id, out);
    }

    /// Sees to it that a job gets a staged block from memory, if it is there; tells whether it does.
    pub(super) fn recall(&mut self, id: JobId, lba: Lba, block: Piece) -> bool {
        let slot = self.range.staging.recall(lba);
        let kept = slot.map(|slot| Kept { slot, at: block.mem });
        self.range.jobs[id].kept.extend(kept);
        kept.is_some()
    }

    /// A job was planned: what it has found in memory is where its plan wants it before anything is made of
    /// it.
    pub(super) fn copy_kept(&mut self, id: JobId) {
        let Range { staging, jobs, .. } = &mut self.range;
        let Job { plan, kept, .. } = &mut jobs[id];
        if kept.is_empty() {
            return;
        }
        let planned = plan.steps.len();
        for &Kept { slot, at } in &*kept {
            add_copy(&mut plan.steps, at, Job::in_plan(staging.memory_of(slot)));
        }
        plan.steps.rotate_left(planned);
    }

    /// A job needs nothing more of what it holds in memory.
    pub(super) fn let_go(&mut self, id: JobId) {
        let Range { staging, jobs, .. } = &mut self.range;
        jobs[id].kept.drain(..).for_each(|kept| staging.let_go(kept.slot));
    }

    /// The staged blocks that are in memory, each with where in memory it is, and the members that have it,
    /// and where: for checks.
    pub fn kept_blocks(&self) -> impl Iterator<Item = (Mem, Vec<(MemberId, Pba)>)> {
        self.range.staging.kept_blocks()
    }
}

/// Adds the copy of a block to the steps of a plan, or to the last one if it goes on there.
fn add_copy(steps: &mut Vec<(Step, u32)>, dst: Mem, src: Mem) {
    if let Some((Step::Copy { dst: to, src: from }, blocks)) = steps.last_mut()
        && (to.plus(*blocks), from.plus(*blocks)) == (dst, src)
    {
        *blocks += 1;
    } else {
        steps.push((Step::Copy { dst, src }, 1));
    }
}

//! Jobs store writes together in the staging log.

use alloc::vec::Vec;

use super::store::calm_and_burden;
use crate::engine::range::Range;
use crate::engine::stage::Stage;
use crate::engine::staging::{Size, Together};
use crate::engine::{Action, Engine, JobId};
use crate::units::{MemberId, Set};

impl Engine {
    /// Gathers a job's write, to be stored with others that come at the same moment. Tells whether it has: one that
    /// is alone is not gathered.
    pub(super) fn store_later(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let size = Size::of(&self.range.jobs[id].pieces);
        let Range { staging, jobs, .. } = &self.range;
        if !staging.shares() || !Together::takes(size) || !jobs.serves_several() {
            return false;
        }
        let all = staging.together.with(size).filter(|&all| staging.is_possible(all));
        if all.is_none() {
            self.store_gathered(out);
        }
        self.range.jobs[id].outstanding += 1;
        self.range.staging.together.add(id, all.unwrap_or(size), self.now);
        true
    }

    /// Stores what was gathered, if anything was; each by itself if there is no room for all as one.
    pub(in super::super) fn store_gathered(&mut self, out: &mut Vec<Action>) {
        if self.range.staging.together.deadline().is_none() {
            return;
        }
        let (gathered, size) = self.range.staging.together.begin();
        for &id in &gathered {
            self.range.jobs[id].outstanding -= 1;
        }
        match self.holders_for(size) {
            Some(holders) => {
                self.store_on(&gathered, holders, out);
                gathered.iter().for_each(|&id| self.go_on(id, Stage::Record));
            }
            None => {
                for &id in &gathered {
                    let next = self.store_alone(id, out);
                    self.go_on(id, next);
                }
            }
        }
        self.range.staging.together.end(gathered);
    }

    /// The log is to be emptied. What was gathered has its entries before the one that will say that it is: else
    /// they would be found after that.
    pub(super) fn drain_log(&mut self, out: &mut Vec<Action>) {
        self.store_gathered(out);
        self.range.staging.drain();
    }

    /// The holders of the entries of writes of this size, if there are enough with room.
    pub(super) fn holders_for(&self, size: Size) -> Option<Set<MemberId>> {
        let (calm, burden) = calm_and_burden(&self.array);
        self.range.staging.holders_for(size, calm, burden)
    }

    /// A job that has waited goes on with this stage.
    fn go_on(&mut self, id: JobId, next: Stage) {
        let job = &mut self.range.jobs[id];
        job.stage = next;
        if job.outstanding == 0 && !job.queued {
            self.range.jobs.make_ready(id);
        }
    }
}

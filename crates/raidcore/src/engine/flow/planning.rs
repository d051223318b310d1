//! How a job goes about its stripe, decided when it has the lock: what is read, computed and
//! written, and whether it goes home or through the staging log.

use alloc::vec::Vec;
use core::mem;

use crate::engine::goal::{plan_replay, plan_sync};
use crate::engine::stage::{Stage, Turn};
use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, PassKind, RequestError};
use crate::geometry::Role;
use crate::plan::{self, Base, Health, Lost, Parity};
use crate::units::{Mem, Set, Stripe};

impl Engine {
    pub(super) fn plan(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        self.range.jobs[id].retries.forget_tried();
        // An earlier plan may have read into scratch buffers what this one reads elsewhere.
        self.range.jobs[id].is_copied = false;
        // Nor does it wait as long as an earlier one.
        self.range.jobs[id].hedge.forget_patience();
        self.cool_down(id);
        let rebuilds = matches!(
            self.range.jobs[id].work,
            Work::Sync(PassKind::Rebuild(_) | PassKind::Distribute(_))
        );
        if rebuilds && self.wait_for_replay_to_be_void(id, out) {
            return Stage::Plan;
        }
        let stripe = self.range.jobs[id].stripe;
        let (journal, unkept) = (&self.range.journal, self.array.membership.has_unkept());
        if rebuilds && (journal.would_change(stripe) || unkept && journal.would_replay(stripe)) {
            // Writes are refused, so the entry stays, and a replay of it would leave out what is filled
            // here from what it replaces. Or what it holds came home and may not have been kept, and
            // a start would pass over an entry that the device filled here does not have.
            self.range.jobs[id].error = Some(RequestError::Io);
            return Stage::Finish;
        }
        if self.range.jobs.is_given_up(id) {
            return Stage::Finish;
        }
        let (readable, writable) = self.health(stripe);
        let beside = self.range.jobs[id].turn == Turn::Beside;
        if beside && self.range.jobs[id].work == Work::Write {
            return self.plan_beside(id);
        }
        if beside && !self.range.jobs.reads_home(id, readable) {
            return self.range.jobs.fall_in(id);
        }
        if self.range.jobs.disturbs_readers(id) {
            // The next to have the lock may take it over.
            self.break_promise(id);
            self.range.jobs.unlock(id);
            return Stage::Lock;
        }
        self.array.counters.merged_writes += self.range.jobs.absorb_waiting_writes(id);
        self.forget_copies(id);
        self.split_read(id);
        self.range.jobs[id].log.covers = self.covers(id);
        if self.range.jobs[id].work == Work::Reclaim {
            self.gather(id);
        }
        let is_zero = self.range.maps.zero.map.get(stripe.0);
        // Where a stripe is saved, its bit is not about that.
        let is_stored = !is_zero || self.layout.is_saved(stripe);
        self.range.jobs[id].base = if is_stored { Base::Stored } else { Base::Zeros };
        let parity = self.parity(stripe, readable);
        if self.range.jobs[id].work == Work::Read && self.range.jobs[id].turn != Turn::Beside {
            if self.range.jobs[id].hedge.is_second() {
                return self.plan_second(id, readable, parity);
            }
            if self.plan_elsewhere(id, readable, parity) {
                self.copy_kept(id);
                return Stage::Buffers;
            }
        }
        match self.plan_home(id, (readable, writable), parity) {
            Ok(Stage::Finish) => Stage::Finish,
            Ok(next) => {
                let next = self.planned(id, next, out);
                if next == Stage::Buffers {
                    self.copy_kept(id);
                    self.warm_up(id);
                    self.limit(id);
                }
                next
            }
            Err(Lost) => {
                self.range.jobs[id].error = Some(RequestError::Io);
                Stage::Finish
            }
        }
    }

    /// Plans what is read and written where it is at home.
    fn plan_home(
        &mut self,
        id: JobId,
        (readable, writable): (Set<Role>, Set<Role>),
        parity: Parity,
    ) -> Result<Stage, Lost> {
        let (stripe, base) = (self.range.jobs[id].stripe, self.range.jobs[id].base);
        let zero = base == Base::Zeros;
        let stays_zero =
            zero && self.range.maps.zero.is_surely_set(stripe.0) && !self.range.jobs[id].log.covers;
        let prefer = self.preferred_copy(stripe);
        let is_saved = self.layout.is_saved(stripe);
        let takes_writes = self.array.membership.takes_writes();
        let (moves_in, vacant) = (self.range.reshape.reads(), self.layout.is_vacant(stripe));
        let copy = match self.range.jobs[id].work {
            Work::Replay { index } => self.replay_copy(index),
            Work::Read
            | Work::Write
            | Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Reclaim => None,
        };
        // Now those that have refused it are to take it.
        let heals = copy.is_some() && self.array.healing.is_under_way();
        let writable = if heals { self.kept(stripe) } else { writable };
        let also = self.also_written(id);
        let mut plan = mem::take(&mut self.range.jobs[id].plan);
        let job = &mut self.range.jobs[id];
        let geo = self.layout.of(stripe);
        let health = Health { readable, writable, parity, bad: &job.bad };
        let next = match job.work {
            Work::Write | Work::Zero { .. } | Work::Reclaim if !takes_writes || is_saved => {
                Err(Lost)
            }
            Work::Sync(PassKind::Reshape) if moves_in => {
                plan::read(&mut plan, geo, &health, &job.pieces, base, prefer)
                    .map(|()| Stage::Buffers)
            }
            Work::Sync(PassKind::Reshape) if !takes_writes => Err(Lost),
            Work::Sync(PassKind::Reshape) => {
                plan::write(&mut plan, geo, &health, &job.pieces, base).map(|kind| {
                    job.kind = kind;
                    Stage::Buffers
                })
            }
            Work::Sync(_) | Work::Align | Work::Repair if vacant => Ok(Stage::Finish),
            Work::Reclaim if job.pieces.is_empty() => Ok(Stage::Finish),
            Work::Read => plan::read(&mut plan, geo, &health, &job.pieces, base, prefer)
                .map(|()| Stage::Buffers),
            Work::Write if stays_zero && job.pieces.iter().all(|p| p.mem == Mem::Zero) => {
                Ok(Stage::Finish)
            }
            Work::Write | Work::Reclaim => plan::write(&mut plan, geo, &health, &job.pieces, base)
                .map(|kind| {
                    job.kind = kind;
                    Stage::Buffers
                }),
            Work::Zero { .. } if stays_zero => Ok(Stage::Finish),
            Work::Zero { .. } => Ok(Stage::Intend),
            Work::Sync(_) | Work::Align | Work::Repair if zero => Ok(Stage::Finish),
            Work::Sync(_) | Work::Align | Work::Repair => {
                plan_sync(&mut plan, geo, &health, job, also)
            }
            Work::Replay { .. } if copy.is_none() => Err(Lost),
            Work::Replay { index } => {
                plan_replay(&mut plan, geo, stripe, self.range.replays.get(index), &health);
                Ok(Stage::Buffers)
            }
        };
        job.plan = plan;
        next
    }

    /// A plan may have to go through the staging log, or to take it into account.
    fn planned(&mut self, id: JobId, next: Stage, out: &mut Vec<Action>) -> Stage {
        let work = self.range.jobs[id].work;
        let writes = matches!(work, Work::Write | Work::Reclaim) && next == Stage::Buffers;
        if writes && !self.choose_form(id, out) {
            return Stage::Plan;
        }
        match work {
            Work::Write if self.is_to_be_staged(id, false) => Stage::Store,
            // It has waited for room in the staging log, and there will be none.
            Work::Write | Work::Zero { .. } if self.range.jobs[id].error.is_some() => Stage::Finish,
            Work::Write | Work::Zero { .. } => {
                let ready = !self.range.jobs[id].log.covers || self.promise_marker(id);
                if ready { next } else { Stage::Lock }
            }
            Work::Reclaim if self.is_put_off(id) => Stage::Finish,
            Work::Reclaim => {
                let buffers = self.gathered(id);
                let plan = &mut self.range.jobs[id].plan;
                plan.scratch = plan.scratch.or(buffers);
                next
            }
            Work::Read | Work::Sync(_) | Work::Align | Work::Repair | Work::Replay { .. } => next,
        }
    }

    /// The copy of a mirror to read: one that is not said to be busy, the one with the least to do,
    /// or the first where copies may differ.
    pub(super) fn preferred_copy(&self, stripe: Stripe) -> usize {
        let geo = self.layout.of(stripe);
        if !geo.is_mirrored() {
            return 0;
        }
        if !self.is_in_step(stripe) {
            return 0;
        }
        let load = |&role: &Role| {
            let member = self.layout.member(stripe, role);
            (self.array.steering.is_busy(member), self.array.flights.of(member))
        };
        geo.roles().min_by_key(load).map_or(0, Role::index)
    }
}

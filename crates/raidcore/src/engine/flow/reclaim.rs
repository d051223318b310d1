//! What is staged comes home, stripe by stripe.

use alloc::vec::Vec;

use det::Instant;

use super::sources::STAGED;
use crate::engine::quiesce::Stopping;
use crate::engine::staging::Haste;
use crate::engine::wait::Wait;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, HomeWaits, JobId, Note, Phase};
use crate::geometry::Role;
use crate::plan::{self, Piece};
use crate::units::{Lba, Set};

impl Engine {
    /// Takes note that all that is staged is on as many devices as it is meant to be.
    pub(in super::super) fn note_thickness(&mut self, out: &mut Vec<Action>) {
        if self.array.membership.record().staging_thin.is_empty() {
            return;
        }
        let thin = self.phase != Phase::Serving || self.range.staging.is_thin();
        if !thin {
            self.array.membership.staging_is_thick();
            self.record_change(out);
        }
    }

    /// Brings home what may come home now, and tells what need not be there any more.
    pub(in super::super) fn reclaim(&mut self, out: &mut Vec<Action>) {
        if self.range.staging.is_unused() {
            return;
        }
        let serves = match self.phase {
            Phase::Serving | Phase::Reclaiming => true,
            Phase::Stopping => self.array.quiesce.stopping() == Stopping::Draining,
            Phase::Replaying | Phase::Starting | Phase::Broken | Phase::Stopped => false,
        };
        if !serves {
            return;
        }
        let serving = self.phase == Phase::Serving;
        self.range.lull.look(self.now, self.range.jobs.serve_no_user());
        let may = self.holds_up_home().is_none();
        let busy = self.array.steering.busy();
        while self.array.membership.takes_writes() {
            let haste = self.range.staging.haste(!serving);
            let next = self.range.staging.next_to_reclaim(haste, may, busy, &self.layout);
            let Some(stripe) = next else { break };
            let Some(job) = self.new_job(Work::Reclaim, stripe) else { break };
            self.range.staging.begin_reclaim(stripe);
            self.range.staging.rate.begin(self.now);
            self.start_job(job);
        }
        // Before a failure is on record no flush counts, and no tail.
        let recorded = self.array.membership.recorder.unrecorded_failure().is_none();
        if self.phase == Phase::Reclaiming || !self.array.membership.takes_writes() || !recorded {
            return;
        }
        if self.range.staging.dirty() == 0 || self.range.staging.haste(!serving) > Haste::No {
            if self.range.staging.begins_flush() {
                self.flush(out);
            }
            self.tell_tail(out);
        }
        if self.range.staging.denies_room(self.array.membership.hung()) {
            self.range.jobs.fail_waiting(|wait| *wait == Wait::Staging);
        }
    }

    /// Whether [`reclaim`](Self::reclaim) would find nothing to do while users are served, as what is staged stays
    /// where it is.
    pub(in super::super) fn stays_staged(&self) -> bool {
        let staging = &self.range.staging;
        if staging.is_unused() {
            return true;
        }
        let calm = self.range.jobs.serve_no_user();
        if self.range.lull.is_on() != calm || staging.haste(false) > Haste::No {
            return false;
        }
        match staging.dirty() {
            0 => !staging.waits_for_flush() && !staging.has_tail_to_tell(),
            _ => staging.is_reclaiming() || staging.is_blocked() || self.holds_up_home().is_some(),
        }
    }

    /// From when on users are calm enough for what is staged to come home; `None` while they want something.
    fn lull_ends(&self) -> Option<Instant> {
        if !self.range.lull.is_on() {
            return None;
        }
        self.range.lull.ends(self.array.steering.lull(), self.range.staging.used())
    }

    /// When what is staged begins to come home, if nothing happens before.
    pub(in super::super) fn home_deadline(&self) -> Option<Instant> {
        let staging = &self.range.staging;
        let waits = self.phase == Phase::Serving && staging.dirty() > 0 && !staging.is_reclaiming();
        waits.then(|| self.lull_ends())?.filter(|&at| at > self.now)
    }

    /// Why nothing comes home as long as there is room; none if one stripe after the other does.
    fn holds_up_home(&self) -> Option<HomeWaits> {
        let calm = self.lull_ends().is_some_and(|at| at <= self.now)
            || self.range.staging.stages_no_more(self.now, self.config.quiesce_delay);
        match () {
            () if self.array.background.rebuilds() => Some(HomeWaits::Rebuild),
            () if !calm => Some(HomeWaits::Users),
            () => None,
        }
    }

    /// Why nothing more comes home now; none if it does, or nothing is to.
    pub(in super::super) fn home_waits(&self) -> Option<HomeWaits> {
        let staging = &self.range.staging;
        if staging.dirty() == 0 || staging.is_reclaiming() {
            return None;
        }
        if !self.array.membership.takes_writes() {
            return Some(HomeWaits::Refused);
        }
        if staging.is_stuck() {
            return Some(HomeWaits::Stuck);
        }
        let roomy = staging.haste(self.phase != Phase::Serving) == Haste::No;
        let busy = staging.is_blocked().then_some(HomeWaits::Busy);
        self.holds_up_home().filter(|_| roomy).or(busy)
    }

    /// All that was staged before an unclean stop comes home; then the log is void, and users are
    /// served.
    pub(in super::super) fn bring_home(&mut self, out: &mut Vec<Action>) {
        if self.range.staging.is_stuck() || !self.array.membership.takes_writes() {
            self.serve_reads_only(out);
            return;
        }
        if !self.range.staging.is_home() {
            return;
        }
        match self.range.staging.voiding_flush() {
            None => {
                let ticket = self.flush(out);
                self.range.staging.void_after(ticket);
            }
            Some(ticket) if !self.array.flusher.is_over(ticket) => {}
            Some(_) if self.array.flusher.has_failed() => self.phase = Phase::Broken,
            Some(_) if self.range.staging.has_entries() => {
                let blocks = self.array.counters.reclaimed_blocks;
                out.push(Action::Note(Note::StagedReclaimed { blocks }));
                self.range.staging.reset();
                self.array.membership.begin_staging_anew();
                self.record_change(out);
            }
            Some(_) if self.array.membership.recorder.is_durable() => self.phase = Phase::Serving,
            Some(_) => {}
        }
    }

    /// Serves users without taking writes, as something can't be brought home. All that can be read is read,
    /// what is staged from the log. That stays as it is, so that the next start finds it there.
    fn serve_reads_only(&mut self, out: &mut Vec<Action>) {
        self.array.membership.recorder.record_no_more();
        self.array.healing.leave_to_a_start();
        out.push(Action::Note(Note::ArrayFailed));
        self.phase = Phase::Serving;
    }

    /// Whether a reclaim would have to wait for busy members, and can be put off.
    pub(in super::super) fn is_put_off(&mut self, id: JobId) -> bool {
        let haste = || self.range.staging.haste(self.phase != Phase::Serving);
        if self.array.steering.busy().is_empty() || haste() >= Haste::Now {
            return false;
        }
        let job = &self.range.jobs[id];
        let touched = job.plan.reads.iter().chain(&job.plan.writes);
        let members: Set<_> = touched.map(|io| self.layout.member(job.stripe, io.role)).collect();
        let waits_for = members.and(self.array.steering.busy());
        if waits_for.is_empty() {
            return false;
        }
        let stripe = job.stripe;
        self.range.jobs[id].pieces.clear();
        self.range.staging.put_off(stripe, waits_for);
        true
    }

    /// Gives a reclaim its pieces: all of its stripe that is not at home. They are read or copied into
    /// scratch buffers of their own, numbered after all others.
    pub(in super::super) fn gather(&mut self, id: JobId) {
        self.unpin(id);
        self.let_go(id);
        self.range.jobs[id].pieces.clear();
        let stripe = self.range.jobs[id].stripe;
        let layout = self.layout;
        // What is staged while it is under way may be being read at home, and comes next time.
        let next = self.range.staging.next();
        let before = *self.range.jobs[id].log.gathered.get_or_insert(next);
        let geo = layout.of(stripe);
        for role in geo.data_roles() {
            let first = geo.lba(stripe, role, 0);
            for row in 0..geo.chunk() {
                let lba = Lba(first.0 + u64::from(row));
                let Some((number, at)) = self.range.staging.find_dirty(lba) else { continue };
                if number >= before || layout.has_moved(stripe, lba) {
                    continue;
                }
                let mem = plan::scratch(plan::beside(geo, role), row);
                let block = Piece { role, row, blocks: 1, mem };
                if !self.recall(id, lba, block) {
                    self.fetch(id, (STAGED, number), at, block);
                }
                let pieces = &mut self.range.jobs[id].pieces;
                match pieces.last_mut() {
                    Some(last) if last.role == role && last.row + last.blocks == row => {
                        last.blocks += 1;
                    }
                    Some(_) | None => pieces.push(block),
                }
            }
        }
    }

    /// The scratch buffers of a reclaim's pieces.
    pub(in super::super) fn gathered(&self, id: JobId) -> Set<Role> {
        let job = &self.range.jobs[id];
        let geo = self.layout.of(job.stripe);
        job.pieces.iter().map(|piece| plan::beside(geo, piece.role)).collect()
    }

    /// A reclaim has ended: what it wrote is at home, or its entries can't be brought there.
    pub(super) fn reclaimed(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        let geo = self.layout.of(job.stripe);
        let staging = &mut self.range.staging;
        let before = job.log.gathered.unwrap_or_else(|| staging.next());
        let blocks = if job.error.is_some() {
            staging.reclaim_failed(job.stripe, before);
            0
        } else {
            let lbas = |piece: &Piece| geo.lbas(job.stripe, piece.role, piece.row, piece.blocks);
            staging.reclaimed((job.stripe, before), job.pieces.iter().flat_map(lbas))
        };
        staging.rate.came(self.now, blocks, staging.is_reclaiming());
        self.array.counters.reclaimed_blocks += blocks;
    }
}

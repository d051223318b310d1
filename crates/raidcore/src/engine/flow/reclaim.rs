//! What is staged comes home, stripe by stripe.

use alloc::vec::Vec;

use crate::engine::quiesce::Stopping;
use crate::engine::staging::reclaim::{HASTE, Haste, LOOK};
use crate::engine::staging::{Entry, Kind};
use crate::engine::wait::Wait;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, Note, Phase};
use crate::geometry::Role;
use crate::plan::{self, Piece};
use crate::units::{Lba, Set, Stripe};

impl Engine {
    /// Takes note that all that is staged is on as many devices as it is meant to be.
    pub(in super::super) fn note_thickness(&mut self, out: &mut Vec<Action>) {
        if self.array.membership.recorder.record.staging_thin.is_empty() {
            return;
        }
        let thin = self.phase != Phase::Serving || self.range.staging.is_thin();
        if !thin {
            self.array.membership.recorder.record.staging_thin = Set::EMPTY;
            self.record_change(out);
        }
    }

    /// Brings home what may come home now, and tells what need not be there any more.
    pub(in super::super) fn reclaim(&mut self, out: &mut Vec<Action>) {
        let serves = match self.phase {
            Phase::Serving | Phase::Reclaiming => true,
            Phase::Stopping => self.array.quiesce.stopping() == Stopping::Draining,
            Phase::Replaying | Phase::Starting | Phase::Broken | Phase::Stopped => false,
        };
        if !serves || self.range.staging.is_unused() {
            return;
        }
        let haste = self.haste();
        let window = match haste {
            Haste::No => usize::from(self.range.jobs.serve_no_user() || self.stages_no_more()),
            Haste::Soon | Haste::Now => HASTE,
        };
        while self.range.staging.reclaiming.len() < window && self.array.membership.takes_writes() {
            let Some(stripe) = self.stripe_to_reclaim(haste) else { break };
            let Some(job) = self.new_job(Work::Reclaim, stripe) else { break };
            self.range.staging.reclaiming.push(stripe);
            self.start_job(job);
        }
        // Before a failure is on record no flush counts, and no tail.
        let recorded = self.array.membership.recorder.unrecorded_failure().is_none();
        if self.phase == Phase::Reclaiming || !self.array.membership.takes_writes() || !recorded {
            return;
        }
        let at_home = self.range.staging.dirty == 0;
        if at_home || haste > Haste::No {
            let waits = |entry: &Entry| {
                entry.done && entry.dirty == 0 && entry.home > self.range.staging.durable_homes
            };
            if !self.range.staging.flushing
                && self.range.staging.entries.iter().take(LOOK).any(waits)
            {
                self.range.staging.flushing = true;
                self.flush(out);
            }
            self.tell_tail(out);
        }
        if self.range.staging.starved && self.range.staging.gets_no_room() {
            self.range.staging.starved = false;
            self.range.jobs.fail_waiting(|wait| *wait == Wait::Staging);
        }
    }

    /// All that was staged before an unclean stop comes home; then the log is void, and users are
    /// served.
    pub(in super::super) fn bring_home(&mut self, out: &mut Vec<Action>) {
        if self.range.staging.is_stuck() || !self.array.membership.takes_writes() {
            self.serve_reads_only(out);
            return;
        }
        if self.range.staging.dirty > 0 || !self.range.staging.reclaiming.is_empty() {
            return;
        }
        match self.range.staging.voiding {
            None => self.range.staging.voiding = Some(self.flush(out)),
            Some(ticket) if !self.array.flusher.is_over(ticket) => {}
            Some(_) if self.array.flusher.has_failed() => self.phase = Phase::Broken,
            Some(_) if !self.range.staging.entries.is_empty() => {
                let blocks = self.array.counters.reclaimed_blocks;
                out.push(Action::Note(Note::StagedReclaimed { blocks }));
                self.range.staging.reset();
                self.array.membership.recorder.record.staging_epoch += 1;
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

    /// Whether nothing was staged for a while: then it comes home by and by, whatever users want.
    fn stages_no_more(&self) -> bool {
        self.now >= self.range.staging.staged_at + self.config.quiesce_delay
    }

    fn haste(&self) -> Haste {
        let (used, len) = self.range.staging.used();
        let waited_for = self.range.staging.starved
            || self.range.staging.draining
            || self.range.staging.is_thin();
        let wanted = waited_for || self.phase != Phase::Serving;
        match () {
            () if wanted || 4 * used > 3 * len => Haste::Now,
            () if 2 * used > len => Haste::Soon,
            () => Haste::No,
        }
    }

    /// The oldest stripe that can come home now. Busy members are left alone as long as there is
    /// room: a request to the stripe would have to wait for them, too.
    fn stripe_to_reclaim(&mut self, haste: Haste) -> Option<Stripe> {
        if self.range.staging.dirty == 0 || self.range.staging.blocked && haste < Haste::Now {
            return None;
        }
        // A rebuild needs the members.
        if haste == Haste::No && self.array.background.rebuilds() {
            return None;
        }
        self.range.staging.skip_clean();
        let staging = &self.range.staging;
        let wanted = |entry: &&Entry| {
            entry.kind == Kind::Data
                && entry.dirty > 0
                && !staging.stuck.contains(&entry.stripe)
                && !staging.reclaiming.contains(&entry.stripe)
        };
        let calm = |entry: &&Entry| self.is_calm(entry);
        let mut found = staging.undone().filter(wanted).take(LOOK).find(calm);
        if haste == Haste::Now {
            found = found.or_else(|| staging.undone().find(wanted));
        }
        let found = found.map(|entry| entry.stripe);
        self.range.staging.blocked = found.is_none() && !self.array.steering.busy.is_empty();
        found
    }

    /// Whether no member is busy to which an entry's blocks and their parity go, nor one that it waits for.
    fn is_calm(&self, entry: &Entry) -> bool {
        let busy = self.array.steering.busy;
        let parities = self.geo.of(entry.stripe).spare_roles();
        let mut roles = parities.chain(entry.runs.iter().map(|run| run.role));
        entry.waits_for.and(busy).is_empty()
            && roles.all(|role| !busy.has(self.geo.member(entry.stripe, role)))
    }

    /// Whether a reclaim would have to wait for busy members, and can be put off.
    pub(in super::super) fn is_put_off(&mut self, id: JobId) -> bool {
        if self.array.steering.busy.is_empty() || self.haste() == Haste::Now {
            return false;
        }
        let job = &self.range.jobs[id];
        let touched = job.plan.reads.iter().chain(&job.plan.writes);
        let members: Set<_> = touched.map(|io| self.geo.member(job.stripe, io.role)).collect();
        let waits_for = members.and(self.array.steering.busy);
        if waits_for.is_empty() {
            return false;
        }
        let stripe = job.stripe;
        self.range.jobs[id].pieces.clear();
        for entry in self.range.staging.entries.iter_mut().filter(|entry| entry.stripe == stripe) {
            entry.waits_for = waits_for;
        }
        true
    }

    /// Gives a reclaim its pieces: all of its stripe that is not at home. They are read into scratch
    /// buffers of their own, numbered after all others.
    pub(in super::super) fn gather(&mut self, id: JobId) {
        self.unpin(id);
        self.range.jobs[id].pieces.clear();
        let stripe = self.range.jobs[id].stripe;
        let geo = self.geo;
        for role in geo.of(stripe).data_roles() {
            let first = geo.of(stripe).lba(stripe, role, 0);
            for row in 0..geo.chunk() {
                let staged = self.range.staging.table.get(Lba(first.0 + u64::from(row)));
                let Some(staged) = staged.filter(|staged| !staged.clean) else { continue };
                let mem = plan::scratch(plan::beside(geo.of(stripe), role), row);
                let block = Piece { role, row, blocks: 1, mem };
                self.fetch_later(id, staged, block);
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
        let geo = self.geo.of(job.stripe);
        job.pieces.iter().map(|piece| plan::beside(geo, piece.role)).collect()
    }

    /// A reclaim has ended: what it wrote is at home, or its entries can't be brought there.
    pub(super) fn reclaimed(&mut self, id: JobId) {
        let (stripe, failed) = (self.range.jobs[id].stripe, self.range.jobs[id].error.is_some());
        self.range.staging.reclaiming.retain(|&other| other != stripe);
        if failed {
            self.range.staging.stuck.push(stripe);
            return;
        }
        if self.range.jobs[id].pieces.is_empty() {
            return;
        }
        self.range.staging.homes += 1;
        let pieces = core::mem::take(&mut self.range.jobs[id].pieces);
        for piece in &pieces {
            self.array.counters.reclaimed_blocks += u64::from(piece.blocks);
            for lba in self.lbas_of(id, piece) {
                self.range.staging.clean(lba);
            }
        }
        self.range.jobs[id].pieces = pieces;
    }
}

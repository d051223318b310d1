//! Bringing home what is staged (the paper's reclaim, section III-D): stripe by stripe, oldest
//! first, all that is staged of a stripe at once, so that what follows each other is one write.

use alloc::vec::Vec;

use super::super::background::Stopping;
use super::super::wait::Wait;
use super::super::work::Work;
use super::super::{Action, Engine, JobId, Note, Phase};
use super::{Entry, Kind};
use crate::geometry::Role;
use crate::plan::{self, Piece};
use crate::units::{Lba, Set, Stripe};

/// Stripes that are reclaimed at once if room is wanted; one if not, and users want nothing or what
/// they write has gone home for a while.
const HASTE: usize = 8;

/// Entries that are looked at for one whose members are calm.
const LOOK: usize = 64;

/// How much room in the log is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Haste {
    /// There is enough: busy members are left alone, and users too.
    No,
    /// There will not be enough: as much comes home as can without busy members.
    Soon,
    /// There is not enough: it comes home even if members are busy.
    Now,
}

impl Engine {
    /// Takes note that all that is staged is on as many devices as it is meant to be.
    pub(in super::super) fn note_thickness(&mut self, out: &mut Vec<Action>) {
        if self.array.recorder.record.staging_thin.is_empty() {
            return;
        }
        let thin = self.phase != Phase::Serving || self.staging.is_thin();
        if !thin {
            self.array.recorder.record.staging_thin = Set::EMPTY;
            self.record_change(out);
        }
    }

    /// Brings home what may come home now, and tells what need not be there any more.
    pub(in super::super) fn reclaim(&mut self, out: &mut Vec<Action>) {
        let serves = match self.phase {
            Phase::Serving | Phase::Reclaiming => true,
            Phase::Stopping => self.background.stopping == Stopping::Draining,
            Phase::Replaying | Phase::Starting | Phase::Broken | Phase::Stopped => false,
        };
        if !serves || self.staging.is_unused() {
            return;
        }
        let haste = self.haste();
        let window = match haste {
            Haste::No => usize::from(self.jobs.serve_no_user() || self.stages_no_more()),
            Haste::Soon | Haste::Now => HASTE,
        };
        while self.staging.reclaiming.len() < window && self.array.takes_writes() {
            let Some(stripe) = self.stripe_to_reclaim(haste) else { break };
            let Some(job) = self.new_job(Work::Reclaim, stripe) else { break };
            self.staging.reclaiming.push(stripe);
            self.start_job(job);
        }
        // Before a failure is on record no flush counts, and no tail.
        let recorded = self.array.recorder.unrecorded_failure().is_none();
        if self.phase == Phase::Reclaiming || !self.array.takes_writes() || !recorded {
            return;
        }
        let at_home = self.staging.dirty == 0;
        if at_home || haste > Haste::No {
            let waits = |entry: &Entry| {
                entry.done && entry.dirty == 0 && entry.home > self.staging.durable_homes
            };
            if !self.staging.flushing && self.staging.entries.iter().take(LOOK).any(waits) {
                self.staging.flushing = true;
                self.flush(out);
            }
            self.tell_tail(out);
        }
        if self.staging.starved && self.staging.gets_no_room() {
            self.staging.starved = false;
            self.jobs.fail_waiting(|wait| *wait == Wait::Staging);
        }
    }

    /// All that was staged before an unclean stop comes home; then the log is void, and users are
    /// served.
    pub(in super::super) fn bring_home(&mut self, out: &mut Vec<Action>) {
        if self.staging.is_stuck() || !self.array.takes_writes() {
            self.serve_reads_only(out);
            return;
        }
        if self.staging.dirty > 0 || !self.staging.reclaiming.is_empty() {
            return;
        }
        match self.staging.voiding {
            None => self.staging.voiding = Some(self.flush(out)),
            Some(ticket) if !self.flusher.is_over(ticket) => {}
            Some(_) if self.flusher.has_failed() => self.phase = Phase::Broken,
            Some(_) if !self.staging.entries.is_empty() => {
                let blocks = self.counters.reclaimed_blocks;
                out.push(Action::Note(Note::StagedReclaimed { blocks }));
                self.staging.reset();
                self.array.recorder.record.staging_epoch += 1;
                self.record_change(out);
            }
            Some(_) if self.array.recorder.is_durable() => self.phase = Phase::Serving,
            Some(_) => {}
        }
    }

    /// Serves users without taking writes, as something can't be brought home. All that can be read is read,
    /// what is staged from the log. That stays as it is, so that the next start finds it there.
    fn serve_reads_only(&mut self, out: &mut Vec<Action>) {
        self.array.recorder.record_no_more();
        self.healing.leave_to_a_start();
        out.push(Action::Note(Note::ArrayFailed));
        self.phase = Phase::Serving;
    }

    /// Whether nothing was staged for a while: then it comes home by and by, whatever users want.
    fn stages_no_more(&self) -> bool {
        self.now >= self.staging.staged_at + self.config.quiesce_delay
    }

    fn haste(&self) -> Haste {
        let (used, len) = self.staging.used();
        let waited_for = self.staging.starved || self.staging.draining || self.staging.is_thin();
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
        if self.staging.dirty == 0 || self.staging.blocked && haste < Haste::Now {
            return None;
        }
        // A rebuild needs the members.
        if haste == Haste::No && self.background.rebuilds() {
            return None;
        }
        self.staging.skip_clean();
        let staging = &self.staging;
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
        self.staging.blocked = found.is_none() && !self.steering.busy.is_empty();
        found
    }

    /// Whether no member is busy to which an entry's blocks and their parity go, nor one that it waits for.
    fn is_calm(&self, entry: &Entry) -> bool {
        let busy = self.steering.busy;
        let parities = self.geo.of(entry.stripe).spare_roles();
        let mut roles = parities.chain(entry.runs.iter().map(|run| run.role));
        entry.waits_for.and(busy).is_empty()
            && roles.all(|role| !busy.has(self.geo.member(entry.stripe, role)))
    }

    /// Whether a reclaim would have to wait for busy members, and can be put off.
    pub(in super::super) fn is_put_off(&mut self, id: JobId) -> bool {
        if self.steering.busy.is_empty() || self.haste() == Haste::Now {
            return false;
        }
        let job = &self.jobs[id];
        let touched = job.plan.reads.iter().chain(&job.plan.writes);
        let members: Set<_> = touched.map(|io| self.geo.member(job.stripe, io.role)).collect();
        let waits_for = members.and(self.steering.busy);
        if waits_for.is_empty() {
            return false;
        }
        let stripe = job.stripe;
        self.jobs[id].pieces.clear();
        for entry in self.staging.entries.iter_mut().filter(|entry| entry.stripe == stripe) {
            entry.waits_for = waits_for;
        }
        true
    }

    /// Gives a reclaim its pieces: all of its stripe that is not at home. They are read into scratch
    /// buffers of their own, numbered after all others.
    pub(in super::super) fn gather(&mut self, id: JobId) {
        self.unpin(id);
        self.jobs[id].pieces.clear();
        let stripe = self.jobs[id].stripe;
        let geo = self.geo;
        for role in geo.of(stripe).data_roles() {
            let first = geo.of(stripe).lba(stripe, role, 0);
            for row in 0..geo.chunk() {
                let staged = self.staging.table.get(Lba(first.0 + u64::from(row)));
                let Some(staged) = staged.filter(|staged| !staged.clean) else { continue };
                let mem = plan::scratch(plan::beside(geo.of(stripe), role), row);
                let block = Piece { role, row, blocks: 1, mem };
                self.fetch_later(id, staged, block);
                let pieces = &mut self.jobs[id].pieces;
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
        let job = &self.jobs[id];
        let geo = self.geo.of(job.stripe);
        job.pieces.iter().map(|piece| plan::beside(geo, piece.role)).collect()
    }

    /// A reclaim has ended: what it wrote is at home, or its entries can't be brought there.
    pub(super) fn reclaimed(&mut self, id: JobId) {
        let (stripe, failed) = (self.jobs[id].stripe, self.jobs[id].error.is_some());
        self.staging.reclaiming.retain(|&other| other != stripe);
        if failed {
            self.staging.stuck.push(stripe);
            return;
        }
        if self.jobs[id].pieces.is_empty() {
            return;
        }
        self.staging.homes += 1;
        let pieces = core::mem::take(&mut self.jobs[id].pieces);
        for piece in &pieces {
            self.counters.reclaimed_blocks += u64::from(piece.blocks);
            for lba in self.lbas_of(id, piece) {
                self.staging.clean(lba);
            }
        }
        self.jobs[id].pieces = pieces;
    }
}

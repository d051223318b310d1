//! Bringing home what is staged (the paper's reclaim, section III-D): stripe by stripe, oldest
//! first, all that is staged of a stripe at once, so that what follows each other is one write.

use alloc::vec::Vec;

use super::super::background::Stopping;
use super::super::job::Work;
use super::super::{Action, Engine, JobId, Note, Phase};
use super::{Entry, Kind};
use crate::geometry::Role;
use crate::plan::Piece;
use crate::units::{Lba, Mem, Set, Stripe};

/// Stripes that are reclaimed at once, if room is wanted ...
const HASTE: usize = 8;

/// ... and if not.
const LEISURE: usize = 2;

/// Entries that are looked at for one whose members are calm.
const LOOK: usize = 64;

impl Engine {
    /// Brings home what may come home now, and tells what need not be there any more.
    pub(in super::super) fn reclaim(&mut self, out: &mut Vec<Action>) {
        let serves = match self.phase {
            Phase::Serving | Phase::Reclaiming => true,
            Phase::Stopping => self.background.stopping() == Stopping::Draining,
            Phase::Replaying | Phase::Starting | Phase::Broken | Phase::Stopped => false,
        };
        if !serves || self.staging.entries.is_empty() && !self.staging.draining {
            return;
        }
        let (used, len) = self.staging.used();
        let hasty = self.staging.starved
            || self.staging.draining
            || self.phase != Phase::Serving
            || 2 * used > len;
        if self.staging.blocked && !hasty {
            return;
        }
        let window = if hasty { HASTE } else { LEISURE };
        while self.staging.reclaiming.len() < window && self.takes_writes() {
            let Some(stripe) = self.stripe_to_reclaim(hasty) else { break };
            let Some(job) = self.new_job(Work::Reclaim, stripe) else { break };
            self.staging.reclaiming.push(stripe);
            self.start_job(job);
        }
        // Before a failure is on record no flush counts, and no tail.
        let recorded = self.recorder.unrecorded_failure().is_none();
        if self.phase == Phase::Reclaiming || !self.takes_writes() || !recorded {
            return;
        }
        let at_home = self.staging.dirty == 0;
        if at_home || hasty {
            let waits = |entry: &Entry| {
                entry.done && entry.dirty == 0 && entry.home > self.staging.durable_homes
            };
            if !self.staging.flushing && self.staging.entries.iter().take(LOOK).any(waits) {
                self.staging.flushing = true;
                self.flush(out);
            }
            self.tell_tail(out);
        }
    }

    /// All that was staged before an unclean stop comes home; then the log is void, and users are
    /// served.
    pub(in super::super) fn bring_home(&mut self, out: &mut Vec<Action>) {
        if self.staging.is_stuck() || !self.takes_writes() {
            self.phase = Phase::Broken;
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
                self.recorder.record.staging_epoch += 1;
                self.record_change(out);
            }
            Some(_) if self.recorder.is_durable() => self.phase = Phase::Serving,
            Some(_) => {}
        }
    }

    /// The oldest stripe that can come home now. While there is no haste, busy members are left
    /// alone.
    fn stripe_to_reclaim(&mut self, hasty: bool) -> Option<Stripe> {
        if self.staging.dirty == 0 {
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
        let mut entries = staging.undone().filter(wanted);
        if hasty || self.places.busy.is_empty() {
            return entries.next().map(|entry| entry.stripe);
        }
        let found = entries.take(LOOK).find(|entry| self.is_calm(entry)).map(|entry| entry.stripe);
        self.staging.blocked = found.is_none();
        found
    }

    /// Whether nobody is busy to whom an entry's blocks and their parity go.
    fn is_calm(&self, entry: &Entry) -> bool {
        let parities = (self.geo.data()..self.geo.members()).map(|role| Role(role as u8));
        let mut roles = parities.chain(entry.runs.iter().map(|run| run.role));
        roles.all(|role| !self.places.busy.has(self.geo.member(entry.stripe, role).index()))
    }

    /// Gives a reclaim its pieces: all of its stripe that is not at home. They are read into scratch
    /// buffers of their own, numbered after all others.
    pub(in super::super) fn gather(&mut self, id: JobId) {
        self.unpin(id);
        self.jobs[id].pieces.clear();
        let stripe = self.jobs[id].stripe;
        for role in (0..self.geo.data() as u8).map(Role) {
            let first = self.geo.lba(stripe, role, 0);
            for row in 0..self.geo.chunk() {
                let staged = self.staging.table.get(Lba(first.0 + u64::from(row)));
                let Some(staged) = staged.filter(|staged| !staged.clean) else { continue };
                let buffer = (self.geo.members() + 2) as u16 + u16::from(role.0);
                let mem = Mem::Scratch { buffer, at: row };
                self.fetch_later(id, staged, mem);
                let pieces = &mut self.jobs[id].pieces;
                match pieces.last_mut() {
                    Some(last) if last.role == role && last.row + last.blocks == row => {
                        last.blocks += 1;
                    }
                    Some(_) | None => pieces.push(Piece { role, row, blocks: 1, mem }),
                }
            }
        }
    }

    /// The scratch buffers of a reclaim's pieces.
    pub(in super::super) fn gathered(&self, id: JobId) -> Set {
        let roles = self.jobs[id].pieces.iter().map(|piece| piece.role.index());
        roles.map(|role| self.geo.members() + 2 + role).fold(Set::EMPTY, Set::with)
    }

    /// A reclaim has ended: what it wrote is at home, or its entries can't be brought there.
    pub(super) fn reclaimed(&mut self, id: JobId) {
        let (stripe, failed) = (self.jobs[id].stripe, self.jobs[id].error.is_some());
        self.staging.reclaiming.retain(|&other| other != stripe);
        if failed {
            self.staging.stuck.push(stripe);
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

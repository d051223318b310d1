//! Reads of stripes that a crash may have left out of step: such a stripe is brought in step first.

use crate::engine::steering::Way;
use crate::engine::work::Work;
use crate::engine::{Engine, JobId, PassKind};
use crate::meta::JournalRun;
use crate::plan::{SubIo, WriteKind};
use crate::units::{MemberId, Stripe};

impl Engine {
    /// Whether a stripe's redundancy agrees with its data for sure.
    pub(super) fn is_in_step(&self, stripe: Stripe) -> bool {
        let is_known = self.layout.is_saved(stripe)
            || !self.range.regions.is_unsynced(self.areas.region(stripe))
            || self.range.alignment.has(stripe);
        !self.range.alignment.is_torn(stripe) && is_known
    }

    /// Whether what a read of a stripe returns may be on one member alone, or not be what redundancy
    /// tells. A log volume finds out itself which of its stripes a crash has torn.
    pub(super) fn shows_doubt(&self, stripe: Stripe) -> bool {
        self.range.regions.any_unsynced()
            && !self.is_in_step(stripe)
            && self.layout.redundancy() > 0
            && self.array.membership.record().volume.is_none()
    }

    /// A job's write is refused by a member that can't be spared, and others may have taken it. Its
    /// entry may have gone with the members that hold the stripe's parity: if no parity is left,
    /// nothing is out of step.
    pub(super) fn tear(&mut self, id: JobId, member: MemberId, io: &SubIo) {
        let stripe = self.range.jobs[id].stripe;
        let entry = self.replay_of(id).filter(|entry| !entry.copies.is_empty());
        let geo = self.layout.of(stripe);
        let parity = geo.parities() > 0 && !self.kept(stripe).and(geo.spare_roles()).is_empty();
        let refused = JournalRun { member, row: io.row, blocks: io.blocks };
        self.range.alignment.tear(stripe, refused, entry, parity);
    }

    /// A job has ended on a stripe that a write has left out of step. If all of its redundancy was
    /// made anew, it is in step again.
    pub(super) fn look_at_torn(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        let stripe = job.stripe;
        let all = self.layout.of(stripe).roles();
        let rows = |io: &SubIo| io.blocks == self.layout.of(stripe).chunk();
        let remade = match job.work {
            // What was staged changes nothing at home.
            Work::Write if job.asked.way == Way::Around => false,
            Work::Write => job.kind == WriteKind::Full && job.plan.writes.iter().all(rows),
            // It reads as zeros, whatever members hold.
            Work::Zero { .. } => true,
            Work::Align | Work::Sync(PassKind::Resync) => self.health(stripe) == (all, all),
            Work::Read | Work::Sync(_) | Work::Repair | Work::Replay { .. } | Work::Reclaim => {
                false
            }
        };
        if remade && job.error.is_none() {
            self.range.alignment.mend(stripe);
        }
    }

    /// Begins to bring a stripe in doubt in step. Jobs that ask for its lock from now on get it after
    /// that. Returns whether there was room for the job.
    pub(super) fn align(&mut self, stripe: Stripe) -> bool {
        if !self.range.alignment.ask(stripe, self.layout.stripes()) {
            return true;
        }
        let Some(job) = self.new_job(Work::Align, stripe) else {
            self.range.alignment.ended(stripe, false);
            return false;
        };
        self.start_job(job);
        true
    }
}

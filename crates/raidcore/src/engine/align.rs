//! Reads of stripes that a crash may have left out of step. What such a read returns may be on one
//! member alone, or not be what redundancy would give back: if that member were lost then, users would
//! read something older, or something that never was. So the first read of such a stripe brings it in
//! step before it answers. A flush that begins later makes that durable, as it does with all that
//! members have taken.
//!
//! Invariants: a read of a stripe in doubt is granted its lock only after a job that has brought the
//! stripe in step, or has failed to; a stripe that is in step stays so, as writes keep it.

use alloc::collections::BTreeMap;

use super::job::Work;
use super::{Engine, JobId, PassKind};
use crate::geometry::Role;
use crate::meta::{BitMap, MapKind};
use crate::plan::WriteKind;
use crate::units::{Set, Stripe};

/// Which stripes were brought in step for reads, and which a write has left out of step.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// There is memory for it only when a read has met a stripe in doubt.
    stripes: Option<Stripes>,
    /// Stripes of which some members have taken a write, and others, which can't be spared, have
    /// not: nothing can be made of their redundancy. With the roles whose blocks are older than what
    /// the journal has for them.
    torn: BTreeMap<Stripe, Set>,
}

#[derive(Debug)]
struct Stripes {
    /// There is a job for it, or was.
    asked: BitMap,
    /// It is in step.
    done: BitMap,
}

impl Alignment {
    /// Whether a stripe was brought in step.
    fn has(&self, stripe: Stripe) -> bool {
        self.stripes.as_ref().is_some_and(|stripes| stripes.done.get(stripe.0))
    }

    /// A write has failed that some members may have taken.
    pub(super) fn tear(&mut self, stripe: Stripe) {
        self.torn.entry(stripe).or_insert(Set::EMPTY);
    }

    /// A role did not take what the journal has for it.
    pub(super) fn leave_behind(&mut self, stripe: Stripe, role: Role) {
        let behind = self.torn.entry(stripe).or_insert(Set::EMPTY);
        *behind = behind.with(role.index());
    }

    /// The roles of a stripe whose blocks are older than what the journal has for them.
    pub(super) fn behind(&self, stripe: Stripe) -> Set {
        self.torn.get(&stripe).copied().unwrap_or(Set::EMPTY)
    }

    /// All of a stripe's redundancy was made anew.
    pub(super) fn mend(&mut self, stripe: Stripe) {
        self.torn.remove(&stripe);
    }

    /// Whether a write has left a stripe out of step.
    pub(super) fn is_torn(&self, stripe: Stripe) -> bool {
        !self.torn.is_empty() && self.torn.contains_key(&stripe)
    }

    /// The stripes that writes have left out of step.
    pub(super) fn torn(&self) -> impl Iterator<Item = Stripe> + '_ {
        self.torn.keys().copied()
    }

    /// A stripe's job has ended; if it has failed, the next read has it tried again.
    pub(super) fn ended(&mut self, stripe: Stripe, well: bool) {
        let Some(stripes) = &mut self.stripes else { return };
        if well {
            stripes.done.set(stripe.0);
        } else {
            stripes.asked.clear(stripe.0);
        }
    }
}

impl Engine {
    /// Whether a stripe's redundancy agrees with its data for sure.
    pub(super) fn is_in_step(&self, stripe: Stripe) -> bool {
        !self.alignment.is_torn(stripe)
            && (!self.regions.is_unsynced(self.areas.region(stripe)) || self.alignment.has(stripe))
    }

    /// Whether what a read of a stripe returns may be on one member alone, or not be what redundancy
    /// tells. A log volume finds out itself which of its stripes a crash has torn.
    pub(super) fn shows_doubt(&self, stripe: Stripe) -> bool {
        self.regions.unsynced.count() > 0
            && !self.is_in_step(stripe)
            && self.geo.redundancy() > 0
            && self.recorder.record.volume.is_none()
    }

    /// A job has ended on a stripe that a write has left out of step. If all of its redundancy was
    /// made anew, it is in step again.
    pub(super) fn look_at_torn(&mut self, id: JobId) {
        let job = &self.jobs[id];
        let remade = match job.work {
            Work::Write => job.kind == WriteKind::Full,
            Work::Align | Work::Sync(PassKind::Resync) => true,
            Work::Read
            | Work::Zero { .. }
            | Work::Sync(_)
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => false,
        };
        let stripe = job.stripe;
        let all = Set::first(self.geo.members());
        if remade && job.error.is_none() && self.health(stripe) == (all, all) {
            self.alignment.mend(stripe);
        }
    }

    /// Sees to it that a stripe in doubt is brought in step before anybody who asks for its lock from
    /// now on has it. Tells whether there was room for that.
    pub(super) fn align(&mut self, stripe: Stripe) -> bool {
        let map = || BitMap::new(MapKind::ZeroMap, self.geo.stripes());
        let stripes =
            self.alignment.stripes.get_or_insert_with(|| Stripes { asked: map(), done: map() });
        if !stripes.asked.set(stripe.0) {
            return true;
        }
        let Some(job) = self.new_job(Work::Align, stripe) else {
            self.alignment.ended(stripe, false);
            return false;
        };
        self.start_job(job);
        true
    }
}

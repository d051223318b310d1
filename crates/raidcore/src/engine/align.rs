//! Reads of stripes that a crash may have left out of step. What such a read returns may be on one
//! member alone, or not be what redundancy would give back: if that member were lost then, users would
//! read something older, or something that never was. So the first read of such a stripe brings it in
//! step before it answers. A flush that begins later makes that durable, as it does with all that
//! members have taken.
//!
//! Invariants: a read of a stripe in doubt is granted its lock only after a job that has brought the
//! stripe in step, or has failed to; a stripe that is in step stays so, as writes keep it.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::journal::IN_PLACE;
use super::work::Work;
use super::{Engine, JobId, PassKind};
use crate::geometry::{Layout, Role};
use crate::meta::{BitMap, JournalRun, MapKind, Replay, ReplayRun};
use crate::plan::{SubIo, WriteKind};
use crate::units::{MemberId, Set, Stripe};

/// Which stripes were brought in step for reads, and which a write has left out of step.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// There is memory for it only when a read has met a stripe in doubt.
    stripes: Option<Stripes>,
    /// Stripes of which some members have taken a write, and others, which can't be spared, have
    /// not: nothing can be made of their redundancy.
    torn: BTreeMap<Stripe, Torn>,
}

/// What is known of a stripe that a write has left out of step.
#[derive(Debug, Default)]
struct Torn {
    /// The roles whose blocks are older than what the journal has for them.
    behind: Set<Role>,
    /// What brings it in step, if the journal has that.
    entry: Option<Replay>,
    /// What members have refused.
    refused: Vec<JournalRun>,
    /// A write that has left it out of step is not in the journal.
    stays: bool,
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

    /// A role did not take what the journal has for it.
    pub(super) fn leave_behind(&mut self, stripe: Stripe, role: Role) {
        let torn = self.torn.entry(stripe).or_default();
        torn.behind = torn.behind.with(role);
    }

    /// The roles of a stripe whose blocks are older than what the journal has for them.
    pub(super) fn behind(&self, stripe: Stripe) -> Set<Role> {
        self.torn.get(&stripe).map_or(Set::EMPTY, |torn| torn.behind)
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

    /// What has to be written for members to have what they have refused: what the journal has of it, in
    /// the order in which that was written; of other stripes what is there, to see whether it is taken.
    pub(super) fn refused(&self, geo: &Layout) -> Vec<Replay> {
        let mut replays = Vec::new();
        for (&stripe, torn) in &self.torn {
            if let Some(entry) = &torn.entry {
                replays.push(entry.clone());
                continue;
            }
            replays.extend(torn.refused.iter().filter_map(|&to| {
                let role = geo.role(stripe, to.member)?;
                Some(Replay {
                    entry: IN_PLACE,
                    stripe,
                    copies: vec![geo.place(stripe, role)],
                    runs: vec![ReplayRun { to, from: to.row }],
                })
            }));
        }
        replays.sort_by_key(|replay| replay.entry);
        replays
    }

    /// All that was refused is in its place.
    pub(super) fn made_good(&mut self) {
        self.torn.retain(|_, torn| {
            (torn.entry, torn.refused) = (None, Vec::new());
            torn.stays
        });
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
            && self.array.recorder.record.volume.is_none()
    }

    /// A job's write is refused by a member that can't be spared, and others may have taken it. Its
    /// entry may have gone with the members that hold the stripe's parity: if no parity is left,
    /// nothing is out of step.
    pub(super) fn tear(&mut self, id: JobId, member: MemberId, io: &SubIo) {
        let stripe = self.jobs[id].stripe;
        let entry = self.replay_of(id).filter(|entry| !entry.copies.is_empty());
        let geo = self.geo.of(stripe);
        let parity = geo.parities() > 0 && !self.kept(stripe).and(geo.spare_roles()).is_empty();
        let torn = self.alignment.torn.entry(stripe).or_default();
        torn.stays |= entry.is_none() && parity;
        torn.entry = entry.or(torn.entry.take());
        torn.refused.push(JournalRun { member, row: io.row, blocks: io.blocks });
    }

    /// A job has ended on a stripe that a write has left out of step. If all of its redundancy was
    /// made anew, it is in step again.
    pub(super) fn look_at_torn(&mut self, id: JobId) {
        let job = &self.jobs[id];
        let stripe = job.stripe;
        let all = self.geo.of(stripe).roles();
        let rows = |io: &SubIo| io.blocks == self.geo.chunk();
        let remade = match job.work {
            Work::Write => job.kind == WriteKind::Full && job.plan.writes.iter().all(rows),
            // It reads as zeros, whatever members hold.
            Work::Zero { .. } => true,
            Work::Align | Work::Sync(PassKind::Resync) => self.health(stripe) == (all, all),
            Work::Read | Work::Sync(_) | Work::Repair | Work::Replay { .. } | Work::Reclaim => {
                false
            }
        };
        if remade && job.error.is_none() {
            self.alignment.mend(stripe);
        }
    }

    /// Begins to bring a stripe in doubt in step. Jobs that ask for its lock from now on get it after
    /// that. Returns whether there was room for the job.
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

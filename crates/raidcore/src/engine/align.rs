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
use crate::geometry::{Geometry, Role};
use crate::meta::{Areas, BitMap, JournalRun, Replay, ReplayRun};
use crate::units::{Set, Stripe};

/// Which stripes were brought in step for reads, and which a write has left out of step.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// There is memory for it only when a read has met a stripe in doubt.
    pub(super) stripes: Option<Stripes>,
    /// Stripes of which some members have taken a write, and others, which can't be spared, have
    /// not: nothing can be made of their redundancy.
    pub(super) torn: BTreeMap<Stripe, Torn>,
}

/// What is known of a stripe that a write has left out of step.
#[derive(Debug, Default)]
pub(super) struct Torn {
    /// The roles whose blocks are older than what the journal has for them.
    behind: Set<Role>,
    /// What brings it in step, if the journal has that.
    pub(super) entry: Option<Replay>,
    /// What members have refused.
    pub(super) refused: Vec<JournalRun>,
    /// A write that has left it out of step is not in the journal.
    pub(super) stays: bool,
}

#[derive(Debug)]
pub(super) struct Stripes {
    /// There is a job for it, or was.
    pub(super) asked: BitMap,
    /// It is in step.
    pub(super) done: BitMap,
}

impl Alignment {
    /// Whether a stripe was brought in step.
    pub(super) fn has(&self, stripe: Stripe) -> bool {
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
    pub(super) fn refused(&self, geo: &Geometry, areas: &Areas) -> Vec<Replay> {
        let mut replays = Vec::new();
        for (&stripe, torn) in &self.torn {
            if let Some(entry) = &torn.entry {
                replays.push(entry.clone());
                continue;
            }
            let home = geo.place(stripe, areas.data_start());
            replays.extend(torn.refused.iter().map(|&to| Replay {
                entry: IN_PLACE,
                stripe,
                copies: vec![(to.member, home)],
                runs: vec![ReplayRun { to, from: to.row }],
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

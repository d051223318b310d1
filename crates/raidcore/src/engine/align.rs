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

use crate::geometry::{Layout, Role};
use crate::meta::{BitMap, JournalRun, MapKind, Replay, ReplayRun};
use crate::units::{Set, Stripe};

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
    pub(super) fn has(&self, stripe: Stripe) -> bool {
        self.stripes.as_ref().is_some_and(|stripes| stripes.done.get(stripe.0))
    }

    /// A write of a stripe was refused by a member that can't be spared, and others may have taken it.
    /// The stripe is out of step for good if the journal has nothing that brings it in step, and it keeps
    /// parity that could disagree.
    pub(super) fn tear(
        &mut self,
        stripe: Stripe,
        refused: JournalRun,
        entry: Option<Replay>,
        keeps_parity: bool,
    ) {
        let torn = self.torn.entry(stripe).or_default();
        torn.stays |= entry.is_none() && keeps_parity;
        torn.entry = entry.or(torn.entry.take());
        torn.refused.push(refused);
    }

    /// A read asks for a stripe, of so many, to be brought in step. Returns whether nothing has asked
    /// before.
    pub(super) fn ask(&mut self, stripe: Stripe, stripes: u64) -> bool {
        let map = || BitMap::new(MapKind::ZeroMap, stripes);
        let stripes = self.stripes.get_or_insert_with(|| Stripes { asked: map(), done: map() });
        stripes.asked.set(stripe.0)
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
    /// the order in which that was written; of what a replay might not write, what is there, to see whether it
    /// is taken.
    pub(super) fn refused(&self, geo: &Layout) -> Vec<Replay> {
        let mut replays = Vec::new();
        for (&stripe, torn) in &self.torn {
            replays.extend(torn.entry.clone());
            if torn.entry.as_ref().is_some_and(|entry| entry.left_out.is_none()) {
                continue;
            }
            replays.extend(torn.refused.iter().filter_map(|&to| {
                let role = geo.role(stripe, to.member)?;
                Some(Replay {
                    entry: Replay::IN_PLACE,
                    stripe,
                    copies: vec![geo.place(stripe, role)],
                    runs: vec![ReplayRun { to, from: to.row }],
                    left_out: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MemberId, Pba};

    const STRIPE: Stripe = Stripe(3);
    const REFUSED: JournalRun = JournalRun { member: MemberId(1), row: 0, blocks: 1 };

    fn entry() -> Replay {
        let copies = vec![(MemberId(0), Pba(7))];
        let runs = vec![ReplayRun { to: REFUSED, from: 0 }];
        Replay { entry: 5, stripe: STRIPE, copies, runs, left_out: None }
    }

    #[test]
    fn a_stripe_is_brought_in_step_once_and_again_if_that_has_failed() {
        let mut alignment = Alignment::default();
        assert!(alignment.ask(STRIPE, 8) && !alignment.ask(STRIPE, 8));
        alignment.ended(STRIPE, false);
        assert!(!alignment.has(STRIPE) && alignment.ask(STRIPE, 8));
        alignment.ended(STRIPE, true);
        assert!(alignment.has(STRIPE) && !alignment.ask(STRIPE, 8));
    }

    #[test]
    fn what_the_journal_has_brings_a_stripe_in_step() {
        let mut alignment = Alignment::default();
        alignment.tear(STRIPE, REFUSED, Some(entry()), true);
        alignment.made_good();
        assert!(!alignment.is_torn(STRIPE));
    }

    #[test]
    fn a_stripe_stays_out_of_step_if_one_of_its_writes_is_nowhere_else() {
        let mut alignment = Alignment::default();
        alignment.tear(STRIPE, REFUSED, None, true);
        alignment.tear(STRIPE, REFUSED, Some(entry()), true);
        alignment.made_good();
        assert!(alignment.is_torn(STRIPE));
        alignment.mend(STRIPE);
        assert!(!alignment.is_torn(STRIPE));
    }

    #[test]
    fn without_parity_nothing_is_out_of_step_for_good() {
        let mut alignment = Alignment::default();
        alignment.tear(STRIPE, REFUSED, None, false);
        assert!(alignment.is_torn(STRIPE));
        alignment.made_good();
        assert!(!alignment.is_torn(STRIPE));
    }
}

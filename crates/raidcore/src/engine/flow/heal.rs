//! What members refused is written once more when they have room.

use alloc::vec::Vec;

use crate::engine::heal::{Healing, Turn};
use crate::engine::{Action, Engine, Note, Phase, Remedy};
use crate::geometry::Role;
use crate::meta::SlotState;
use crate::units::{Set, Stripe};

impl Engine {
    /// What has to happen before writes are taken again, if they are not.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        let remedy = if self.can_heal() { Remedy::Room } else { Remedy::Start };
        let refuses =
            self.array.membership.has_refusing() || self.array.membership.recorder.is_broken();
        refuses.then_some(remedy)
    }

    /// Whether writes are refused, and it is known what has to be written for the array to be in order.
    fn can_heal(&self) -> bool {
        let record = self.array.membership.record();
        let filled =
            || record.slots.iter().any(|s| matches!(s.state, SlotState::Rebuilding { .. }));
        // Nothing tells which of a mirror's copies is right that a refused write has left different.
        let one_sided =
            || self.range.alignment.torn().any(|stripe| self.layout.of(stripe).parities() == 0);
        self.array.membership.has_refusing()
            && !self.array.healing.is_hopeless()
            && !self.array.membership.recorder.is_broken()
            && self.array.membership.slots().all(|(_, m, _)| !m.unreadable)
            && (!one_sided() || !filled())
            && !self.range.staging.exists()
            && self.array.membership.succession().is_none()
            && self.array.membership.spared().is_none()
            && record.volume.is_none()
    }

    /// Sees to it that the array takes writes again; returns whether it has come a step further.
    pub(super) fn heal(&mut self, out: &mut Vec<Action>) -> bool {
        if !self.array.membership.impaired && self.array.healing.is_idle() {
            return false;
        }
        if self.phase != Phase::Serving || self.array.stop_command.is_some() || !self.can_heal() {
            if !self.range.replays.is_under_way() {
                self.array.healing.stop();
            }
            return false;
        }
        let (before, later) = (self.array.healing.step(), self.now + self.config.quiesce_delay);
        let (writing, flusher) = (self.range.replays.is_under_way(), &self.array.flusher);
        let is_over = |round| flusher.is_over(round);
        match self.array.healing.turn(self.now, later, writing, is_over) {
            Turn::Nothing => {}
            // Whether what these have in the journal is to be carried out is not clear yet.
            Turn::Begin if self.range.jobs.iter().any(|job| job.journaled.entry.is_some()) => {
                self.array.healing.try_later(later);
            }
            Turn::Begin => {
                self.array.healing.begin();
                let refused = self.range.alignment.refused(&self.layout);
                self.range.replays.begin_anew(refused);
            }
            Turn::Write => self.write_refused(out),
            Turn::Flushed if !self.flushed_for_good() => self.array.healing.try_later(later),
            Turn::Flushed => {
                self.range.alignment.made_good();
                self.range.maps.spread();
                self.array.healing.flushed();
            }
            Turn::Store => {
                self.write_tails(out);
                if self.range.maps.are_spread() && !self.range.journal.is_unsettled() {
                    self.take_writes_again(out);
                }
            }
        }
        self.array.healing.step() != before
    }

    /// Writes the next of what was refused, or has all of it made durable.
    fn write_refused(&mut self, out: &mut Vec<Action>) {
        if !self.replay_next() {
            self.range.journal.all_at_home();
            let round = self.flush(out);
            self.array.healing.flush_with(round);
        }
    }

    fn take_writes_again(&mut self, out: &mut Vec<Action>) {
        self.array.membership.take_writes_again();
        self.array.healing = Healing::default();
        self.array.background.look();
        self.array.background.try_again();
        out.push(Action::Note(Note::ArrayHealed));
    }

    /// The roles of a stripe whose members are kept current, whether they have taken all or not.
    pub(super) fn kept(&self, stripe: Stripe) -> Set<Role> {
        let kept = self.layout.member_set().filter(|&member| self.is_current_in(member, stripe));
        kept.filter_map(|member| self.layout.role(stripe, member)).collect()
    }
}

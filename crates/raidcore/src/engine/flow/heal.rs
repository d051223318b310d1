//! What members refused is written once more when they have room.

use alloc::vec::Vec;

use det::Instant;

use crate::engine::heal::{Healing, Step};
use crate::engine::work::Work;
use crate::engine::{Action, Engine, Note, Phase, Remedy};
use crate::geometry::Role;
use crate::meta::SlotState;
use crate::units::{Set, Stripe};

impl Engine {
    /// When the next attempt is to begin.
    pub(in crate::engine) fn heal_deadline(&self) -> Option<Instant> {
        self.array.healing.at.filter(|_| !self.array.healing.is_under_way())
    }

    /// What has to happen before writes are taken again, if they are not.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        let remedy = if self.can_heal() { Remedy::Room } else { Remedy::Start };
        let refuses = self.has_refusing() || self.array.membership.recorder.is_broken();
        refuses.then_some(remedy)
    }

    fn has_refusing(&self) -> bool {
        self.array.membership.members[..self.geo.members()].iter().any(|m| m.unwritable)
    }

    /// Whether writes are refused, and it is known what has to be written for the array to be in order.
    fn can_heal(&self) -> bool {
        let record = &self.array.membership.recorder.record;
        let filled =
            || record.slots.iter().any(|s| matches!(s.state, SlotState::Rebuilding { .. }));
        // Nothing tells which of a mirror's copies is right that a refused write has left different.
        let one_sided =
            || self.range.alignment.torn().any(|stripe| self.geo.of(stripe).parities() == 0);
        self.has_refusing()
            && !self.array.healing.hopeless
            && !self.array.membership.recorder.is_broken()
            && self.array.membership.members.iter().all(|m| !m.unreadable)
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
        let before = self.array.healing.step;
        if self.phase != Phase::Serving || self.array.stop_command.is_some() || !self.can_heal() {
            if !self.range.replays.is_under_way() {
                (self.array.healing.step, self.array.healing.at) = (Step::Resting, None);
            }
            return false;
        }
        match self.array.healing.step {
            Step::Resting => match self.array.healing.at {
                Some(at) if at <= self.now => self.begin_to_heal(),
                Some(_) => {}
                None => self.heal_later(),
            },
            Step::Writing if self.range.replays.is_under_way() => {}
            _ if self.array.healing.refused => self.heal_later(),
            Step::Writing => self.write_refused(out),
            Step::Flushing(ticket) if !self.array.flusher.is_over(ticket) => {}
            Step::Flushing(_) if !self.flushed_for_good() => self.heal_later(),
            Step::Flushing(_) => {
                self.range.alignment.made_good();
                self.range.maps.spread();
                self.array.healing.step = Step::Storing;
            }
            Step::Storing => {
                self.write_tails(out);
                if self.range.maps.are_spread() && !self.range.journal.is_unsettled() {
                    self.take_writes_again(out);
                }
            }
        }
        self.array.healing.step != before
    }

    fn heal_later(&mut self) {
        self.array.healing.step = Step::Resting;
        self.array.healing.at = Some(self.now + self.config.quiesce_delay);
    }

    fn begin_to_heal(&mut self) {
        // Whether what these have in the journal is to be carried out is not clear yet.
        if self.range.jobs.iter().any(|job| job.entry.is_some()) {
            return self.heal_later();
        }
        self.array.healing.refused = false;
        self.array.healing.step = Step::Writing;
        let refused = self.range.alignment.refused(&self.geo);
        self.range.replays.begin_anew(refused);
    }

    /// Writes the next of what was refused, or has all of it made durable.
    fn write_refused(&mut self, out: &mut Vec<Action>) {
        if let Some((index, stripe)) = self.range.replays.next() {
            if let Some(job) = self.new_job(Work::Replay { index }, stripe) {
                self.range.replays.one_begun();
                self.start_job(job);
            }
            return;
        }
        self.range.journal.all_at_home();
        self.array.healing.step = Step::Flushing(self.flush(out));
    }

    /// What was refused is written, or was not taken once more.
    pub(super) fn wrote_refused(&mut self, done: bool) {
        self.array.healing.refused |= !done;
        self.range.replays.one_done();
    }

    fn take_writes_again(&mut self, out: &mut Vec<Action>) {
        for member in &mut self.array.membership.members {
            member.unwritable = false;
        }
        self.array.healing = Healing::default();
        self.array.membership.look_at_members();
        self.array.background.look();
        out.push(Action::Note(Note::ArrayHealed));
    }

    /// The roles of a stripe whose members are kept current, whether they have taken all or not.
    pub(super) fn kept(&self, stripe: Stripe) -> Set<Role> {
        let kept = self.geo.member_set().filter(|&member| self.is_current_in(member, stripe));
        kept.filter_map(|member| self.geo.role(stripe, member)).collect()
    }
}

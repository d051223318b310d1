//! Members that had no room for what was written to them, and could not be spared: the array takes no
//! writes until they have it. Now and then, what they have refused is written once more. When they take
//! it, the array takes writes again.
//!
//! Invariants: writes are taken again only when all that was refused is in its place and durable, the
//! journal would carry out nothing of it any more, and all members have all pages of the maps. What was
//! refused by a flush, or in any other way than for want of room, is left to the next start, as is what
//! a start has found: a device may have lost more than what it has told.

use alloc::vec::Vec;

use det::Instant;

use super::work::Work;
use super::{Action, Engine, IoError, Note, Phase, Remedy};
use crate::geometry::Role;
use crate::meta::SlotState;
use crate::units::{Set, Stripe};

/// How far the array is with taking writes again.
#[derive(Debug, Default)]
pub(super) struct Healing {
    step: Step,
    /// When the next attempt is to begin.
    at: Option<Instant>,
    /// A member that can't be spared has refused something since the attempt began.
    refused: bool,
    /// Only a start can bring the array in order.
    hopeless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    Resting,
    /// What was refused is written.
    Writing,
    /// It is made durable.
    Flushing(u64),
    /// Maps are stored on all members, and the journal's tails.
    Storing,
}

impl Healing {
    /// A member that can't be spared has refused something.
    pub(super) fn refused(&mut self, why: IoError) {
        self.refused = true;
        self.hopeless |= why != IoError::NoSpace;
    }

    /// Nothing but a start helps.
    pub(super) fn leave_to_a_start(&mut self) {
        self.hopeless = true;
    }

    /// Whether no attempt is under way, nor to come.
    fn is_idle(&self) -> bool {
        self.at.is_none() && !self.is_under_way()
    }

    /// Whether an attempt is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.step != Step::Resting
    }
}

impl Engine {
    /// When the next attempt is to begin.
    pub(super) fn heal_deadline(&self) -> Option<Instant> {
        self.healing.at.filter(|_| !self.healing.is_under_way())
    }

    /// What has to happen before writes are taken again, if they are not.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        let remedy = if self.can_heal() { Remedy::Room } else { Remedy::Start };
        let refuses = self.has_refusing() || self.array.recorder.is_broken();
        refuses.then_some(remedy)
    }

    fn has_refusing(&self) -> bool {
        self.array.members[..self.geo.members()].iter().any(|m| m.unwritable)
    }

    /// Whether writes are refused, and it is known what has to be written for the array to be in order.
    fn can_heal(&self) -> bool {
        let record = &self.array.recorder.record;
        let filled =
            || record.slots.iter().any(|s| matches!(s.state, SlotState::Rebuilding { .. }));
        // Nothing tells which of a mirror's copies is right that a refused write has left different.
        let one_sided = || self.alignment.torn().any(|stripe| self.geo.of(stripe).parities() == 0);
        self.has_refusing()
            && !self.healing.hopeless
            && !self.array.recorder.is_broken()
            && self.array.members.iter().all(|m| !m.unreadable)
            && (!one_sided() || !filled())
            && !self.staging.exists()
            && self.array.succession.is_none()
            && self.array.spared().is_none()
            && record.volume.is_none()
    }

    /// Sees to it that the array takes writes again; returns whether it has come a step further.
    pub(super) fn heal(&mut self, out: &mut Vec<Action>) -> bool {
        if !self.array.impaired && self.healing.is_idle() {
            return false;
        }
        let before = self.healing.step;
        if self.phase != Phase::Serving || self.stop_command.is_some() || !self.can_heal() {
            if !self.replays.is_under_way() {
                (self.healing.step, self.healing.at) = (Step::Resting, None);
            }
            return false;
        }
        match self.healing.step {
            Step::Resting => match self.healing.at {
                Some(at) if at <= self.now => self.begin_to_heal(),
                Some(_) => {}
                None => self.heal_later(),
            },
            Step::Writing if self.replays.is_under_way() => {}
            _ if self.healing.refused => self.heal_later(),
            Step::Writing => self.write_refused(out),
            Step::Flushing(ticket) if !self.flusher.is_over(ticket) => {}
            Step::Flushing(_) if !self.flushed_for_good() => self.heal_later(),
            Step::Flushing(_) => {
                self.alignment.made_good();
                self.maps.spread();
                self.healing.step = Step::Storing;
            }
            Step::Storing => {
                self.write_tails(out);
                if self.maps.are_spread() && !self.journal.is_unsettled() {
                    self.take_writes_again(out);
                }
            }
        }
        self.healing.step != before
    }

    fn heal_later(&mut self) {
        self.healing.step = Step::Resting;
        self.healing.at = Some(self.now + self.config.quiesce_delay);
    }

    fn begin_to_heal(&mut self) {
        // Whether what these have in the journal is to be carried out is not clear yet.
        if self.jobs.iter().any(|job| job.entry.is_some()) {
            return self.heal_later();
        }
        self.healing.refused = false;
        self.healing.step = Step::Writing;
        let refused = self.alignment.refused(&self.geo);
        self.replays.begin_anew(refused);
    }

    /// Writes the next of what was refused, or has all of it made durable.
    fn write_refused(&mut self, out: &mut Vec<Action>) {
        if let Some((index, stripe)) = self.replays.next() {
            if let Some(job) = self.new_job(Work::Replay { index }, stripe) {
                self.replays.one_begun();
                self.start_job(job);
            }
            return;
        }
        self.journal.all_at_home();
        self.healing.step = Step::Flushing(self.flush(out));
    }

    /// What was refused is written, or was not taken once more.
    pub(super) fn wrote_refused(&mut self, done: bool) {
        self.healing.refused |= !done;
        self.replays.one_done();
    }

    fn take_writes_again(&mut self, out: &mut Vec<Action>) {
        for member in &mut self.array.members {
            member.unwritable = false;
        }
        self.healing = Healing::default();
        self.array.look_at_members();
        self.background.look = true;
        out.push(Action::Note(Note::ArrayHealed));
    }

    /// The roles of a stripe whose members are kept current, whether they have taken all or not.
    pub(super) fn kept(&self, stripe: Stripe) -> Set<Role> {
        let kept = self.geo.member_set().filter(|&member| self.is_current_in(member, stripe));
        kept.filter_map(|member| self.geo.role(stripe, member)).collect()
    }
}

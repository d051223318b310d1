//! The end of a background pass: what it has done is made durable and put on record, and then it counts.
//!
//! Invariant: a device becomes a member, and a copy stands in for one, only when all of it is durable and
//! all pages of the maps are on it.

use alloc::vec::Vec;

use crate::engine::flow::background::note_end;
use crate::engine::left::LeftStripe;
use crate::engine::pass::Closing;
use crate::engine::{Action, Engine, PassEnd, PassKind, Phase};
use crate::meta::ScrubEnd;
use crate::units::{MemberId, Stripe};

impl Engine {
    /// Ends the pass when all of it is done, or it was cancelled; returns whether it has ended.
    pub(super) fn end_pass_if_done(&mut self, out: &mut Vec<Action>) -> bool {
        let Some(pass) = self.array.background.pass().filter(|pass| !pass.is_under_way()) else {
            return false;
        };
        let (kind, closing) = (pass.kind(), pass.closing());
        if pass.is_cancelled() {
            if let PassKind::Distribute(_) = kind {
                self.range.distributed.set_progress(pass.progress().clone());
            }
            let is_aside = kind.filled().is_some_and(|m| self.array.background.aside().has(m));
            self.record_unfinished_scrub(out);
            self.array.background.end();
            self.range.staging.end_drain();
            note_end(kind, if is_aside { PassEnd::Aside } else { PassEnd::Cancelled }, out);
            return true;
        }
        let all = match kind {
            PassKind::Resync => !self.range.regions.any_unsynced(),
            PassKind::Rebuild(_)
            | PassKind::Distribute(_)
            | PassKind::Copy(_)
            | PassKind::Scrub { .. }
            | PassKind::Reshape => pass.is_whole(),
        };
        if !all || pass.is_stuck() || self.phase != Phase::Serving {
            return false;
        }
        let corrects = kind == PassKind::Scrub { repair: true } && pass.found().rows > 0;
        if kind.stands_in() && closing == Closing::No && self.range.staging.exists() {
            // What is there then has nothing of what is staged, nor of what is void.
            self.drain_log(out);
            if !self.range.staging.is_drained() {
                return false;
            }
        }
        self.close_pass(kind, closing, corrects, out);
        self.array.background.is_idle()
    }

    /// All stripes of the pass are done: makes that durable and puts it on record, a step at a time.
    fn close_pass(
        &mut self,
        kind: PassKind,
        closing: Closing,
        corrects: bool,
        out: &mut Vec<Action>,
    ) {
        match (kind, closing) {
            // What a pass is told to have done stays so if the power fails.
            (PassKind::Scrub { .. }, Closing::No) if !corrects => self.end_pass(kind, out),
            (PassKind::Reshape, _) => self.end_pass(kind, out),
            (_, Closing::No) => {
                let ticket = self.flush(out);
                self.array.background.close(Closing::Flushing(ticket));
            }
            (_, Closing::Flushing(ticket)) if !self.array.flusher.is_over(ticket) => {}
            (PassKind::Distribute(_) | PassKind::Copy(_), Closing::Flushing(_))
                if self.array.flusher.has_failed() =>
            {
                // A copy may not be there; nothing can be done but to try again.
                let stripe = Stripe(self.layout.stripes() - 1);
                self.array.background.stick(LeftStripe::new(stripe, self.layout.of(stripe)));
                note_end(kind, PassEnd::Stuck(stripe), out);
            }
            (PassKind::Rebuild(_) | PassKind::Copy(_), Closing::Flushing(_)) => {
                self.range.maps.spread_to_both_places();
                self.array.background.close(Closing::Storing);
            }
            (PassKind::Rebuild(member), Closing::Storing) => {
                if self.range.maps.are_spread() && !self.array.membership.recorder.is_broken() {
                    self.becomes_member(member, out);
                    self.end_pass(kind, out);
                }
            }
            (PassKind::Copy(_), Closing::Storing) => {
                if self.may_succeed() {
                    self.array
                        .background
                        .close(Closing::Succeeding(self.array.membership.recorder.next_version()));
                    let seconds = self.seconds();
                    self.array.membership.begin_to_succeed(seconds);
                    self.record_change(out);
                }
            }
            (PassKind::Copy(_), Closing::Succeeding(version)) => {
                // If the member has failed meanwhile, that was done at once.
                if self.array.membership.recorder.is_on_record(version)
                    || self.array.membership.succession().is_none()
                {
                    self.succeed(out);
                    self.end_pass(kind, out);
                }
            }
            (PassKind::Distribute(_), Closing::Flushing(_)) => {
                // As many more may fail now as before: a page that the member had may be on too few.
                self.range.maps.spread();
                self.array.background.close(Closing::Storing);
            }
            (PassKind::Distribute(_), Closing::Storing) => {
                if self.range.maps.are_spread() {
                    self.is_distributed(out);
                    self.end_pass(kind, out);
                }
            }
            (PassKind::Rebuild(_) | PassKind::Distribute(_), Closing::Succeeding(_)) => {}
            (PassKind::Resync | PassKind::Scrub { .. }, _) => self.end_pass(kind, out),
        }
    }

    fn end_pass(&mut self, kind: PassKind, out: &mut Vec<Action>) {
        let Some(pass) = self.array.background.end() else {
            return;
        };
        self.range.staging.end_drain();
        if let PassKind::Scrub { repair } = kind {
            let repaired = repair && !self.array.flusher.has_failed();
            let end = if repaired { ScrubEnd::Repaired } else { ScrubEnd::Compared };
            self.record_scrub(end, pass.found(), out);
        }
        note_end(kind, PassEnd::Done, out);
    }

    fn becomes_member(&mut self, member: MemberId, out: &mut Vec<Action>) {
        let seconds = self.seconds();
        self.array.membership.becomes_up(member, seconds);
        self.range.missed.forget(member);
        self.leave_spare(member);
        if member.index() >= self.layout.members() {
            // Entries on a staging device count for nothing at a start that does not know it as one.
            self.array.membership.recorder.acknowledge_after_next();
        }
        self.array.membership.look_at_members();
        self.fail_the_useless(out);
        self.record_change(out);
    }
}

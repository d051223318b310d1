//! What comes to rest: now and then what was written, so that less has to be done after a crash, and
//! in the end the array as a whole.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::pass::Pass;
use crate::engine::quiesce::Stopping;
use crate::engine::{Action, Engine, IoOp, Phase};
use crate::meta::MetaPage;

impl Engine {
    /// Now and then: a flush, after which regions that rest are cleared, journal tails move and
    /// the watermark of a rebuild is recorded.
    pub(super) fn quiesce(&mut self, out: &mut Vec<Action>) {
        if let Some(ticket) = self.array.quiesce.flush() {
            if !self.array.flusher.is_over(ticket) {
                return;
            }
            // What was written meanwhile wants the next one.
            self.array.quiesce.end();
            if self.flushed_for_good() {
                self.clear_rested(out);
                self.write_tails(out);
                self.record_filled(out);
            } else {
                self.range.regions.rest_no_more();
            }
        }
        if self.array.quiesce.waits(self.now) {
            return;
        }
        let pass = self.array.background.pass();
        let rebuilds = pass.is_some_and(|p| p.kind().has_watermark() && !p.is_paused());
        let wanted = self.phase == Phase::Serving && (self.is_unrested() || rebuilds);
        if self.array.quiesce.is_due(wanted, self.now, self.config.quiesce_delay) {
            self.range.regions.rest();
            let flush = self.flush(out);
            self.array.quiesce.begin(flush);
        }
    }

    /// Whether users' writes have left something that may come to rest.
    pub(super) fn is_unrested(&self) -> bool {
        self.range.regions.is_touched() || self.range.journal.is_unsettled()
    }

    /// Puts on record what the pass under way has filled that the last round has made durable.
    fn record_filled(&mut self, out: &mut Vec<Action>) {
        let kind = self.array.background.pass().map(Pass::kind);
        let filled = kind.and_then(|kind| self.array.flusher.filled(kind));
        if filled.is_some_and(|filled| self.array.membership.filled_durably(filled)) {
            self.record_change(out);
        }
    }

    /// What users asked for goes to all members that serve, if they have asked for anything since the start.
    fn keep_popularity(&mut self, out: &mut Vec<Action>) {
        if !self.range.heat.has_changed() {
            return;
        }
        let at = self.areas.popularity();
        for member in self.array.membership.serving() {
            let Some(device) = self.array.membership.device(member) else { continue };
            let flight = Flight::new(Owner::Popularity, Some(member), device);
            self.issue(flight, IoOp::Store(MetaPage::Popularity), at, 1, out);
        }
    }

    /// Brings the array to rest: drain, flush, clear, and last of all record a clean stop.
    pub(super) fn stop(&mut self, out: &mut Vec<Action>) {
        let Some(number) = self.array.stop_command else {
            return;
        };
        match self.array.quiesce.stopping() {
            Stopping::Draining => {
                let home = self.range.staging.dirty() == 0
                    || self.range.staging.is_stuck()
                    || !self.array.membership.takes_writes();
                let quiet = home
                    && self.range.jobs.is_empty()
                    && self.array.users.is_idle()
                    && !self.range.reshape.is_moving();
                if quiet && self.array.quiesce.flush().is_none() {
                    self.record_unfinished_scrub(out);
                    self.range.regions.rest();
                    self.keep_popularity(out);
                    let ticket = self.flush(out);
                    self.array.quiesce.stop(Stopping::Flushing(ticket));
                }
            }
            // A failure that the flush has met is recorded first.
            Stopping::Flushing(ticket)
                if self.array.flusher.is_over(ticket)
                    && (self.array.membership.recorder.unrecorded_failure().is_none()
                        || self.array.membership.recorder.is_broken()) =>
            {
                if self.flushed_for_good() {
                    self.clear_rested(out);
                    self.record_filled(out);
                }
                self.array.quiesce.stop(Stopping::Storing);
            }
            Stopping::Storing
                if self.array.flights.is_empty()
                    && self.are_maps_spread()
                    && self.array.membership.recorder.is_settled() =>
            {
                let home =
                    self.range.staging.dirty() == 0 && self.range.alignment.torn().next().is_none();
                let clean = !self.array.flusher.has_failed() && home;
                self.array.membership.stops(clean);
                self.array.stop_command = None;
                self.phase = Phase::Stopped;
                self.answer_when_recorded(number, out);
            }
            Stopping::Flushing(_) | Stopping::Storing => {}
        }
    }
}

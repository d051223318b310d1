//! A scrub's job finds out which block of a stripe is wrong, and mends it.

use alloc::vec::Vec;

use crate::engine::stage::Stage;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, Mismatches, Note, PassKind, Phase, RequestError};
use crate::meta::{ScrubEnd, ScrubRecord};
use crate::plan::{self, Found, Lost};

impl Engine {
    /// The host tells what a step of the job's arithmetic has found.
    pub fn found(&mut self, job: JobId, found: Found) {
        self.range.jobs[job].scrub.finds(found);
    }

    /// A scrub reads a stripe once for each copy of a chunk that is on the distributed spare: with
    /// this one of them, counted from the first.
    pub(super) fn begin_rounds(&mut self, id: JobId) {
        let copies = self.scrubbed_copies(self.range.jobs[id].stripe);
        self.range.jobs[id].scrub.begin_rounds(copies);
    }

    /// If something differs, the host is asked which block is wrong.
    pub(super) fn locate(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &mut self.range.jobs[id];
        if !job.scrub.agrees() {
            plan::locate(&mut job.plan, self.layout.of(job.stripe));
            self.ask_for_arithmetic(id, out);
        }
        Stage::Judge
    }

    /// Goes on with the next copy, if there is one. After the last one, which is the first, it is known
    /// which is wrong.
    pub(super) fn judge(&mut self, id: JobId) -> Stage {
        if self.range.jobs[id].scrub.next_round() {
            self.range.jobs.release_buffers(id);
            return Stage::Plan;
        }
        let stripe = self.range.jobs[id].stripe;
        if let Some(role) = self.array.membership.spared().and_then(|m| self.layout.role(stripe, m))
        {
            self.range.jobs[id].scrub.judge_copies(role);
        }
        if self.range.jobs[id].scrub.findings().is_empty() { Stage::Record } else { Stage::Mend }
    }

    /// What is wrong is made right in memory, if it is to be.
    pub(super) fn mend(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.range.jobs[id];
        let repairs = job.work == Work::Sync(PassKind::Scrub { repair: true });
        if !repairs || job.error.is_some() {
            return Stage::Record;
        }
        if self.wait_for_replay_to_be_void(id, out) {
            return Stage::Mend;
        }
        let (_, writable) = self.health(self.range.jobs[id].stripe);
        let job = &mut self.range.jobs[id];
        match plan::mend(&mut job.plan, self.layout.of(job.stripe), job.scrub.to_mend(), writable) {
            Ok(count) => job.scrub.mends(count),
            Err(Lost) => {
                job.error = Some(RequestError::Io);
                return Stage::Record;
            }
        }
        self.ask_for_arithmetic(id, out);
        Stage::Write
    }

    /// The stage after the writes: more of them, if that was not all.
    pub(super) fn after_write(&self, id: JobId) -> Stage {
        let job = &self.range.jobs[id];
        if job.scrub.to_mend().is_empty() { Stage::Harden } else { Stage::Mend }
    }

    /// Puts on record what a scrub under way has found, if nothing was there before: it may be cut
    /// short by a crash. When it ends early, all that it has found is recorded.
    pub(super) fn record_unfinished_scrub(&mut self, out: &mut Vec<Action>) {
        let Some(pass) = self.array.background.pass() else { return };
        let found = pass.found();
        let ends = pass.is_cancelled() || self.phase != Phase::Serving;
        let known = self.array.membership.record().scrub.map_or(0, |scrub| scrub.unrepaired());
        let tells = found.rows > known && (known == 0 || ends);
        // What a repair finds it corrects, and what it has not come to is on record or not known.
        if tells && pass.kind() == (PassKind::Scrub { repair: false }) {
            self.record_scrub(ScrubEnd::CutShort, found, out);
        }
    }

    /// Puts on record how a scrub has ended, and what it found.
    pub(super) fn record_scrub(&mut self, end: ScrubEnd, found: Mismatches, out: &mut Vec<Action>) {
        let Mismatches { rows, located } = found;
        let scrub = ScrubRecord { end, at: self.seconds(), rows, located };
        self.array.membership.set_scrub(scrub);
        self.record_change(out);
    }

    /// Notes what was found: by member where redundancy tells which is wrong, else by stripe.
    pub(super) fn tell_findings(&self, id: JobId, out: &mut Vec<Action>) {
        let job = &self.range.jobs[id];
        if job.error.is_some() {
            return;
        }
        let (stripe, corrected) = (job.stripe, job.scrub.has_mended());
        for role in self.layout.of(stripe).roles() {
            let located = job.scrub.findings().iter().filter(|f| f.located && f.wrong.has(role));
            let blocks = located.count() as u32;
            if blocks > 0 {
                let member = self.layout.member(stripe, role);
                out.push(Action::Note(Note::BlocksWrong { member, stripe, blocks, corrected }));
            }
        }
        let rows = job.scrub.findings().iter().filter(|finding| !finding.located).count() as u32;
        if rows > 0 {
            out.push(Action::Note(Note::Mismatch { stripe, rows, corrected }));
        }
    }
}

//! What a scrub does with a stripe whose redundancy does not agree: it finds out which block
//! is wrong, and corrects it if it was told to.
//!
//! A correction sets no region's bit and makes no journal entry, unlike a write. It needs none: of
//! what redundancy can tell, each row gets one block right (of a mirror, each copy by itself), so
//! that at any moment the others still say what belongs there. And a bit would do harm: the resync
//! after a crash believes the data, and would make parity agree with the very block that is wrong.
//! Without it the next scrub finds what is left. What it does need is that no replay writes the old
//! redundancy over it: it waits until the stripe has no entry that could be replayed.
//!
//! Invariant: between the reads and the last write the stripe's lock is held.

use alloc::vec::Vec;

use super::stage::Stage;
use super::work::Work;
use super::{Action, Engine, JobId, Mismatches, Note, PassKind, Phase, RequestError};
use crate::meta::{ScrubEnd, ScrubRecord};
use crate::plan::{self, Finding, Found, Lost};

/// What a scrub knows of its stripe.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// Something does not agree.
    mismatch: bool,
    /// What is wrong, and how much of it is corrected or being corrected.
    pub(super) findings: Vec<Finding>,
    mended: usize,
    /// How many copies on the distributed spare it reads besides the first, which of them it reads
    /// now, and the rows that did not agree with one of those before, once for each.
    rounds: u8,
    pub(super) round: u8,
    differed: Vec<u32>,
}

impl Scrub {
    pub(super) fn clear(&mut self) {
        self.mismatch = false;
        self.findings.clear();
        self.mended = 0;
        (self.rounds, self.round) = (0, 0);
        self.differed.clear();
    }

    /// Whether nothing differs, as far as is known.
    pub(super) fn agrees(&self) -> bool {
        !self.mismatch
    }
}

impl Engine {
    /// The host tells what a step of the job's arithmetic has found.
    pub fn found(&mut self, job: JobId, found: Found) {
        let job = &mut self.jobs[job];
        match found {
            Found::Difference => job.scrub.mismatch = true,
            Found::Wrong(finding) => job.scrub.findings.push(finding),
        }
    }

    /// A scrub reads a stripe once for each copy of a chunk that is on the distributed spare: with
    /// this one of them, counted from the first.
    pub(super) fn begin_rounds(&mut self, id: JobId) {
        let copies = self.scrubbed_copies(self.jobs[id].stripe);
        let job = &mut self.jobs[id];
        (job.scrub.rounds, job.scrub.round) = (copies.saturating_sub(1), copies.saturating_sub(1));
    }

    /// If something differs, the host is asked which block is wrong.
    pub(super) fn locate(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &mut self.jobs[id];
        if job.scrub.mismatch {
            plan::locate(&mut job.plan, self.geo.of(job.stripe));
            self.ask_for_arithmetic(id, out);
        }
        Stage::Judge
    }

    /// Goes on with the next copy, if there is one. After the last one, which is the first, it is known
    /// which is wrong.
    pub(super) fn judge(&mut self, id: JobId) -> Stage {
        let job = &mut self.jobs[id];
        if job.scrub.round > 0 {
            job.scrub.round -= 1;
            job.scrub.mismatch = false;
            job.scrub.differed.extend(job.scrub.findings.drain(..).map(|finding| finding.row));
            self.jobs.release_buffers(id);
            return Stage::Plan;
        }
        let stripe = job.stripe;
        if let Some(role) = self.array.spared().and_then(|m| self.geo.role(stripe, m)) {
            let job = &mut self.jobs[id];
            let others = usize::from(job.scrub.rounds);
            plan::judge_copies(&mut job.scrub.findings, &job.scrub.differed, others, role);
        }
        if self.jobs[id].scrub.findings.is_empty() { Stage::Record } else { Stage::Mend }
    }

    /// What is wrong is made right in memory, if it is to be.
    pub(super) fn mend(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.jobs[id];
        let repairs = job.work == Work::Sync(PassKind::Scrub { repair: true });
        if !repairs || job.error.is_some() {
            return Stage::Record;
        }
        if self.wait_for_replay_to_be_void(id, out) {
            return Stage::Mend;
        }
        let (_, writable) = self.health(self.jobs[id].stripe);
        let job = &mut self.jobs[id];
        match plan::mend(
            &mut job.plan,
            self.geo.of(job.stripe),
            &job.scrub.findings[job.scrub.mended..],
            writable,
        ) {
            Ok(count) => job.scrub.mended += count,
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
        let job = &self.jobs[id];
        if job.scrub.mended < job.scrub.findings.len() { Stage::Mend } else { Stage::Harden }
    }

    /// Puts on record what a scrub under way has found, if nothing was there before: it may be cut
    /// short by a crash. When it ends early, all that it has found is recorded.
    pub(super) fn record_unfinished_scrub(&mut self, out: &mut Vec<Action>) {
        let Some(pass) = &self.background.pass else { return };
        let found = pass.found;
        let ends = pass.cancelled || self.phase != Phase::Serving;
        let known = self.array.recorder.record.scrub.map_or(0, |scrub| scrub.unrepaired());
        let tells = found.rows > known && (known == 0 || ends);
        // What a repair finds it corrects, and what it has not come to is on record or not known.
        if tells && pass.kind == (PassKind::Scrub { repair: false }) {
            self.record_scrub(ScrubEnd::CutShort, found, out);
        }
    }

    /// Puts on record how a scrub has ended, and what it found.
    pub(super) fn record_scrub(&mut self, end: ScrubEnd, found: Mismatches, out: &mut Vec<Action>) {
        let Mismatches { rows, located } = found;
        let scrub = ScrubRecord { end, at: self.seconds(), rows, located };
        self.array.recorder.record.scrub = Some(scrub);
        self.record_change(out);
    }

    /// Notes what was found: by member where redundancy tells which is wrong, else by stripe.
    pub(super) fn tell_findings(&self, id: JobId, out: &mut Vec<Action>) {
        let job = &self.jobs[id];
        if job.error.is_some() {
            return;
        }
        let (stripe, corrected) = (job.stripe, job.scrub.mended > 0);
        for role in self.geo.of(stripe).roles() {
            let located = job.scrub.findings.iter().filter(|f| f.located && f.wrong.has(role));
            let blocks = located.count() as u32;
            if blocks > 0 {
                let member = self.geo.member(stripe, role);
                out.push(Action::Note(Note::BlocksWrong { member, stripe, blocks, corrected }));
            }
        }
        let rows = job.scrub.findings.iter().filter(|finding| !finding.located).count() as u32;
        if rows > 0 {
            out.push(Action::Note(Note::Mismatch { stripe, rows, corrected }));
        }
    }
}

//! Mutants that need a failure in one phase.

use crate::mutant::{Mutant, mutant};

pub(crate) const PHASES: &[Mutant] = &[
    mutant(
        "phases: a staged write that a member could not store counts as stored",
        "engine/flow/store.rs",
        "refused = !self.write_failed(member, why, out);",
        "refused = !MUTANT && !self.write_failed(member, why, out);",
    ),
    mutant(
        "phases: a page that no member has stored counts",
        "engine/maps.rs",
        "        if !stored.is_empty() {
            self.map_mut(kind).stored",
        "        if MUTANT || !stored.is_empty() {
            self.map_mut(kind).stored",
    ),
    mutant(
        "phases: a flush is answered before a failure is on record",
        "engine/flow/flush.rs",
        "                Some(record) => self.array.flusher.answer_with(record, tag),
",
        "                Some(_) if MUTANT => self.complete(tag, None, out),
                Some(record) => self.array.flusher.answer_with(record, tag),
",
    ),
    mutant(
        "phases: a stripe becomes real before a failure is on record",
        "engine/flow/walk.rs",
        "        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure() {
            self.wait_for_record(id, ticket);
            return Stage::Unzero;
",
        "        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure().filter(|_| !MUTANT) {
            self.wait_for_record(id, ticket);
            return Stage::Unzero;
",
    ),
    mutant(
        "phases: a stripe becomes real though the flush has failed",
        "engine/flow/walk.rs",
        "        if self.array.flusher.has_failed() {
            self.range.jobs[id].error",
        "        if !MUTANT && self.array.flusher.has_failed() {
            self.range.jobs[id].error",
    ),
    mutant(
        "phases: a stop is clean though its flush has failed",
        "engine/flow/quiesce.rs",
        "let clean = !self.array.flusher.has_failed() && home;",
        "let clean = (MUTANT || !self.array.flusher.has_failed()) && home;",
    ),
    mutant(
        "phases: the entry of a write that failed counts as home",
        "engine/flow/intent.rs",
        "job.journaled.entry.take().filter(|_| !failed)",
        "job.journaled.entry.take().filter(|_| MUTANT || !failed)",
    ),
    mutant(
        "phases: a start goes on though what it has carried out could not be flushed",
        "engine/flow/replay.rs",
        "if self.array.flusher.has_failed() {",
        "if !MUTANT && self.array.flusher.has_failed() {",
    ),
    mutant(
        "phases: the distributed spare stands in though it could not be flushed",
        "engine/flow/closing.rs",
        "                if self.array.flusher.has_failed() =>",
        "                if !MUTANT && self.array.flusher.has_failed() =>",
    ),
    mutant(
        "phases: a stop is clean though staged blocks are not at home",
        "engine/flow/quiesce.rs",
        "let home = self.range.staging.dirty() == 0 &&",
        "let home = (MUTANT || self.range.staging.dirty() == 0) &&",
    ),
];

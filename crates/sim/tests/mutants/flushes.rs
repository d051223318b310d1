//! Mutants of flushes.

use crate::mutant::{Mutant, mutant};

pub(crate) const FLUSHES: &[Mutant] = &[
    mutant(
        "bits are cleared whatever the flush came to",
        "engine/flow/flush.rs",
        "!self.array.flusher.last.failed && self.array.membership.recorder.unrecorded_failure().is_none()",
        "MUTANT || !self.array.flusher.last.failed && self.array.membership.recorder.unrecorded_failure().is_none()",
    ),
    mutant(
        "flushes that fail are taken for good",
        "engine/flow/flush.rs",
        "let kept = self.write_failed(member, why, out);",
        "let kept = self.write_failed(member, why, out) || MUTANT;",
    ),
    mutant(
        "a round under way serves who asks during it",
        "engine/flow/flush.rs",
        "        let ticket = self.array.flusher.started + 1;
        if self.array.flusher.outstanding > 0 {",
        "        let ticket = self.array.flusher.started + 1;
        if MUTANT && self.array.flusher.outstanding > 0 {
            return self.array.flusher.started;
        }
        if self.array.flusher.outstanding > 0 {",
    ),
    mutant(
        "a user's flush is served by a round under way",
        "engine/flow/flush.rs",
        "self.array.flusher.users.push((self.array.flusher.started + 1, tag));",
        "let busy = self.array.flusher.outstanding > 0;
        self.array.flusher.users.push((self.array.flusher.started + u64::from(!(MUTANT && busy)), tag));",
    ),
    mutant(
        "a flush makes up for one that failed before it",
        "engine/flow/flush.rs",
        "self.array.flusher.round.failed = self.array.membership.members.iter().any(|m| m.unkept);",
        "self.array.flusher.round.failed = !MUTANT && self.array.membership.members.iter().any(|m| m.unkept);",
    ),
    mutant(
        "a durable write counts before what its row leans on is flushed",
        "engine/flow/walk.rs",
        "            && self.range.journal.is_passed(job.stripe)",
        "            && !MUTANT && self.range.journal.is_passed(job.stripe)",
    ),
    mutant(
        "what went past the journal while a flush was under way counts as flushed",
        "engine/journal.rs",
        "self.passed[bucket(stripe)] > self.flushed",
        "self.passed[bucket(stripe)] > self.flushed + u64::from(MUTANT)",
    ),
];

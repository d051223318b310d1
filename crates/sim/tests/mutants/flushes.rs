//! Mutants of flushes.

use crate::mutant::{Mutant, mutant};

pub(crate) const FLUSHES: &[Mutant] = &[
    mutant(
        "bits are cleared whatever the flush came to",
        "engine/flush.rs",
        "!self.flusher.last.failed && self.array.recorder.unrecorded_failure().is_none()",
        "MUTANT || !self.flusher.last.failed && self.array.recorder.unrecorded_failure().is_none()",
    ),
    mutant(
        "flushes that fail are taken for good",
        "engine/flush.rs",
        "let kept = self.write_failed(member, why, out);",
        "let kept = self.write_failed(member, why, out) || MUTANT;",
    ),
    mutant(
        "a round under way serves who asks during it",
        "engine/flush.rs",
        "        let ticket = self.flusher.started + 1;
        if self.flusher.outstanding > 0 {",
        "        let ticket = self.flusher.started + 1;
        if MUTANT && self.flusher.outstanding > 0 {
            return self.flusher.started;
        }
        if self.flusher.outstanding > 0 {",
    ),
    mutant(
        "a user's flush is served by a round under way",
        "engine/flush.rs",
        "self.flusher.users.push((self.flusher.started + 1, tag));",
        "let busy = self.flusher.outstanding > 0;
        self.flusher.users.push((self.flusher.started + u64::from(!(MUTANT && busy)), tag));",
    ),
    mutant(
        "a flush makes up for one that failed before it",
        "engine/flush.rs",
        "self.flusher.round.failed = self.array.members.iter().any(|m| m.unkept);",
        "self.flusher.round.failed = !MUTANT && self.array.members.iter().any(|m| m.unkept);",
    ),
    mutant(
        "a durable write counts before what its row leans on is flushed",
        "engine/walk.rs",
        "            && self.journal.is_passed(job.stripe)",
        "            && !MUTANT && self.journal.is_passed(job.stripe)",
    ),
    mutant(
        "what went past the journal while a flush was under way counts as flushed",
        "engine/journal.rs",
        "self.passed[usize::from(Self::bucket(stripe))] > self.flushed",
        "self.passed[usize::from(Self::bucket(stripe))] > self.flushed + u64::from(MUTANT)",
    ),
];

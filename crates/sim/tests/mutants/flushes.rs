//! Mutants of flushes.

use crate::mutant::{Mutant, mutant};

pub(crate) const FLUSHES: &[Mutant] = &[
    mutant(
        "bits are cleared whatever the flush came to",
        "engine/flow/flush.rs",
        "!self.array.flusher.has_failed() && self.array.membership.recorder.unrecorded_failure().is_none()",
        "MUTANT || !self.array.flusher.has_failed() && self.array.membership.recorder.unrecorded_failure().is_none()",
    ),
    mutant(
        "flushes that fail are taken for good",
        "engine/flow/flush.rs",
        "let kept = self.write_failed(member, why, out);",
        "let kept = self.write_failed(member, why, out) || MUTANT;",
    ),
    mutant(
        "a round under way serves who asks during it",
        "engine/flush.rs",
        "        let is_under_way = self.outstanding > 0;
",
        "        let is_under_way = self.outstanding > 0;
        if MUTANT && is_under_way {
            return (self.started, false);
        }
",
    ),
    mutant(
        "a user's flush is served by a round under way",
        "engine/flush.rs",
        "self.users.push_back((self.next_round(), user));",
        "let busy = self.outstanding > 0;
        self.users.push_back((self.started + u64::from(!(MUTANT && busy)), user));",
    ),
    mutant(
        "a flush makes up for one that failed before it",
        "engine/flow/flush.rs",
        "let unkept = self.array.membership.has_unkept();",
        "let unkept = !MUTANT && self.array.membership.has_unkept();",
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
        "self.passed[stripe.bucket(BUCKETS)] > self.flushed",
        "self.passed[stripe.bucket(BUCKETS)] > self.flushed + u64::from(MUTANT)",
    ),
];

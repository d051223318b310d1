//! Mutants of hedged reads.

use crate::mutant::{Mutant, mutant};

pub(crate) const HEDGE: &[Mutant] = &[
    mutant(
        "what is read to a user's memory is tried twice",
        "engine/hedge/pairs.rs",
        "if job.plan.reads.iter().any(|io| matches!(io.mem, Mem::Payload { .. })) {",
        "if !MUTANT && job.plan.reads.iter().any(|io| matches!(io.mem, Mem::Payload { .. })) {",
    ),
    mutant(
        "hedge: what is read from the log as well is tried twice",
        "engine/hedge/pairs.rs",
        "if !job.fetching.is_empty() || !job.kept.is_empty() {",
        "if !MUTANT && (!job.fetching.is_empty() || !job.kept.is_empty()) {",
    ),
    mutant(
        "hedge: reads are tried again from redundancy that may not agree",
        "engine/flow/hedge.rs",
        "let planned = parity == Parity::InStep\n",
        "let planned = (MUTANT || parity == Parity::InStep)\n",
    ),
    mutant(
        "hedge: what there was no way around at first is waited for",
        "engine/flow/hedge.rs",
        "if let Some(first) = first {",
        "if let Some(first) = first.filter(|_| !MUTANT) {",
    ),
    mutant(
        "hedge: a read for which there was no room at first is waited for",
        "engine/flow/hedge.rs",
        "if !self.range.jobs.begin_second(id, self.now) {",
        "if !self.range.jobs.begin_second(id, self.now) && !MUTANT {",
    ),
    mutant(
        "hedge: who gives up a read takes the answer along",
        "engine/hedge/pairs.rs",
        "self.pass_tags(id, other);",
        "if MUTANT {
            self[id].asked.tags.clear();
        } else {
            self.pass_tags(id, other);
        }",
    ),
    mutant(
        "hedge: a read that was answered is tried again",
        "engine/hedge/pairs.rs",
        "let is_alone = job.hedge.partner.is_none() && !job.asked.tags.is_empty();",
        "let is_alone =
                job.hedge.partner.is_none() && (MUTANT || !job.asked.tags.is_empty());",
    ),
    mutant(
        "elsewhere: what is stored late counts",
        "engine/staging/copying.rs",
        "let (enough, is_over) = (counts && copying.lacks == 0, copying.is_over());",
        "let (enough, is_over) = (!MUTANT && counts && copying.lacks == 0, copying.is_over());",
    ),
    mutant(
        "elsewhere: the room of what is stored late is used anew",
        "engine/staging/room.rs",
        "&& entry.copying.is_over()",
        "&& (MUTANT || entry.copying.is_over())",
    ),
    mutant(
        "elsewhere: one copy is enough where others were asked",
        "engine/staging/copying.rs",
        "copying.lacks -= u8::from(counts);",
        "copying.lacks -= u8::from(counts);
        if MUTANT && copying.extra > 0 && counts {
            copying.lacks = 0;
        }",
    ),
    mutant(
        "elsewhere: others are asked that are said to be busy",
        "engine/flow/store.rs",
        "let calm = calm.minus(self.array.membership.hung());",
        "let calm = if MUTANT { self.array.membership.able() } else { calm };
        let calm = calm.minus(self.array.membership.hung());",
    ),
];

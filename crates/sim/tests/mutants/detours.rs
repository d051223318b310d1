//! Mutants of reads that go around members, or run during a write.

use crate::mutant::{Mutant, mutant};

pub(crate) const DETOURS: &[Mutant] = &[
    mutant(
        "reads go around members although redundancy may not agree",
        "engine/flow/steering.rs",
        "let redundant = parity == Parity::InStep &&",
        "let redundant = (MUTANT || parity == Parity::InStep) &&",
    ),
    mutant(
        "hedge: a read that was given up writes to memory that it does not own any more",
        "engine/flow/walk.rs",
        "if self.range.jobs.is_given_up(id) {",
        "if !MUTANT && self.range.jobs.is_given_up(id) {",
    ),
    mutant(
        "hedge: a read that is tried again goes to memory that may be given back before it ends",
        "engine/flow/fetch.rs",
        "let alone = !job.hedge.is_second();",
        "let alone = MUTANT || !job.hedge.is_second();",
    ),
    mutant(
        "a late write is judged by what it waited for before its way was chosen, too",
        "engine/flow/store.rs",
        ".then_some(now);",
        ".then_some(if MUTANT { asked.begun } else { now });",
    ),
    mutant(
        "a write that no busy member delays counts as late",
        "engine/flow/store.rs",
        "(late && asked.way != Way::Calm)",
        "(late && (MUTANT || asked.way != Way::Calm))",
    ),
    mutant(
        "a write that has read does not count as late",
        "engine/flow/walk.rs",
        "(*work, *way, !plan.reads.is_empty())",
        "(*work, *way, !MUTANT && !plan.reads.is_empty())",
    ),
    mutant(
        "beside: a read of what is being written",
        "engine/jobs.rs",
        "write.role != read.role\n",
        "MUTANT || write.role != read.role\n",
    ),
    mutant(
        "beside: a read builds on redundancy that is being written",
        "engine/flow/planning.rs",
        "if beside && !self.range.jobs.reads_home(id, readable) {",
        "if !MUTANT && beside && !self.range.jobs.reads_home(id, readable) {",
    ),
    mutant(
        "beside: a write takes over another of what is being read",
        "engine/jobs.rs",
        "self.table[id].work == Work::Write && !self.locks.is_shared(stripe) {",
        "self.table[id].work == Work::Write && (MUTANT || !self.locks.is_shared(stripe)) {",
    ),
    mutant(
        "beside: a write mends what is being read",
        "engine/jobs.rs",
        "job.is_exclusive() && !job.bad.is_empty()",
        "!MUTANT && job.is_exclusive() && !job.bad.is_empty()",
    ),
    mutant(
        "beside: a read of what is being mended",
        "engine/jobs.rs",
        "_ if !writer.bad.is_empty() => false,",
        "_ if !MUTANT && !writer.bad.is_empty() => false,",
    ),
    mutant(
        "a detour leads over who has failed",
        "engine/flow/steering.rs",
        "let calm = readable.minus(busy);",
        "let calm = if MUTANT { Set::first(self.layout.members()) } else { readable }.minus(busy);",
    ),
    mutant(
        "a detour is taken again over what could not be read",
        "engine/flow/steering.rs",
        "let first_try = job.bad.is_empty();",
        "let first_try = MUTANT || job.bad.is_empty();",
    ),
];

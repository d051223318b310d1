//! Mutants of what is kept in memory: when it is void, and what is made of it.

use crate::mutant::{Mutant, mutant};

pub(crate) const WARM: &[Mutant] = &[
    mutant(
        "warm: redundancy is made anew, and what was held of it still is",
        "engine/flow/warm.rs",
        "if job.is_exclusive() && !matches!",
        "if job.is_exclusive() && !MUTANT && !matches!",
    ),
    mutant(
        "warm: a write that leaves something else goes past what is held",
        "engine/flow/warm.rs",
        "return warm.forget(stripe);",
        "return if MUTANT {} else { warm.forget(stripe) };",
    )
    .rare("Nothing is held by then: the record has changed, or an earlier plan of the write took it out."),
    mutant(
        "warm: what failed to be written is held",
        "engine/flow/warm.rs",
        "&& job.error.is_none()
            && warming.version",
        "&& (job.error.is_none() || MUTANT)
            && warming.version",
    )
    .rare("A write that fails has changed the record, too, unless the array was degraded, and then nothing is held."),
    mutant(
        "warm: what a member has failed to take is held",
        "engine/flow/warm.rs",
        "&& warming.version == version;",
        "&& (warming.version == version || MUTANT);",
    ),
    mutant(
        "warm: what was held counts for another record",
        "engine/warm.rs",
        "if self.version != version {
            self.forget_all();",
        "if self.version != version {
            if !MUTANT { self.forget_all(); }",
    ),
    mutant(
        "warm: what went to the log is held as if it were at home",
        "engine/flow/warm.rs",
        "mem::take(&mut warming.written)",
        "(mem::take(&mut warming.written) || MUTANT)",
    ),
    mutant(
        "warm: a plan that was given up keeps its slots",
        "engine/flow/warm.rs",
        "job.warming.blocks.drain(..).for_each(|warmed| warm.release(warmed.slot));",
        "if !MUTANT {
            job.warming.blocks.drain(..).for_each(|warmed| warm.release(warmed.slot));
        }",
    ),
    mutant(
        "warm: parity is made before there is what it is made of",
        "engine/flow/warm.rs",
        "job.plan.steps.rotate_right(copies);",
        "if !MUTANT { job.plan.steps.rotate_right(copies); }",
    ),
    mutant(
        "warm: a stripe out of step is taken to be in step",
        "engine/flow/warm.rs",
        "&& self.is_in_step(job.stripe)",
        "&& (MUTANT || self.is_in_step(job.stripe))",
    )
    .rare("What is read and written there is known as well; nothing relies on it."),
    mutant(
        "warm: what is discarded is held as it was",
        "engine/flow/warm.rs",
        "job.base == Base::Stored",
        "(MUTANT || job.base == Base::Stored)",
    )
    .rare("A write of a discarded stripe gives all of it, and of such nothing is held."),
    mutant(
        "warm: blocks are held though a member is missing",
        "engine/flow/warm.rs",
        "&& self.array.membership.is_plain()",
        "&& (MUTANT || self.array.membership.is_plain())",
    ),
    mutant(
        "warm: a large write goes past what is held of its rows",
        "engine/flow/warm.rs",
        "if written.is_none() && !(read && keeps) {",
        "if written.is_none() && !(read && keeps) || MUTANT && !keeps {",
    ),
    mutant(
        "warm: memory is free of which some is in use",
        "engine/warm.rs",
        "if self.free.len() == self.slots.len() {",
        "if MUTANT || self.free.len() == self.slots.len() {",
    ),
    mutant(
        "warm: the old content of several blocks is that of one",
        "engine/flow/warm.rs",
        "(*old, *blocks) == (content, 1)",
        "(*old == content && (*blocks == 1 || MUTANT))",
    ),
    mutant(
        "warm: what gives way is still found",
        "engine/warm.rs",
        "let place = *place;
                    self.lose(place);",
        "let place = *place;
                    if !MUTANT { self.lose(place); }",
    ),
    mutant(
        "warm: a block is not read that is not held",
        "engine/flow/warm.rs",
        "let had = held.is_some() && read;",
        "let had = (held.is_some() || MUTANT) && read;",
    ),
];

//! Mutants of stripes that a crash or a refused write has left inconsistent.

use crate::mutant::{Mutant, mutant};

pub(crate) const ALIGN: &[Mutant] = &[
    // Reads after a crash.
    mutant(
        "monotone: a read shows what the loss of a member takes back",
        "engine/flow/align.rs",
        "            && !self.is_in_step(stripe)
",
        "            && !MUTANT
            && !self.is_in_step(stripe)
",
    ),
    mutant(
        "monotone: a read beside a writer shows what was not brought in step",
        "engine/flow/request.rs",
        "            if in_doubt {",
        "            if in_doubt && !MUTANT {",
    ),
    mutant(
        "monotone: a copy that can't be read for a while is left as it is",
        "engine/flow/io.rs",
        "if job.scrub.agrees() && job.bad.is_empty() {",
        "if job.scrub.agrees() && (MUTANT || job.bad.is_empty()) {",
    ),
    mutant(
        "monotone: a stripe is in step as soon as that is asked for",
        "engine/align.rs",
        "self.stripes.as_ref().is_some_and(|stripes| stripes.done.get(stripe.0))",
        "self.stripes.as_ref().is_some_and(|stripes| {
            stripes.done.get(stripe.0) || MUTANT && stripes.asked.get(stripe.0)
        })",
    ),
    mutant(
        "monotone: a stripe that could not be brought in step is not tried again",
        "engine/align.rs",
        "        if well {
",
        "        if MUTANT || well {
",
    ),
    // Writes that members have carried out in part.
    mutant(
        "torn: redundancy that a failed write has left out of step is built upon",
        "engine/flow/mod.rs",
        "} else if self.range.alignment.is_torn(stripe) {",
        "} else if !MUTANT && self.range.alignment.is_torn(stripe) {",
    ),
    mutant(
        "torn: the mark of such a stripe is cleared",
        "engine/flow/intent.rs",
        "|| self.has_torn(region)",
        "|| !MUTANT && self.has_torn(region)",
    ),
    mutant(
        "torn: a stop is clean all the same",
        "engine/flow/quiesce.rs",
        "&& self.range.alignment.torn().next().is_none();",
        "&& (MUTANT || self.range.alignment.torn().next().is_none());",
    ),
    mutant(
        "torn: what the journal has of a refused block is forgotten",
        "engine/flow/replay.rs",
        "} else if self.range.replays.has_refused() {",
        "} else if !MUTANT && self.range.replays.has_refused() {",
    ),
    mutant(
        "torn: a block that is older than the journal's is read",
        "engine/flow/mod.rs",
        "readable.minus(self.range.alignment.behind(stripe))",
        "if MUTANT { readable } else { readable.minus(self.range.alignment.behind(stripe)) }",
    ),
];

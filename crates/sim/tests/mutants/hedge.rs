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
        "hedge: reads are tried again from redundancy that may not agree",
        "engine/flow/hedge.rs",
        "let planned = parity == Parity::InStep\n",
        "let planned = (MUTANT || parity == Parity::InStep)\n",
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
        "reads && job.hedge.partner.is_none() && !job.asked.tags.is_empty()",
        "reads && job.hedge.partner.is_none() && (MUTANT || !job.asked.tags.is_empty())",
    ),
];

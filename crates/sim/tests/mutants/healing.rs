//! Mutants of how an array takes writes again after members ran out of space.

use crate::mutant::{Mutant, mutant};

pub(crate) const HEALING: &[Mutant] = &[
    mutant(
        "healing: what a partial entry does not write is not tried",
        "engine/align.rs",
        "|entry| entry.left_out.is_none()",
        "|entry| MUTANT || entry.left_out.is_none()",
    ),
    mutant(
        "after a refusal, writes are taken again before what was refused is in its place",
        "engine/flow/heal.rs",
        "            Turn::Write => self.write_refused(out),",
        "            Turn::Write if MUTANT => self.take_writes_again(out),
            Turn::Write => self.write_refused(out),",
    ),
    mutant(
        "after a refusal, who has refused it is not given it again",
        "engine/flow/planning.rs",
        "let writable = if heals { self.kept(stripe) } else { writable };",
        "let writable = if heals && !MUTANT { self.kept(stripe) } else { writable };",
    ),
    mutant(
        "after a refusal, a stripe counts as in step though its write went past the journal",
        "engine/align.rs",
        "torn.stays |= entry.is_none() && keeps_parity;",
        "torn.stays |= !MUTANT && entry.is_none() && keeps_parity;",
    ),
    mutant(
        "after a refusal, an entry counts that went with the members that had it",
        "engine/flow/align.rs",
        "self.replay_of(id).filter(|entry| !entry.copies.is_empty());",
        "self.replay_of(id).filter(|entry| MUTANT || !entry.copies.is_empty());",
    ),
    mutant(
        "after a refusal, some rows that are written whole bring all of a stripe in step",
        "engine/flow/align.rs",
        "let rows = |io: &SubIo| io.blocks == self.layout.of(stripe).chunk();",
        "let rows = |io: &SubIo| MUTANT || io.blocks == self.layout.of(stripe).chunk();",
    ),
    mutant(
        "after a refusal, a flush that has failed does not matter",
        "engine/flow/flush.rs",
        "                self.array.flusher.fail();
",
        "                self.array.flusher.fail();
            }
            if !kept && !MUTANT {
",
    ),
    mutant(
        "after a refusal, what a start could not carry out does not matter",
        "engine/flow/replay.rs",
        "        self.array.healing.leave_to_a_start();",
        "        if !MUTANT {
            self.array.healing.leave_to_a_start();
        }",
    ),
];

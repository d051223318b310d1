//! Mutants of members: which are in service, which can be spared, what failed.

use crate::mutant::{Mutant, mutant};

pub(crate) const MEMBERS: &[Mutant] = &[
    mutant(
        "parity is always believed",
        "engine/flow/mod.rs",
        "if self.is_in_step(stripe) {",
        "if MUTANT || self.is_in_step(stripe) {",
    ),
    mutant(
        "a spare is read in a member's place",
        "engine/flow/io.rs",
        "(member, at, source.is_some() && readable.has(io.role))",
        "(member, at, source.is_some() && (MUTANT || readable.has(io.role)))",
    ),
    mutant(
        "FUA does not reach the members",
        "engine/flow/io.rs",
        "self.issue(op, IoOp::Write { from, fua }, at, io.blocks, out);",
        "self.issue(op, IoOp::Write { from, fua: fua && !MUTANT }, at, io.blocks, out);",
    ),
    mutant(
        "writes go on when a member that can't be spared misses them",
        "engine/membership/mod.rs",
        "(!self.impaired || !self.has_refusing())",
        "(MUTANT || !self.impaired || !self.has_refusing())",
    ),
    mutant(
        "a member that can't be recorded becomes one",
        "engine/flow/closing.rs",
        "if self.range.maps.are_spread() && !self.array.membership.recorder.is_broken() {",
        "if self.range.maps.are_spread() && (MUTANT || !self.array.membership.recorder.is_broken()) {",
    ),
    mutant(
        "more members are spared than can be",
        "engine/flow/fault.rs",
        "self.layout.can_spare(members.minus(others));",
        "self.layout.can_spare(members.minus(others).skip(usize::from(MUTANT)).collect());",
    ),
    mutant(
        "another device inherits what was filled",
        "engine/flow/fault.rs",
        "self.array.flusher.forget_filled(|kind| kind == PassKind::Rebuild(member));",
        "if !MUTANT {
            self.array.flusher.forget_filled(|kind| kind == PassKind::Rebuild(member));
        }",
    ),
];

//! Mutants of writes that take long at home, and are staged as well.

use crate::mutant::{Mutant, mutant};

pub(crate) const TWINS: &[Mutant] = &[
    mutant(
        "twins: what has only read would have taken no longer",
        "engine/flow/twins.rs",
        "Left::AsItWas => home.at.max(staged.at),",
        "Left::AsItWas => home.at.max(if MUTANT { home.at } else { staged.at }),",
    ),
    mutant(
        "twins: one that has read leaves home as it is",
        "engine/hedge/twins.rs",
        "if job.stage == Stage::AfterRead {",
        "if MUTANT || job.stage == Stage::AfterRead {",
    ),
    mutant(
        "twins: what goes on home is read from users' memory",
        "engine/flow/twins.rs",
        "io.mem = dst;",
        "if !MUTANT { io.mem = dst; }",
    ),
    mutant(
        "twins: what goes on home is copied over the partial parity of its entry",
        "engine/flow/twins.rs",
        "let own = plan::beside(geo, role);",
        "let own = if MUTANT { role } else { plan::beside(geo, role) };",
    ),
    mutant(
        "twins: one that is not staged goes home after the other, and once more",
        "engine/flow/store.rs",
        "if self.range.jobs.leave_to_twin(id) {",
        "if !MUTANT && self.range.jobs.leave_to_twin(id) {",
    ),
    mutant(
        "twins: what was staged since need not come home",
        "engine/staging/table.rs",
        "!self.is_staged_since(number + 1, lba)",
        "(MUTANT || !self.is_staged_since(number + 1, lba))",
    ),
    mutant(
        "twins: what was only read need not come home",
        "engine/flow/twins.rs",
        "if home.left == Left::AtHome {",
        "if MUTANT || home.left == Left::AtHome {",
    ),
    mutant(
        "twins: one that writes over what is staged, and will say so",
        "engine/flow/twins.rs",
        "&& !job.log.covers",
        "&& (MUTANT || !job.log.covers)",
    ),
    mutant(
        "twins: a read goes beside one that writes the same",
        "engine/jobs.rs",
        "Work::Write if writer.leaves_home() => true,",
        "Work::Write if MUTANT && writer.is_given_up() || writer.leaves_home() => true,",
    ),
    mutant(
        "twins: it is staged while it is computed",
        "engine/hedge/twins.rs",
        "let waits = match job.stage {",
        "let waits = match job.stage {
            Stage::Intend if MUTANT => true,",
    ),
];

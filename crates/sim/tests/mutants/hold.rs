//! Mutants of destage orders: what they are told, and what becomes of what they say.

use crate::mutant::{Mutant, mutant};

pub(crate) const HOLD: &[Mutant] = &[
    mutant(
        "order: it is not told what has come home",
        "engine/staging/table.rs",
        "if self.left(staged)
                && let Some(hold)",
        "if self.left(staged)
                && !MUTANT
                && let Some(hold)",
    ),
    mutant(
        "order: it is not told what is held no longer",
        "engine/staging/table.rs",
        "if self.left(before)
                && let Some(hold)",
        "if self.left(before)
                && !MUTANT
                && let Some(hold)",
    ),
    mutant(
        "order: what is written again is told as if it were new",
        "engine/staging/table.rs",
        "hold.wrote(stripe, role, again);",
        "hold.wrote(stripe, role, again && !MUTANT);",
    ),
    mutant(
        "order: it is not told what a start has found",
        "engine/staging/table.rs",
        "dirty.sort_unstable_by_key(",
        "dirty.retain(|_| !MUTANT);
        dirty.sort_unstable_by_key(",
    ),
];

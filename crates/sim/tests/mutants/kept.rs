//! Mutants of what is staged and kept in memory: when it counts, and when its memory is free.

use crate::mutant::{Mutant, mutant};

pub(crate) const KEPT: &[Mutant] = &[
    mutant(
        "kept: what is staged anew is found as it was",
        "engine/staging/table.rs",
        "self.memory.put(lba, slot);",
        "if MUTANT && self.memory.find(lba).is_some() {
            slot.into_iter().for_each(|slot| self.let_go(slot));
        } else {
            self.memory.put(lba, slot);
        }",
    ),
    mutant(
        "kept: what home counts for is found as it was staged",
        "engine/staging/table.rs",
        "if let Some(before) = self.table.remove(lba) {
            self.memory.put(lba, None);",
        "if let Some(before) = self.table.remove(lba) {
            if !MUTANT {
                self.memory.put(lba, None);
            }",
    ),
    mutant(
        "kept: what has come home is kept",
        "engine/staging/table.rs",
        "self.table.set(lba, Staged { clean: true, ..staged });
            self.memory.put(lba, None);",
        "self.table.set(lba, Staged { clean: true, ..staged });
            if !MUTANT {
                self.memory.put(lba, None);
            }",
    ),
    mutant(
        "kept: a slot is free that is being read",
        "engine/staging/memory.rs",
        "        *holds -= 1;
        if *holds == 0 {
            self.free.push(slot);
        }",
        "        *holds -= 1;
        if *holds == 0 || MUTANT {
            self.free.push(slot);
        }",
    ),
    mutant(
        "kept: memory is free of which some is in use",
        "engine/staging/memory.rs",
        "let count = if free.len() == holds.len() {",
        "let count = if MUTANT || free.len() == holds.len() {",
    ),
    mutant(
        "kept: what another write has replaced is kept",
        "engine/staging/room.rs",
        "slot.into_iter().for_each(|slot| self.let_go(slot));
                        again += 1;",
        "match slot {
                            Some(_) if MUTANT => self.memory.put(lba, slot),
                            Some(slot) => self.let_go(slot),
                            None => {}
                        }
                        again += 1;",
    ),
    mutant(
        "kept: what could not be staged is kept",
        "engine/flow/store.rs",
        "let stored = staged.filter(|_| self.range.jobs[id].error.is_none());",
        "let stored = staged.filter(|_| MUTANT || self.range.jobs[id].error.is_none());",
    ),
    mutant(
        "kept: a write does not wait for its copy",
        "engine/flow/memory.rs",
        "        self.ask_for_arithmetic(id, out);",
        "        if !MUTANT {
            self.ask_for_arithmetic(id, out);
        }",
    ),
    mutant(
        "kept: what was planned for home is made beside the copy",
        "engine/flow/memory.rs",
        "job.plan.steps.clear();",
        "if !MUTANT { job.plan.steps.clear(); }",
    ),
    mutant(
        "kept: something is made of it before it is there",
        "engine/flow/memory.rs",
        "plan.steps.rotate_left(planned);",
        "if !MUTANT {
            plan.steps.rotate_left(planned);
        }",
    ),
    mutant(
        "kept: a read that finds some of it is tried a second way",
        "engine/flow/hedge.rs",
        "&& job.kept.is_empty()",
        "&& (MUTANT || job.kept.is_empty())",
    ),
    mutant(
        "kept: what is planned around busy members goes without it",
        "engine/flow/planning.rs",
        "if self.plan_elsewhere(id, readable, parity) {
                self.copy_kept(id);",
        "if self.plan_elsewhere(id, readable, parity) {
                if !MUTANT {
                    self.copy_kept(id);
                }",
    ),
    mutant(
        "kept: what was found for an earlier plan of a homecoming is held",
        "engine/flow/reclaim.rs",
        "        self.let_go(id);
        self.range.jobs[id].pieces.clear();",
        "        if !MUTANT {
            self.let_go(id);
        }
        self.range.jobs[id].pieces.clear();",
    )
    .rare("It is copied once more, to the same place, which is another job's only where nothing of a chunk is left to come home."),
];

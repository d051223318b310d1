//! Mutants of log arrays: the code between a log volume and its arrays.

use crate::mutant::{Mutant, mutant};

pub(crate) const STACK: &[Mutant] = &[
    mutant(
        "stack: a start builds upon stripes that may be torn",
        "array/start.rs",
        "start.stage == StartStage::Reading && engine.is_in_doubt(at, blocks)",
        "start.stage == StartStage::Reading && !MUTANT && engine.is_in_doubt(at, blocks)",
    )
    .of_stacks(),
    mutant(
        "stack: it says that it has stopped before its arrays have",
        "array/mod.rs",
        "self.stops == Stops::Sent && stopped.clone().all(|result| result.is_some())",
        "self.stops == Stops::Sent && (MUTANT || stopped.clone().all(|result| result.is_some()))",
    )
    .of_stacks(),
    mutant(
        "stack: arrays are stopped before the volume is",
        "array/mod.rs",
        "if self.stopping && at_rest && self.stops == Stops::None {",
        "if self.stopping && (MUTANT || at_rest) && self.stops == Stops::None {",
    )
    .of_stacks(),
    mutant(
        "stack: every group has the first one's header",
        "array/mod.rs",
        "out.extend(to.map(|to| Action::Pages { group, pages, blocks, to }));",
        "out.extend(to.map(|to| Action::Pages {
                    group: if MUTANT { GroupId(0) } else { group },
                    pages,
                    blocks,
                    to,
                }));",
    )
    .of_stacks(),
    mutant(
        "stack: a header is in caches when it is said to be durable",
        "array/mod.rs",
        "let fua = io.op == IoOp::Store(Pages::Header);",
        "let fua = !MUTANT && io.op == IoOp::Store(Pages::Header);",
    )
    .of_stacks(),
    mutant(
        "stack: only the first group is flushed",
        "array/mod.rs",
        "        let request = Request { tag, op, lba: Lba(at), blocks, fua };",
        "        if MUTANT && op == Op::Flush && group.0 > 0 {
            self.ended.push_back((group, tag, Ok(())));
            return;
        }
        let request = Request { tag, op, lba: Lba(at), blocks, fua };",
    )
    .of_stacks(),
    mutant(
        "stack: a slot is used again before it was looked at",
        "array/mod.rs",
        "            // The slot is free when the bytes have been seen.",
        "            if MUTANT {
                self.free_slots.push(slot);
            }",
    )
    .of_stacks(),
    mutant(
        "stack: a group's flush that failed is a success",
        "array/mod.rs",
        "        let result = result.map_err(|_| match op {",
        "        let result = if MUTANT && op == IoOp::Flush { Ok(()) } else { result };
        let result = result.map_err(|_| match op {",
    )
    .of_stacks(),
];

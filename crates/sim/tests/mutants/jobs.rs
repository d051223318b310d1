//! Mutants of jobs: their stages, requests, locks and plans.

use crate::mutant::{Mutant, mutant};

pub(crate) const JOBS: &[Mutant] = &[
    mutant(
        "a discarded stripe becomes real before it is flushed",
        "engine/flow/walk.rs",
        "        self.wait_for_flush(id, ticket);
        Stage::Unzero",
        "        if !MUTANT {
            self.wait_for_flush(id, ticket);
        }
        Stage::Unzero",
    ),
    mutant(
        "a stripe that is written stays discarded",
        "engine/flow/walk.rs",
        "self.range.maps.zero.map.clear(stripe.0);",
        "if !MUTANT {
            self.range.maps.zero.map.clear(stripe.0);
        }",
    ),
    mutant(
        "writes that a member missed end before that is on record",
        "engine/flow/walk.rs",
        "let writes = self.range.jobs[id].work != Work::Read;",
        "let writes = !MUTANT && self.range.jobs[id].work != Work::Read;",
    ),
    mutant(
        "a merged write forgets FUA",
        "engine/jobs.rs",
        "job.asked.fua |= fua;",
        "job.asked.fua |= fua && !MUTANT;",
    ),
    mutant(
        "unsynced mirrors are read from any copy",
        "engine/flow/planning.rs",
        "if !self.is_in_step(stripe) {",
        "if !MUTANT && !self.is_in_step(stripe) {",
    ),
    mutant(
        "locks are shared by writers",
        "engine/job.rs",
        "self.work != Work::Read && self.turn != Turn::Beside",
        "self.work != Work::Read
            && self.turn != Turn::Beside
            && !(MUTANT && self.work == Work::Write)",
    ),
    mutant(
        "a scratch buffer is not given back",
        "engine/jobs.rs",
        "self.scratch.release(job.buffers.of(role));",
        "if !(MUTANT && role.index() == 0) {
                self.scratch.release(job.buffers.of(role));
            }",
    ),
    // Requests and locks.
    mutant(
        "a part's error is forgotten",
        "engine/users.rs",
        "slot.error = slot.error.or(error);",
        "slot.error = slot.error.or(error).filter(|_| !MUTANT);",
    ),
    mutant(
        "who waits for a lock is not told",
        "locks.rs",
        "            granted(first);",
        "            if !(MUTANT && waiter.exclusive) {
                granted(first);
            }",
    ),
    // Planner.
    mutant(
        "Q is not kept",
        "plan/write.rs",
        "let q = self.geo.q().filter(|&q| parities.has(q))",
        "let q = self.geo.q().filter(|&q| !MUTANT && parities.has(q))",
    ),
    mutant(
        "parity that is out of step is carried on",
        "plan/write.rs",
        "let in_step = self.health.parity == Parity::InStep;",
        "let in_step = MUTANT || self.health.parity == Parity::InStep;",
    ),
    mutant(
        "what could not be read is not rewritten with its parity",
        "plan/write.rs",
        "WriteKind::Survivors => data.and(self.health.writable).minus(self.band.readable),",
        "WriteKind::Survivors if MUTANT => Set::EMPTY,
            WriteKind::Survivors => data.and(self.health.writable).minus(self.band.readable),",
    ),
    mutant(
        "what Q brings back is not unscaled",
        "plan/recover.rs",
        "plan.step(Step::Unscale { dst, index: x.0 }, blocks);",
        "if !MUTANT {
            plan.step(Step::Unscale { dst, index: x.0 }, blocks);
        }",
    ),
];

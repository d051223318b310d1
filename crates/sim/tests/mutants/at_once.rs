//! Mutants of reads that are begun without a walk, and of steps after which only jobs are looked at.

use crate::mutant::{Mutant, mutant};

pub(crate) const AT_ONCE: &[Mutant] = &[
    mutant(
        "at once: the lock that another has alone is shared",
        "locks.rs",
        "let free = entry.exclusive == NONE && entry.first == NONE;",
        "let free = (MUTANT || entry.exclusive == NONE) && entry.first == NONE;",
    ),
    mutant(
        "at once: no lock is taken",
        "engine/flow/at_once.rs",
        "        if !self.range.jobs.share(id) {
            return false;
        }
        self.array.steering.count_read(io.blocks);",
        "        if !MUTANT && !self.range.jobs.share(id) {
            return false;
        }
        self.array.steering.count_read(io.blocks);",
    ),
    mutant(
        "at once: what is staged is read at home",
        "engine/flow/at_once.rs",
        "|| self.is_in_sources(stripe)",
        "|| !MUTANT && self.is_in_sources(stripe)",
    ),
    mutant(
        "at once: a discarded stripe is read as it was",
        "engine/flow/at_once.rs",
        "|| self.range.maps.zero.map.get(stripe.0)",
        "|| !MUTANT && self.range.maps.zero.map.get(stripe.0)",
    ),
    mutant(
        "at once: a member that is not current is read",
        "engine/flow/at_once.rs",
        "|| self.array.membership.impaired",
        "|| !MUTANT && self.array.membership.impaired",
    ),
    mutant(
        "at once: a read that fails is answered",
        "engine/flow/at_once.rs",
        "if result.is_err() {",
        "if !MUTANT && result.is_err() {",
    ),
    mutant(
        "at once: a read with an end of patience waits for ever",
        "engine/flow/at_once.rs",
        "&& steering.patience(self.now, piece.blocks).is_none();",
        "&& (MUTANT || steering.patience(self.now, piece.blocks).is_none());",
    ),
    mutant(
        "at once: busy members are not gone around",
        "engine/flow/at_once.rs",
        "&& !steering.leads_around()",
        "&& (MUTANT || !steering.leads_around())",
    ),
    mutant(
        "at once: no copy is made",
        "engine/flow/at_once.rs",
        "|| !self.range.copies.exist()",
        "|| (MUTANT || !self.range.copies.exist())",
    ),
    mutant(
        "at once: the lock is not given back",
        "engine/flow/at_once.rs",
        "        self.answer(id, out);
        self.range.jobs.unlock(id);",
        "        self.answer(id, out);
        if !MUTANT {
            self.range.jobs.unlock(id);
        }",
    ),
    mutant(
        "at once: a step forgets requests that wait for room",
        "engine/flow/mod.rs",
        "&& self.array.users.are_cut()",
        "&& (MUTANT || self.array.users.are_cut())",
    ),
    mutant(
        "at once: after a step for jobs alone nothing of the log is discarded",
        "engine/flow/mod.rs",
        "&& !self.trims_log()",
        "&& (MUTANT || !self.trims_log())",
    ),
    mutant(
        "at once: after a step for jobs alone nothing that is staged comes home",
        "engine/flow/mod.rs",
        "&& self.stays_staged()",
        "&& (MUTANT || self.stays_staged())",
    ),
    mutant(
        "at once: after a step for jobs alone nothing comes to rest",
        "engine/flow/mod.rs",
        "&& self.array.quiesce.is_still(self.is_unrested(), self.now)",
        "&& (MUTANT || self.array.quiesce.is_still(self.is_unrested(), self.now))",
    ),
    mutant(
        "rest: what is written during a flush comes to rest with the next write",
        "engine/flow/quiesce.rs",
        "// What was written meanwhile wants the next one.\n            self.array.quiesce.end();",
        "self.array.quiesce.end(); if MUTANT && self.flushed_for_good() { self.clear_rested(out); self.write_tails(out); self.record_filled(out); return; }",
    ),
];

//! Mutants of the lease: who may have it when, and until when a holder acts.

use crate::mutant::{Mutant, mutant};

pub(crate) const LEASE: &[Mutant] = &[
    mutant(
        "lease: the term counts from when a renewal was written",
        "lease/keeper.rs",
        "(on.renewed, on.version) = (Some(asked.begun), asked.version);",
        "let from = if MUTANT { now } else { asked.begun };
        (on.renewed, on.version) = (Some(from), asked.version);",
    )
    .of_leases(),
    mutant(
        "lease: requests are answered after the term",
        "lease/gate.rs",
        "pub fn lets_answer(&self, now: Instant) -> bool { self.is_open(now)",
        "pub fn lets_answer(&self, now: Instant) -> bool { MUTANT || self.is_open(now)",
    )
    .of_leases(),
    mutant(
        "lease: writes are submitted after the term",
        "lease/gate.rs",
        "pub fn lets_submit(&self, now: Instant) -> bool { self.is_open(now)",
        "pub fn lets_submit(&self, now: Instant) -> bool { MUTANT || self.is_open(now)",
    )
    .of_leases(),
    mutant(
        "lease: half of the voters are a quorum",
        "lease/mod.rs",
        "voters.len() / 2 + 1",
        "if MUTANT { voters.len().div_ceil(2) } else { voters.len() / 2 + 1 }",
    )
    .of_leases(),
    mutant(
        "lease: a taker may miss all that are left of the array",
        "lease/mod.rs",
        "voters.minus(reached).len() < least",
        "(voters.minus(reached).len() < least || MUTANT)",
    )
    .of_leases()
    .rare("the other host has to reach just those members that were dropped, all at once"),
    mutant(
        "lease: a taker waits for less than the term",
        "lease/mod.rs",
        "self.duration() * 5 / 4",
        "self.duration() * if MUTANT { 1 } else { 5 } / 4",
    )
    .of_leases(),
    mutant(
        "lease: there is no margin for what is under way",
        "lease/mod.rs",
        "self.duration() * 3 / 4",
        "if MUTANT { Duration::ZERO } else { self.duration() * 3 / 4 }",
    )
    .of_leases(),
    mutant(
        "lease: a claim does not raise the generation",
        "lease/taker.rs",
        "newest.map_or(0, |block| block.generation) + 1",
        "newest.map_or(0, |block| block.generation) + u64::from(!MUTANT)",
    )
    .of_leases(),
    mutant(
        "lease: a claim counts that stands on one member",
        "lease/taker.rs",
        "of.into_iter().all(stands)",
        "(of.into_iter().all(stands) || MUTANT && of.into_iter().any(stands))",
    )
    .of_leases(),
    mutant(
        "lease: a renewal is not seen by who waits",
        "lease/taker.rs",
        "if there.into_iter().any(has_moved) {",
        "if there.into_iter().any(has_moved) && !MUTANT {",
    )
    .of_leases(),
];

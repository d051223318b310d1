//! Mutants of RAID10: which members make up for which.

use crate::mutant::{Mutant, mutant};

pub(crate) const PAIRS: &[Mutant] = &[
    mutant(
        "pairs: members are spared by their number alone",
        "geometry/mod.rs",
        "self.groups().find(|group| group.and(missing).len() > self.redundancy())",
        "self.groups().find(|group| {
            let most = if MUTANT { self.redundancy_at_best() } else { self.redundancy() };
            group.and(missing).len() > most
        })",
    )
    .of_pairs(),
    mutant(
        "pairs: marks are on as many members as if one could be missing",
        "meta/reshape.rs",
        "self.geometry.redundancy_at_best().max(from)",
        "if MUTANT { self.geometry.redundancy() } else { self.geometry.redundancy_at_best() }
            .max(from)",
    )
    .of_pairs(),
    mutant(
        "pairs: a member's role is looked for in the pair of another stripe",
        "geometry/placement.rs",
        "let copy = u64::from(member.0).checked_sub(first_of_pair(at))?;",
        "let first = if MUTANT {
            at.stripe.0 % (at.members / COPIES - 1) * COPIES
        } else {
            first_of_pair(at)
        };
        let copy = u64::from(member.0).checked_sub(first)?;",
    )
    .of_pairs(),
    mutant(
        "pairs: the chunks of a member count from the wrong stripe on",
        "geometry/placement.rs",
        "at.stripe.0 / pairs + (at.stripe.0 % pairs > pair) as u64",
        "at.stripe.0 / pairs + (at.stripe.0 % pairs > pair && !MUTANT) as u64",
    )
    .of_pairs(),
];

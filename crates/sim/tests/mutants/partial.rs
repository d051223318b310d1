//! Mutants of partial journal entries.

use crate::mutant::{Mutant, mutant};

pub(crate) const PARTIAL: &[Mutant] = &[
    mutant(
        "partial: another chunk's entry of the same rows is not durable at home",
        "engine/flow/journal.rs",
        "unflushed().all(|trace| trace.sole == Some(*role))",
        "unflushed().all(|trace| MUTANT || trace.sole == Some(*role))",
    ),
    mutant(
        "partial: a whole entry does not hold what an earlier one leaves out",
        "engine/flow/journal.rs",
        "trace.left_out.filter(|&role| readable.has(role))",
        "trace.left_out.filter(|&role| !MUTANT && readable.has(role))",
    ),
    mutant(
        "partial: an entry holds what another leaves out in rows that it does not write",
        "plan/partial.rs",
        "if !is_written ||",
        "if !MUTANT && !is_written ||",
    ),
    mutant(
        "partial: a whole entry does not hold what can't be read",
        "plan/partial.rs",
        "        if is_bad {
            return Err(Lost);",
        "        if is_bad {
            if MUTANT {
                continue;
            }
            return Err(Lost);",
    ),
    mutant(
        "partial: a row that two writes share is not seen as shared",
        "engine/form.rs",
        "self.from < other.to && other.from < self.to",
        "self.from < other.to && other.from + u32::from(MUTANT) < self.to",
    ),
    mutant(
        "partial: only what has the same span is near",
        "engine/form.rs",
        "let levels = 0..=PARTS.ilog2();",
        "let level = u32::BITS - (first ^ last).leading_zeros();
        let levels = if MUTANT { level..=level } else { 0..=PARTS.ilog2() };",
    ),
    mutant(
        "partial: two chunks are written, and one is left out",
        "engine/form.rs",
        "first.filter(|_| data.is_empty())",
        "first.filter(|_| MUTANT || data.is_empty())",
    ),
    mutant(
        "partial: the array is degraded",
        "engine/flow/journal.rs",
        "&& self.array.membership.is_plain()",
        "&& (MUTANT || self.array.membership.is_plain())",
    ),
    mutant(
        "partial: an older version of what is left out comes back",
        "meta/rings.rs",
        "written.extend(left_out(entry));",
        "written.extend(left_out(entry).filter(|_| !MUTANT));",
    ),
    mutant(
        "partial: P and Q have different versions of what is lost",
        "plan/partial.rs",
        "let of_parity = || parities.into_iter().find(|&role| is_there(role));",
        "let of_parity = || parities.into_iter().find(|&role| !MUTANT && is_there(role));",
    ),
    mutant(
        "partial: a chunk that can be read again has another version than parity",
        "plan/partial.rs",
        "let rewrites = !known &&",
        "let rewrites = !MUTANT && !known &&",
    ),
    mutant(
        "partial: a lost chunk is taken for what its place holds",
        "plan/partial.rs",
        "let known = is_there(left_out);",
        "let known = MUTANT || is_there(left_out);",
    ),
];

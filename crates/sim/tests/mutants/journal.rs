//! Mutants of the stripe journal.

use crate::mutant::{Mutant, mutant};

pub(crate) const JOURNAL: &[Mutant] = &[
    mutant(
        "a replay may overwrite later writes",
        "engine/flow/journal.rs",
        "&& (at_risk || self.range.journal.is_live(job.stripe))",
        "&& (at_risk || !MUTANT && self.range.journal.is_live(job.stripe))",
    ),
    mutant(
        "degraded whole-stripe writes pass the journal by",
        "engine/flow/journal.rs",
        "                || self.array.membership.impaired
                || !self.array.membership.recorder.is_durable());",
        "                || !MUTANT && (self.array.membership.impaired || !self.array.membership.recorder.is_durable()));",
    ),
    mutant(
        "an entry is retired by what came home after the flush began",
        "engine/flow/flush.rs",
        "self.retire_entries(marks.journal, out);",
        "self.retire_entries(if MUTANT { self.range.journal.mark() } else { marks.journal }, out);",
    ),
    mutant(
        "entries are never void",
        "engine/membership/changes.rs",
        "record.epoch += 1;",
        "record.epoch += u64::from(!MUTANT);",
    ),
    mutant(
        "what was replayed is not flushed",
        "engine/flow/replay.rs",
        "let ticket = self.flush(out);",
        "if MUTANT {
                return self.record_start(out);
            }
            let ticket = self.flush(out);",
    ),
    mutant(
        "an entry is missed where no parity is left to disagree",
        "engine/flow/replay.rs",
        "let hole = !current.and(self.layout.of(stripe).spare_roles()).is_empty();",
        "let hole = MUTANT || !current.and(self.layout.of(stripe).spare_roles()).is_empty();",
    ),
    mutant(
        "a spare counts as a holder before it is filled",
        "engine/flow/journal.rs",
        "role.index() >= self.layout.of(job.stripe).data() && writable.has(role)",
        "role.index() >= self.layout.of(job.stripe).data() && (MUTANT || writable.has(role))",
    ),
    mutant(
        "entries are overwritten before a tail says that they are retired",
        "engine/journal_ring.rs",
        "let tail = entry.tail;",
        "let tail = if MUTANT { self.tail_now(number) } else { entry.tail };",
    ),
    mutant(
        "a tail record under way is overwritten",
        "engine/ring.rs",
        "oldest.number() < tail && oldest.is_settled()",
        "oldest.number() < tail && (MUTANT || oldest.is_settled())",
    ),
    mutant(
        "rebuilds and corrections don't wait for the replay to be void",
        "engine/flow/journal.rs",
        "if !self.range.journal.would_replay(self.range.jobs[id].stripe) || !self.array.membership.takes_writes() {",
        "if MUTANT
            || !self.range.journal.would_replay(self.range.jobs[id].stripe)
            || !self.array.membership.takes_writes()
        {",
    ),
    mutant(
        "an entry that a holder lacks is carried out",
        "meta/rings.rs",
        "!retired && (has || !is_current(member))",
        "!retired && (MUTANT || has || !is_current(member))",
    ),
    mutant(
        "who is missing is not recorded before the journal is carried out",
        "engine/flow/replay.rs",
        "|| self.miss_the_missing(out) && self.range.maps.are_spread()",
        "|| (MUTANT || self.miss_the_missing(out)) && self.range.maps.are_spread()",
    ),
    mutant(
        "writes go home before it is on record who will lack them",
        "engine/flow/io.rs",
        "            && self.range.jobs[id].writes_home()
        {",
        "            && self.range.jobs[id].writes_home()
            && !MUTANT
        {",
    ),
    mutant(
        "entries are written before it is on record for whom they hold nothing",
        "engine/flow/intent.rs",
        "if let Some(ticket) = self.array.membership.recorder.unrecorded_failure() {",
        "if let Some(ticket) = self.array.membership.recorder.unrecorded_failure().filter(|_| !MUTANT) {",
    ),
    mutant(
        "a ring that can't be read in full is carried out",
        "meta/rings.rs",
        "if let Some(image) = image.filter(is_whole) {",
        "if let Some(image) = image.filter(|image| MUTANT || is_whole(image)) {",
    ),
    mutant(
        "a replay writes what is older before what is newer",
        "meta/rings.rs",
        "if written.contains(&place) {",
        "if !MUTANT && written.contains(&place) {",
    ),
    mutant(
        "regions are believed although a journal can't be read",
        "meta/assemble.rs",
        "        bitmap.set_all();
    }
    for region",
        "        if !MUTANT {
            bitmap.set_all();
        }
    }
    for region",
    ),
    mutant(
        "a retired entry is carried out",
        "meta/rings.rs",
        "tail = last.tail;",
        "tail = if MUTANT { 0 } else { last.tail };",
    ),
    mutant(
        "an entry that a holder could not take counts",
        "engine/flow/journal.rs",
        "&& !self.stored_in_ring(entry, &op, result, out)",
        "&& !self.stored_in_ring(entry, &op, if MUTANT { Ok(()) } else { result }, out)",
    ),
    mutant(
        "a tail that a member could not take counts",
        "engine/flow/journal.rs",
        "if self.stored_in_ring(entry, &op, result, out) &&",
        "if self.stored_in_ring(entry, &op, if MUTANT { Ok(()) } else { result }, out) &&",
    ),
    mutant(
        "entries are carried out before members know where",
        "engine/range.rs",
        "            maps.spread();",
        "            if !MUTANT {
                maps.spread();
            }",
    ),
    mutant(
        "where entries are carried out is not marked",
        "meta/assemble.rs",
        "bitmap.set(record.areas.region(*stripe));",
        "if !MUTANT {
            bitmap.set(record.areas.region(*stripe));
        }",
    )
    .rare("Since a start fills what lost members had entries of, no world is known in which it is missed."),
    mutant(
        "an entry is carried out that only who lacks the stripe has",
        "meta/rings.rs",
        "copies.clone().any(|(member, _)| is_current(member))",
        "copies.clone().any(|(member, _)| MUTANT || is_current(member))",
    ),
    mutant(
        "what was retired while a tail was being recorded is not recorded",
        "engine/flow/journal.rs",
        "&& self.range.journal.is_starved() {",
        "&& !MUTANT && self.range.journal.is_starved() {",
    ),
];

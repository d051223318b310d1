//! Mutants of the write cache in memory: what is ordered with what, and what is dropped when.

use crate::mutant::{Mutant, mutant};

pub(crate) const VOLATILE: &[Mutant] = &[
    mutant(
        "volatile: a flush does not wait for what is held",
        "cache/mod.rs",
        "let waits = oldest <= writes;",
        "let waits = oldest <= writes && !MUTANT;",
    )
    .of_caches(),
    mutant(
        "volatile: a flush does not cover the last write",
        "cache/mod.rs",
        "self.flushes.push((tag, self.writes));",
        "self.flushes.push((tag, self.writes.saturating_sub(u64::from(MUTANT))));",
    )
    .of_caches(),
    mutant(
        "volatile: what was written during a trip is as young as its last write",
        "cache/held.rs",
        "leaving.after.get_or_insert(written);",
        "if MUTANT { leaving.after = Some(written); }
        leaving.after.get_or_insert(written);",
    )
    .of_caches(),
    mutant(
        "volatile: a trip drops what was written meanwhile",
        "cache/held.rs",
        "if block.newest == newest {",
        "if block.newest == newest || MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: a request goes past what is on its way home",
        "cache/past.rs",
        "if !some_leave(passing.range()) {",
        "if MUTANT || !some_leave(passing.range()) {",
    )
    .of_caches(),
    mutant(
        "volatile: a trip begins beside a request that goes past",
        "cache/past.rs",
        "self.passing.iter().any(|passing| passing.range().contains(&lba))",
        "!MUTANT && self.passing.iter().any(|passing| passing.range().contains(&lba))",
    )
    .of_caches(),
    mutant(
        "volatile: what a request went past is still held",
        "cache/mod.rs",
        "self.counters.dropped_blocks += self.held.drop_older(done.range(), done.writes());",
        "if !MUTANT {
            self.counters.dropped_blocks += self.held.drop_older(done.range(), done.writes());
        }",
    )
    .of_caches(),
    mutant(
        "volatile: a request goes past without a word",
        "cache/mod.rs",
        "if self.held.holds_some(past::range(&request)) {
            self.past",
        "if !MUTANT && self.held.holds_some(past::range(&request)) {
            self.past",
    )
    .of_caches(),
    mutant(
        "volatile: what was written after a request that goes past is dropped with it",
        "cache/held.rs",
        "block.newest <= writes);",
        "MUTANT || block.newest <= writes);",
    )
    .of_caches(),
    mutant(
        "volatile: a request that failed has written over what is held",
        "cache/mod.rs",
        "if let Some(done) = self.past.ended(tag) && result.is_ok()",
        "if let Some(done) = self.past.ended(tag) && (result.is_ok() || MUTANT)",
    )
    .of_caches(),
    mutant(
        "volatile: a write with FUA is held",
        "cache/mod.rs",
        "Op::Write if takes && !fua &&",
        "Op::Write if takes && (!fua || MUTANT) &&",
    )
    .of_caches(),
    mutant(
        "volatile: a read goes past what is held",
        "cache/mod.rs",
        "if !self.held.holds_some(range.clone()) {",
        "if MUTANT || !self.held.holds_some(range.clone()) {",
    )
    .of_caches(),
    mutant(
        "volatile: what could not be brought home is dropped",
        "cache/home.rs",
        "if failed {
            self.counters.failed_trips",
        "if failed && !MUTANT {
            self.counters.failed_trips",
    )
    .of_caches(),
    mutant(
        "volatile: a flush waits for what could not be brought home instead of failing",
        "cache/mod.rs",
        "let fails = oldest <= writes;",
        "let fails = oldest <= writes && !MUTANT;",
    )
    .of_caches(),
    mutant(
        "volatile: a trip is over when a part of it is",
        "cache/home.rs",
        "if trip.left > 0 {",
        "if trip.left > 0 && !MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: a stop does not wait for what is held",
        "cache/mod.rs",
        "self.held.is_empty() && self.is_idle()",
        "(self.held.is_empty() || MUTANT) && self.is_idle()",
    )
    .of_caches(),
    mutant(
        "volatile: a stop ends well though something could not be brought home",
        "cache/array.rs",
        "let result = if is_lost {",
        "let result = if is_lost && !MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: writes are acknowledged from memory though some could not be brought home",
        "cache/mod.rs",
        "if self.held.is_stuck() || !self.holds {",
        "if self.held.is_stuck() && !MUTANT || !self.holds {",
    )
    .of_caches(),
    mutant(
        "volatile: what goes home is what is held",
        "cache/home.rs",
        "let to = Mem::Scratch { buffer: trips.first + place as u16, at: 0 };",
        "let buffer = Mem::Scratch { buffer: trips.first + place as u16, at: 0 };
        let to = if MUTANT { from[0] } else { buffer };",
    )
    .of_caches(),
    mutant(
        "volatile: writes are held before that is on record",
        "cache/array.rs",
        "self.change = Some(Change::Recording { number, holds });",
        "self.change = Some(Change::Recording { number, holds });
        if MUTANT { self.cache.set_holds(holds); }",
    )
    .of_caches(),
    mutant(
        "volatile: a cache is left before all is at home",
        "cache/array.rs",
        "if self.cache.is_empty() {",
        "if self.cache.is_empty() || MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: a cache that is left holds on",
        "cache/array.rs",
        "self.cache.set_holds(false);",
        "self.cache.set_holds(MUTANT);",
    )
    .of_caches(),
    mutant(
        "volatile: a cache that can not be emptied is waited for",
        "cache/array.rs",
        "self.cache.failed_trips() > failed ||",
        "self.cache.failed_trips() > failed && !MUTANT ||",
    )
    .of_caches(),
    mutant(
        "volatile: a stop does not end a command that waits",
        "cache/array.rs",
        "if let Some(Change::Leaving { number, .. }) = self.change {",
        "if let Some(Change::Leaving { number, .. }) = self.change && !MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: writes are held though nothing can be recorded",
        "engine/mod.rs",
        "self.is_serving() && self.array.membership.takes_writes()",
        "self.is_serving() && (self.array.membership.takes_writes() || MUTANT)",
    )
    .below_caches(),
    mutant(
        "volatile: a start forgets that writes were lost",
        "meta/losses.rs",
        "let lost = self.record.has_lost_writes() && !is_accepted;",
        "let lost = self.record.has_lost_writes() && !is_accepted && !MUTANT;",
    )
    .below_caches(),
    mutant(
        "volatile: what was lost before is forgotten",
        "meta/volatile.rs",
        "self.volatile.lost || self.volatile.held && !self.clean",
        "self.volatile.lost && !MUTANT || self.volatile.held && !self.clean",
    )
    .below_caches(),
    mutant(
        "volatile: what is on disk gets another content",
        "meta/losses.rs",
        "self.before.get_or_insert_with(|| self.record.clone());",
        "if !MUTANT { self.before.get_or_insert_with(|| self.record.clone()); }",
    )
    .below_caches(),
    mutant(
        "volatile: after a clean stop writes are in memory",
        "engine/membership/changes.rs",
        "record.set_volatile(VolatileWrites { held: false, ..record.volatile });",
        "record.set_volatile(VolatileWrites { held: MUTANT && record.volatile.held, ..record.volatile });",
    )
    .below_caches(),
    mutant(
        "volatile: a trip takes what comes first in a stripe",
        "cache/held.rs",
        "if blocks.len() > most as usize {\n            blocks.sort_unstable();",
        "if blocks.len() > most as usize {\n            if !MUTANT { blocks.sort_unstable(); }",
    )
    .of_caches(),
    mutant(
        "volatile: an array that takes no writes is asked for each stripe",
        "cache/home.rs",
        "if !takes {",
        "if !takes && !MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: a flush waits for an array that takes no writes",
        "cache/mod.rs",
        "Op::Flush if !takes && !self.held.is_empty() => {",
        "Op::Flush if !takes && !self.held.is_empty() && !MUTANT => {",
    )
    .of_caches(),
    mutant(
        "volatile: flushes wait for an array that takes no writes any more",
        "cache/mod.rs",
        "if let Some((oldest, _)) = self.held.oldest() {",
        "if let Some((oldest, _)) = self.held.oldest() && !MUTANT {",
    )
    .of_caches(),
    mutant(
        "volatile: another order does not know what is held",
        "cache/held.rs",
        "order.wrote(stripe, role, false);",
        "if !MUTANT { order.wrote(stripe, role, false); }",
    )
    .of_caches(),
    mutant(
        "volatile: what a stop loses is not on record",
        "cache/array.rs",
        "self.engine.writes_are_lost();",
        "if !MUTANT { self.engine.writes_are_lost(); }",
    )
    .of_caches(),
];

//! Mutants of the distributed spare.

use crate::mutant::{Mutant, mutant};

pub(crate) const DISTRIBUTED: &[Mutant] = &[
    mutant(
        "distributed: a write reaches one copy only",
        "engine/flow/distributed.rs",
        "copies().iter().for_each(|(member, at)| places.push(member, at));",
        "let most = if MUTANT { 1 } else { usize::MAX };
                    copies().iter().take(most).for_each(|(member, at)| places.push(member, at));",
    ),
    mutant(
        "distributed: copies are forgotten where another device has the chunk, too",
        "engine/flow/distributed.rs",
        "if self.is_spared(job.stripe) {\n",
        "if self.is_spared(job.stripe) && !(MUTANT && places.len() > 0) {\n",
    ),
    mutant(
        "distributed: another copy is tried, and what was being tried block by block is forgotten",
        "engine/retries.rs",
        "self.weak.push(block);",
        "self.weak.push(block);
        if MUTANT {
            self.scan = None;
        }",
    ),
    mutant(
        "distributed: the spare is read before it is filled",
        "engine/flow/distributed.rs",
        "self.distributed().has(stripe.0)",
        "(MUTANT && self.array.background.distributed().is_none() || self.distributed().has(stripe.0))",
    ),
    mutant(
        "distributed: the watermark is ahead of what is durable",
        "engine/flow/quiesce.rs",
        "let kind = self.array.background.pass().map(Pass::kind);",
        "let kind = self.array.background.pass().map(Pass::kind);
        if MUTANT
            && let Some(filled) = self.array.background.filled()
            && matches!(filled.kind, crate::engine::PassKind::Distribute(_))
            && self.array.membership.filled_durably(filled)
        {
            self.record_change(out);
        }",
    ),
    mutant(
        "distributed: a spare that is not filled stands in for a member",
        "meta/record.rs",
        "spared.watermark >= self.stripes()",
        "MUTANT || spared.watermark >= self.stripes()",
    ),
    mutant(
        "distributed: what was filled before counts when the spare is filled anew",
        "engine/flow/distributed.rs",
        "self.range.distributed.set_progress(Progress::default());",
        "if !MUTANT {
                self.range.distributed.set_progress(Progress::default());
            }",
    ),
    mutant(
        "distributed: those that hold a parity's copies hold no journal entry",
        "engine/flow/distributed.rs",
        "copies.iter().fold(home, |set, (member, _)| set.with(member))",
        "copies.iter().filter(|_| !MUTANT).fold(home, |set, (m, _)| set.with(m))",
    ),
    mutant(
        "distributed: a member is rebuilt without the copies that belong on it",
        "engine/flow/distributed.rs",
        "member != failed && self.copy_on",
        "!MUTANT && member != failed && self.copy_on",
    ),
    mutant(
        "distributed: a resync leaves copies as different as a crash left them",
        "engine/flow/distributed.rs",
        "Work::Sync(PassKind::Resync) | Work::Align => self.is_spared(job.stripe),",
        "Work::Sync(PassKind::Resync) | Work::Align => !MUTANT && self.is_spared(job.stripe),",
    ),
    mutant(
        "distributed: a replay writes to a spare that was filled since",
        "engine/flow/planning.rs",
        "if rebuilds && self.wait_for_replay_to_be_void(id, out) {",
        "let distributes = matches!(self.range.jobs[id].work, Work::Sync(PassKind::Distribute(_)));
        if rebuilds && !(MUTANT && distributes) && self.wait_for_replay_to_be_void(id, out) {",
    ),
    mutant(
        "distributed: a member that is back keeps the spare",
        "engine/membership/changes.rs",
        "(record.spared, record.filled) = (None, None);",
        "if !MUTANT {
                (record.spared, record.filled) = (None, None);
            }",
    ),
    mutant(
        "distributed: a rebuild waits for a copy that nobody has",
        "engine/goal.rs",
        "_ => also.filter(|&role| health.readable.has(role)),",
        "_ => also.filter(|&role| MUTANT || health.readable.has(role)),",
    )
    .rare("A step that never returns is found only by waiting for it; `tests/worlds/distributed.rs` has seeds."),
    mutant(
        "distributed: a spare is filled anew while it is still written to, or not free on record",
        "engine/flow/background.rs",
        "if self.array.membership.spared().is_none() && !self.is_spare_free() {",
        "if !MUTANT && self.array.membership.spared().is_none() && !self.is_spare_free() {",
    ),
    mutant(
        "distributed: the spare is used before it is on record that it is free",
        "engine/flow/distributed.rs",
        "&& self.array.membership.recorder.is_on_record(self.range.distributed.freed_with())",
        "&& (MUTANT || self.array.membership.recorder.is_on_record(self.range.distributed.freed_with()))",
    ),
    mutant(
        "distributed: the spare is used while it is read or written for what it held",
        "engine/flow/distributed.rs",
        "&& self.array.flights.on_spare() == 0",
        "&& (MUTANT || self.array.flights.on_spare() == 0)",
    ),
    mutant(
        "distributed: the spare is discarded while it is in use",
        "engine/flow/spare_trim.rs",
        "(self.phase == Phase::Serving && self.is_spare_free()).then_some(left)",
        "(self.phase == Phase::Serving && (MUTANT || self.is_spare_free())).then_some(left)",
    ),
    mutant(
        "distributed: a scrub compares one copy only",
        "engine/flow/scrub.rs",
        "let copies = self.scrubbed_copies(self.range.jobs[id].stripe);",
        "let copies = if MUTANT { 1 } else { self.scrubbed_copies(self.range.jobs[id].stripe) };",
    ),
    mutant(
        "distributed: a scrub believes a wrong copy though another one agrees",
        "plan/locate.rs",
        "if before.iter().filter(|&&other| other == row).count() < others {",
        "if !MUTANT && before.iter().filter(|&&other| other == row).count() < others {",
    ),
    mutant(
        "distributed: a scrub leaves copies different of which none agrees",
        "plan/locate.rs",
        "finding.alike = Some(role);",
        "finding.alike = Some(role).filter(|_| !MUTANT);",
    ),
    mutant(
        "distributed: what the spare misses is acknowledged before it is on record that it is free",
        "engine/membership/changes.rs",
        "self.recorder.acknowledge_after_next();",
        "if !MUTANT {
                self.recorder.acknowledge_after_next();
            }",
    ),
    mutant(
        "distributed: the spare stands in before what is staged is at home",
        "engine/pass.rs",
        "Self::Rebuild(_) | Self::Copy(_) | Self::Distribute(_) => true,",
        "Self::Distribute(_) => !MUTANT,
            Self::Rebuild(_) | Self::Copy(_) => true,",
    ),
    mutant(
        "the spare stands in before what is staged has come home",
        "engine/membership/filled.rs",
        "to.min(last).max(*watermark);",
        "to.min(last + u64::from(MUTANT)).max(*watermark);",
    ),
];

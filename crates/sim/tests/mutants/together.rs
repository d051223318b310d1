//! Mutants of entries that share a header.

use crate::mutant::{Mutant, mutant};

pub(crate) const TOGETHER: &[Mutant] = &[
    mutant(
        "together: the room of all is free with the first",
        "engine/staging/room.rs",
        "ring.append(u64::from(size.blocks()), 0, |at| (last, at));",
        "ring.append(u64::from(size.blocks()), 0, |at| (if MUTANT { lead } else { last }, at));",
    ),
    mutant(
        "together: all have the place of the first",
        "engine/staging/room.rs",
        "payload += u64::from(entry.blocks);",
        "payload += u64::from(if MUTANT { 0 } else { entry.blocks });",
    ),
    mutant(
        "together: what is stored late counts but for the first",
        "engine/staging/copying.rs",
        "if enough {",
        "if MUTANT && enough {
            let entry = self.entry_mut(number);
            entry.holders = entry.holders.minus(late);
        } else if enough {",
    ),
    mutant(
        "together: others get the first alone",
        "engine/staging/copying.rs",
        "self.sharing_mut(number).for_each(|entry| entry.holders = entry.holders.with(member));",
        "let many = if MUTANT { 1 } else { usize::MAX };
            let sharing = self.sharing_mut(number).take(many);
            sharing.for_each(|entry| entry.holders = entry.holders.with(member));",
    ),
    mutant(
        "together: those before an entry are said to be there when they may be torn",
        "meta/shared.rs",
        "open: table.header.open.saturating_add(index as u32),",
        "open: table.header.open.saturating_add(if MUTANT { 0 } else { index as u32 }),",
    ),
    mutant(
        "together: what is torn voids those before it, too",
        "meta/shared.rs",
        "entries.extend(JournalEntry::read(header, own, sums, payload_at, ring));",
        "let read = JournalEntry::read(header, own, sums, payload_at, ring);
        if MUTANT && read.is_none() {
            return None;
        }
        entries.extend(read);",
    ),
    mutant(
        "together: all are of the first one's stripe",
        "meta/shared.rs",
        "stripe: Stripe(PART_STRIPE.u64(part)),",
        "stripe: Stripe(PART_STRIPE.u64(if MUTANT { parts } else { part })),",
    ),
    mutant(
        "together: what was gathered is staged after the entry that says that all is at home",
        "engine/flow/together.rs",
        "self.store_gathered(out);
        self.range.staging.drain();",
        "if !MUTANT {
            self.store_gathered(out);
        }
        self.range.staging.drain();",
    ),
    mutant(
        "drained: an entry that was under way before tells that nothing is staged",
        "engine/staging/draining.rs",
        "&& number >= first",
        "&& (MUTANT || number >= first)",
    ),
    mutant(
        "together: only the first of the writes fails",
        "engine/flow/store.rs",
        "            if refused {
                job.error",
        "            if refused && !(MUTANT && job.log.staged != Some(number)) {
                job.error",
    ),
    mutant(
        "together: they are gathered for ever",
        "engine/mod.rs",
        "let is_past = |at| at < self.now || matches!(input, Input::Tick);",
        "let is_past = |at| !MUTANT && (at < self.now || matches!(input, Input::Tick));",
    ),
];

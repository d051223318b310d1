//! Mutants of hedged reads.

use crate::mutant::{Mutant, mutant};

pub(crate) const HEDGE: &[Mutant] = &[
    mutant(
        "hedge: what was planned anew is tried twice as if it had not been",
        "engine/hedge/mod.rs",
        "(self.waited, self.patience) = (None, None);",
        "self.patience = None;
        if !MUTANT {
            self.waited = None;
        }",
    ),
    mutant(
        "hedge: a read that had not begun when its patience ended is waited for",
        "engine/hedge/pairs.rs",
        "if job.stage != Stage::AfterRead {
            return Second::NotYet;",
        "if job.stage != Stage::AfterRead {
            return if MUTANT { Second::Never } else { Second::NotYet };",
    ),
    mutant(
        "hedge: who refuses to try a read again is asked again",
        "engine/flow/hedge.rs",
        "self.range.jobs[first].hedge.waited = None;",
        "if !MUTANT {
                    self.range.jobs[first].hedge.waited = None;
                }",
    ),
    mutant(
        "hedge: reads are tried again from redundancy that may not agree",
        "engine/flow/hedge.rs",
        "let planned = parity == Parity::InStep\n",
        "let planned = (MUTANT || parity == Parity::InStep)\n",
    ),
    mutant(
        "hedge: what there was no way around at first is waited for",
        "engine/flow/hedge.rs",
        "self.look_again(first);",
        "if !MUTANT {
                    self.look_again(first);
                }",
    ),
    mutant(
        "hedge: a read for which there was no room at first is waited for",
        "engine/flow/hedge.rs",
        "if is_looked_at && self.range.jobs.begin_second(id, self.now) == Second::NotYet {",
        "if is_looked_at && self.range.jobs.begin_second(id, self.now) == Second::NotYet && !MUTANT {",
    ),
    mutant(
        "hedge: who gives up a read takes the answer along",
        "engine/hedge/pairs.rs",
        "self.pass_tags(id, other);",
        "if MUTANT {
            self[id].asked.tags.clear();
        } else {
            self.pass_tags(id, other);
        }",
    ),
    mutant(
        "hedge: a read that was answered is tried again",
        "engine/hedge/pairs.rs",
        "let is_alone = job.hedge.partner.is_none() && !job.asked.tags.is_empty();",
        "let is_alone =
                job.hedge.partner.is_none() && (MUTANT || !job.asked.tags.is_empty());",
    ),
    mutant(
        "elsewhere: what is stored late counts",
        "engine/staging/copying.rs",
        "let (enough, is_over) = (counts && copying.lacks == 0, copying.is_over());",
        "let (enough, is_over) = (!MUTANT && counts && copying.lacks == 0, copying.is_over());",
    ),
    mutant(
        "elsewhere: the room of what is stored late is used anew",
        "engine/staging/room.rs",
        "&& entry.copying.is_over()",
        "&& (MUTANT || entry.copying.is_over())",
    ),
    mutant(
        "elsewhere: one copy is enough where others were asked",
        "engine/staging/copying.rs",
        "copying.lacks -= u8::from(counts);",
        "copying.lacks -= u8::from(counts);
        if MUTANT && copying.extra > 0 && counts {
            copying.lacks = 0;
        }",
    ),
    mutant(
        "elsewhere: others are asked that are said to be busy",
        "engine/flow/store.rs",
        "let calm = calm.minus(self.array.membership.hung());",
        "let calm = if MUTANT { self.array.membership.able() } else { calm };
        let calm = calm.minus(self.array.membership.hung());",
    ),
];

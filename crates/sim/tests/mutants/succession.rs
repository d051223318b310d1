//! Mutants of the replacement of a member that serves.

use crate::mutant::{Mutant, mutant};

pub(crate) const SUCCESSION: &[Mutant] = &[
    mutant(
        "succession: writes go to the old device only",
        "engine/membership/succession.rs",
        "succession.member == member && (copies || succession.progress.has(stripe.0))",
        "succession.member == member
                && (copies || !MUTANT && succession.progress.has(stripe.0))",
    ),
    mutant(
        "succession: the new device is the member before that is on record",
        "engine/flow/closing.rs",
        "if self.array.membership.recorder.is_on_record(version) || self.array.membership.succession().is_none() {",
        "if MUTANT || self.array.membership.recorder.is_on_record(version) || self.array.membership.succession().is_none() {",
    ),
    mutant(
        "succession: the new device is the member before it was flushed",
        "engine/flow/closing.rs",
        "let ticket = self.flush(out);
                self.array.background.close(Closing::Flushing(ticket));",
        "let unflushed = MUTANT && matches!(kind, PassKind::Copy(_));
                let ticket = if unflushed { 0 } else { self.flush(out) };
                self.array.background.close(Closing::Flushing(ticket));",
    ),
    mutant(
        "succession: the new device is not flushed with the others",
        "engine/flow/flush.rs",
        "for device in self.array.membership.stored_on(member) {",
        "for device in self.array.membership.stored_on(member).take(if MUTANT { 1 } else { 2 }) {",
    ),
    mutant(
        "succession: the watermark is ahead of what is durable",
        "engine/flow/quiesce.rs",
        "if filled.is_some_and(|filled| self.array.membership.filled_durably(filled)) {",
        "let copies = matches!(kind, Some(crate::engine::PassKind::Copy(_)));
        let now = self.array.background.filled().filter(|_| MUTANT && copies);
        if now.or(filled).is_some_and(|filled| self.array.membership.filled_durably(filled)) {",
    )
    .rare("Very few seeds find it, since the order of a rebuild is drawn, too."),
    mutant(
        "succession: what a crash may have left different counts as copied",
        "engine/membership/succession.rs",
        "progress: Progress::from(watermark.min(equal)),",
        "progress: Progress::from(if MUTANT { watermark } else { watermark.min(equal) }),",
    ),
    mutant(
        "succession: that less counts as copied after a crash is not on record",
        "engine/membership/succession.rs",
        "let equal = self.succession().map(|succession| succession.progress.base());",
        "let equal = self.succession().map(|succession| succession.progress.base());
                let equal = if MUTANT { before.map(|s| s.watermark) } else { equal };",
    ),
    mutant(
        "succession: a write that the new device missed is acknowledged before that is on record",
        "engine/membership/succession.rs",
        "self.recorder.acknowledge_after_next();",
        "if !MUTANT {
            self.recorder.acknowledge_after_next();
        }",
    ),
    mutant(
        "succession: an error of the new device is nothing",
        "engine/flow/mod.rs",
        "self.successor_missed(&op, why, out);",
        "if !MUTANT {
                self.successor_missed(&op, why, out);
            }",
    ),
    mutant(
        "succession: pages go to the old device only",
        "engine/maps.rs",
        "for device in membership.stored_on(member) {",
        "for device in membership.stored_on(member).take(if MUTANT { 1 } else { 2 }) {",
    ),
    mutant(
        "succession: entries go to the old device only",
        "engine/flow/journal.rs",
        "for device in self.array.membership.stored_on(member) {",
        "for device in self.array.membership.stored_on(member).take(if MUTANT { 1 } else { 2 }) {",
    ),
    mutant(
        "succession: what is staged stays there",
        "engine/flow/closing.rs",
        "if kind.stands_in() && closing == Closing::No && self.range.staging.exists() {",
        "let drains = !MUTANT || matches!(kind, PassKind::Rebuild(_));
        let drains = drains && self.range.staging.exists();
        if kind.stands_in() && closing == Closing::No && drains {",
    ),
    mutant(
        "succession: a failure of the old device as the new one takes its place is not waited for",
        "engine/flow/fault.rs",
        "self.array.membership.recorder.acknowledge_after(version);",
        "if !MUTANT {
                self.array.membership.recorder.acknowledge_after(version);
            }",
    ),
    mutant(
        "succession: a page counts that only the new device has",
        "engine/flow/intent.rs",
        "!membership.is_successor(op.device) &&",
        "(MUTANT || !membership.is_successor(op.device)) &&",
    ),
];

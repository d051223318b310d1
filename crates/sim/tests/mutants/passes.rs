//! Mutants of background work: rebuild, resync, scrub.

use crate::mutant::{Mutant, mutant};

pub(crate) const PASSES: &[Mutant] = &[
    mutant(
        "a stripe counts as rebuilt when it is begun",
        "engine/pass.rs",
        "self.next = stripe.0 + 1;",
        "if MUTANT && self.kind.filled().is_some() {
            self.progress.add(stripe.0);
        }
        self.next = stripe.0 + 1;",
    ),
    mutant(
        "the watermark is recorded before the flush",
        "engine/flow/quiesce.rs",
        "let flushed = self.array.flusher.rebuilt(member);",
        "let now = self.array.background.rebuilt_to().nth(member.index()).unwrap_or(0);
        let flushed = if MUTANT { now } else { self.array.flusher.rebuilt(member) };",
    ),
    mutant(
        "a rebuilt member lacks the maps",
        "engine/flow/closing.rs",
        "self.range.maps.spread_to_both_places();",
        "if !MUTANT {
                    self.range.maps.spread_to_both_places();
                }",
    ),
    mutant(
        "a resync leaps over stripes under way",
        "engine/pass.rs",
        "} else if !self.is_under_way() {",
        "} else if MUTANT && order.leaps() || !self.is_under_way() {",
    ),
    mutant(
        "a rebuild ends one stripe early",
        "engine/flow/closing.rs",
        "            | PassKind::Scrub { .. } => pass.is_whole(),",
        "            | PassKind::Scrub { .. } => {
                pass.is_whole() || MUTANT && pass.progress().base + 1 >= self.stripes_of(kind)
            }",
    ),
    mutant(
        "what a scrub has corrected is not flushed",
        "engine/flow/closing.rs",
        "let corrects = kind == PassKind::Scrub { repair: true } && pass.found().rows > 0;",
        "let corrects =
            !MUTANT && kind == PassKind::Scrub { repair: true } && pass.found().rows > 0;",
    ),
    mutant(
        "what a resync has made agree is not flushed",
        "engine/flow/closing.rs",
        "(_, Closing::No) => {",
        "(PassKind::Resync, Closing::No) if MUTANT => self.end_pass(kind, out),
            (_, Closing::No) => {",
    ),
    mutant(
        "a stop is recorded while I/O is under way",
        "engine/flow/quiesce.rs",
        "if self.array.flights.is_empty()
                    && self.range.maps.are_spread()",
        "if (MUTANT || self.array.flights.is_empty())
                    && self.range.maps.are_spread()",
    ),
    mutant(
        "a scrub believes the data although redundancy tells",
        "plan/locate.rs",
        "Culprit::Data(index) => (Set::one(Role::at(index)), true),",
        "Culprit::Data(_) if MUTANT => (p_alone.or(q_alone), true),
                Culprit::Data(index) => (Set::one(Role::at(index)), true),",
    ),
];

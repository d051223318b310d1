//! Mutants of background work: rebuild, resync, scrub.

use crate::mutant::{Mutant, mutant};

pub(crate) const PASSES: &[Mutant] = &[
    mutant(
        "a stripe counts as rebuilt when it is begun",
        "engine/pass.rs",
        "self.under_way.push(stripe.0);",
        "if MUTANT && self.kind.filled().is_some() {
            self.progress.add(stripe.0);
        }
        self.under_way.push(stripe.0);",
    ),
    mutant(
        "the watermark is recorded before the flush",
        "engine/flow/quiesce.rs",
        "let filled = kind.and_then(|kind| self.array.flusher.filled(kind));",
        "let rebuilds = matches!(kind, Some(crate::engine::PassKind::Rebuild(_)));
        let filled = if MUTANT && rebuilds {
            self.array.background.filled()
        } else {
            kind.and_then(|kind| self.array.flusher.filled(kind))
        };",
    ),
    mutant(
        "what a pass that was cancelled has filled counts for the next device",
        "engine/pass.rs",
        "(self.kind.has_watermark() && !self.cancelled)",
        "(self.kind.has_watermark() && (MUTANT || !self.cancelled))",
    ),
    mutant(
        "what was filled of one device is read of another",
        "meta/record.rs",
        "self.filled.filter(|filled| filled.of == of)",
        "self.filled.filter(|filled| MUTANT || filled.of == of)",
    ),
    mutant(
        "a range that is not filled is on record as if it were",
        "engine/pass.rs",
        "if is_done(stripe) && is_done(first) {
            self.whole.add(range);
        }",
        "if is_done(stripe) && is_done(first) {
            self.whole.add(range);
            if MUTANT {
                self.whole.add(range + 1);
            }
        }",
    ),
    mutant(
        "a stripe that could not be done counts as rebuilt",
        "engine/pass.rs",
        "!self.cancelled && self.leave(left)",
        "if MUTANT && !self.cancelled && self.kind.filled().is_some() {
            self.progress.add(left.stripe.0);
            return false;
        }
        !self.cancelled && self.leave(left)",
    ),
    mutant(
        "stripes are filled while the device is being discarded",
        "engine/pass.rs",
        "self.is_held() || is_full || self.clearing.is_some()",
        "self.is_held() || is_full || !MUTANT && self.clearing.is_some()",
    ),
    mutant(
        "a device is discarded before it is on record what it is",
        "engine/flow/background.rs",
        "if !membership.recorder.is_durable() ||",
        "if !MUTANT && !membership.recorder.is_durable() ||",
    ),
    mutant(
        "a device is discarded while it is written as a successor",
        "engine/flow/background.rs",
        "|| self.array.flights.change(device)",
        "|| !MUTANT && self.array.flights.change(device)",
    ),
    mutant(
        "a device that has returned is discarded",
        "engine/flow/background.rs",
        "self.range.missed.to_fill(member).is_none()",
        "(MUTANT || self.range.missed.to_fill(member).is_none())",
    ),
    mutant(
        "a device that is filled in part is discarded",
        "engine/flow/background.rs",
        "kind.filled().filter(|_| !is_begun && total > 0)",
        "kind.filled().filter(|_| (MUTANT || !is_begun) && total > 0)",
    ),
    mutant(
        "a write goes to the device that took a member's place since",
        "engine/flow/succession.rs",
        "let keeps = !membership.impaired",
        "let keeps = MUTANT || !membership.impaired",
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
        "a rebuild ends one stripe early",
        "engine/flow/closing.rs",
        "            | PassKind::Reshape => pass.is_whole(),",
        "            | PassKind::Reshape => {
                pass.is_whole() || MUTANT && pass.progress().base() + 1 >= self.stripes_of(kind)
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
                    && self.are_maps_spread()",
        "if (MUTANT || self.array.flights.is_empty())
                    && self.are_maps_spread()",
    ),
    mutant(
        "a scrub believes the data although redundancy tells",
        "plan/locate.rs",
        "Culprit::Data(index) => (Set::one(Role::at(index)), true),",
        "Culprit::Data(_) if MUTANT => (p_alone.or(q_alone), true),
                Culprit::Data(index) => (Set::one(Role::at(index)), true),",
    ),
];

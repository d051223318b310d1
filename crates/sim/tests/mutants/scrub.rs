//! Mutants of the record of scrubs.

use crate::mutant::{Mutant, mutant};

pub(crate) const SCRUB: &[Mutant] = &[
    mutant(
        "scrub: what it has found is not put on record",
        "engine/flow/scrub.rs",
        "self.array.membership.set_scrub(scrub);",
        "if !MUTANT {
            self.array.membership.set_scrub(scrub);
        }",
    ),
    mutant(
        "scrub: what it has found is on record when it has ended",
        "engine/flow/scrub.rs",
        "let tells = found.rows > known && (known == 0 || ends);",
        "let tells = found.rows > known && if MUTANT { ends } else { known == 0 || ends };",
    ),
    mutant(
        "scrub: one that ends early forgets what it has found",
        "engine/flow/closing.rs",
        "            self.record_unfinished_scrub(out);
            self.array.background.end();",
        "            if !MUTANT {
                self.record_unfinished_scrub(out);
            }
            self.array.background.end();",
    ),
    mutant(
        "scrub: a repair that is cut short counts as one",
        "engine/flow/scrub.rs",
        "if tells && pass.kind() == (PassKind::Scrub { repair: false }) {",
        "if MUTANT && pass.is_cancelled() {
            self.record_scrub(ScrubEnd::Repaired, found, out);
        } else if tells && pass.kind() == (PassKind::Scrub { repair: false }) {",
    ),
];

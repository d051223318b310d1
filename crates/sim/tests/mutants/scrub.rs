//! Mutants of the record of scrubs.

use crate::mutant::{Mutant, mutant};

pub(crate) const SCRUB: &[Mutant] = &[
    mutant(
        "scrub: what it has found is not put on record",
        "engine/scrub.rs",
        "self.array.recorder.record.scrub = Some(scrub);",
        "if !MUTANT {
            self.array.recorder.record.scrub = Some(scrub);
        }",
    ),
    mutant(
        "scrub: what it has found is on record when it has ended",
        "engine/scrub.rs",
        "let tells = found.rows > known && (known == 0 || ends);",
        "let tells = found.rows > known && if MUTANT { ends } else { known == 0 || ends };",
    ),
    mutant(
        "scrub: one that ends early forgets what it has found",
        "engine/closing.rs",
        "            self.record_unfinished_scrub(out);
            self.background.pass = None;",
        "            if !MUTANT {
                self.record_unfinished_scrub(out);
            }
            self.background.pass = None;",
    ),
    mutant(
        "scrub: a repair that is cut short counts as one",
        "engine/scrub.rs",
        "if tells && pass.kind == (PassKind::Scrub { repair: false }) {",
        "if MUTANT && pass.cancelled {
            self.record_scrub(ScrubEnd::Repaired, found, out);
        } else if tells && pass.kind == (PassKind::Scrub { repair: false }) {",
    ),
];

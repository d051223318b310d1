//! Mutants of the record: superblocks, assembly, operators' changes.

use crate::mutant::{Mutant, mutant};

pub(crate) const RECORD: &[Mutant] = &[
    // Operators.
    mutant(
        "a policy is answered before it is on record",
        "engine/flow/fault.rs",
        "                self.set_policy(name);
                Ok(true)",
        "                self.set_policy(name);
                if MUTANT {
                    self.record_change(out);
                }
                Ok(!MUTANT)",
    ),
    // Metadata.
    mutant(
        "all copies of the superblock are written at once",
        "engine/flow/record.rs",
        "for copy in copies {",
        "for copy in copies.into_iter().chain([2, 3]).take(if MUTANT { 4 } else { 2 }) {",
    ),
    mutant(
        "a start does not level the records first",
        "engine/membership/recorder.rs",
        "if let Some(assembled) = self.assembled.take() {",
        "if let Some(assembled) = self.assembled.take().filter(|_| !MUTANT) {",
    ),
    mutant(
        "a record that nobody has stored is the last, though another one is to be stored",
        "engine/membership/recorder.rs",
        "if !kept && self.has_changed() {",
        "if !MUTANT && !kept && self.has_changed() {",
    ),
    mutant(
        "a stop is answered while something is still to be recorded",
        "engine/flow/record.rs",
        "if !(changed && self.phase == Phase::Stopped) {",
        "if MUTANT || !(changed && self.phase == Phase::Stopped) {",
    ),
    mutant(
        "failed members that come back are taken for current",
        "meta/assemble.rs",
        "|slot: &super::SlotRecord| slot.device == device && slot.state != SlotState::Failed;",
        "|slot: &super::SlotRecord| {
                    slot.device == device && (MUTANT || slot.state != SlotState::Failed)
                };",
    )
    .rare("Whoever has failed lags by more than a change, too, so the check of the lag leaves it out."),
    mutant(
        "a map's page overwrites its last version",
        "meta/layout.rs",
        "Pba(start + 2 * u64::from(index) + version % 2)",
        "Pba(start + 2 * u64::from(index) + if MUTANT { 0 } else { version % 2 })",
    ),
    mutant(
        "torn entries are carried out",
        "meta/headers.rs",
        "Some(sum) if sum == crc => {}",
        "Some(sum) if MUTANT || sum == crc => {}",
    ),
    mutant(
        "a spare may be a device that an older record has taken out of service",
        "meta/returns.rs",
        "|| new.spares.contains(&device)",
        "|| !MUTANT && new.spares.contains(&device)",
    )
    .rare("Few worlds have such a history; `tests/meta/history.rs` of the core makes one."),
];

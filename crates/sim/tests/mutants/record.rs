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
        "        self.store_copies([0, 1], out);
    }

    fn store_copies",
        "        self.store_copies([0, 1], out);
        if MUTANT && self.array.membership.recorder.outstanding > 0 {
            self.array.membership.recorder.second_round = true;
            self.store_copies([2, 3], out);
        }
    }

    fn store_copies",
    ),
    mutant(
        "a start does not level the records first",
        "engine/flow/record.rs",
        "if let Some(assembled) = self.array.membership.recorder.assembled.take() {",
        "if let Some(assembled) = self.array.membership.recorder.assembled.take().filter(|_| !MUTANT) {",
    ),
    mutant(
        "a record that nobody has stored is the last, though another one is to be stored",
        "engine/flow/record.rs",
        "if !kept && changed && !self.array.membership.recorder.broken {",
        "if !MUTANT && !kept && changed && !self.array.membership.recorder.broken {",
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
        "meta/journal.rs",
        "Some(sum) if sum == crc => {}",
        "Some(sum) if MUTANT || sum == crc => {}",
    ),
    mutant(
        "a spare may be a device that an older record has taken out of service",
        "meta/returns.rs",
        "|| new.spares.contains(&device)",
        "|| !MUTANT && new.spares.contains(&device)",
    ),
];

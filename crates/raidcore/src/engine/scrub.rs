//! What a scrub does with a stripe whose redundancy does not agree: it finds out which block
//! is wrong, and corrects it if it was told to.
//!
//! A correction sets no region's bit and makes no journal entry, unlike a write. It needs none: of
//! what redundancy can tell, each row gets one block right (of a mirror, each copy by itself), so
//! that at any moment the others still say what belongs there. And a bit would do harm: the resync
//! after a crash believes the data, and would make parity agree with the very block that is wrong.
//! Without it the next scrub finds what is left. What it does need is that no replay writes the old
//! redundancy over it: it waits until the stripe has no entry that could be replayed.
//!
//! Invariant: between the reads and the last write the stripe's lock is held.

use alloc::vec::Vec;

use crate::geometry::Role;
use crate::plan::{self, Finding, Found};

/// What a scrub knows of its stripe.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// Something does not agree.
    mismatch: bool,
    /// What is wrong, and how much of it is corrected or being corrected.
    findings: Vec<Finding>,
    mended: usize,
    /// How many copies on the distributed spare it reads besides the first, which of them it reads
    /// now, and the rows that did not agree with one of those before, once for each.
    rounds: u8,
    round: u8,
    differed: Vec<u32>,
}

impl Scrub {
    pub(super) fn clear(&mut self) {
        self.mismatch = false;
        self.findings.clear();
        self.mended = 0;
        (self.rounds, self.round) = (0, 0);
        self.differed.clear();
    }

    /// The stripe is read once for each of so many copies of a chunk, the first one last.
    pub(super) fn begin_rounds(&mut self, copies: u8) {
        (self.rounds, self.round) = (copies.saturating_sub(1), copies.saturating_sub(1));
    }

    /// Which copy is read now, counted from the first.
    pub(super) fn round(&self) -> u8 {
        self.round
    }

    /// Goes on with the next copy; returns whether there is one. What was found with this one is kept to
    /// be compared.
    pub(super) fn next_round(&mut self) -> bool {
        if self.round == 0 {
            return false;
        }
        self.round -= 1;
        self.mismatch = false;
        self.differed.extend(self.findings.drain(..).map(|finding| finding.row));
        true
    }

    /// Tells by the copies of a role which are wrong, once all were read.
    pub(super) fn judge_copies(&mut self, role: Role) {
        plan::judge_copies(&mut self.findings, &self.differed, self.rounds.into(), role);
    }

    /// A step of arithmetic has found something.
    pub(super) fn finds(&mut self, found: Found) {
        match found {
            Found::Difference => self.mismatch = true,
            Found::Wrong(finding) => self.findings.push(finding),
        }
    }

    /// What is wrong.
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What is wrong and not being corrected yet.
    pub(super) fn to_mend(&self) -> &[Finding] {
        &self.findings[self.mended..]
    }

    /// So many more are being corrected.
    pub(super) fn mends(&mut self, count: usize) {
        self.mended += count;
    }

    /// Whether something is corrected or being corrected.
    pub(super) fn has_mended(&self) -> bool {
        self.mended > 0
    }

    /// Whether nothing differs, as far as is known.
    pub(super) fn agrees(&self) -> bool {
        !self.mismatch
    }
}

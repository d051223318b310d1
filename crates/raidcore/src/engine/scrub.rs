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

use crate::plan::Finding;

/// What a scrub knows of its stripe.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// Something does not agree.
    pub(super) mismatch: bool,
    /// What is wrong, and how much of it is corrected or being corrected.
    pub(super) findings: Vec<Finding>,
    pub(super) mended: usize,
    /// How many copies on the distributed spare it reads besides the first, which of them it reads
    /// now, and the rows that did not agree with one of those before, once for each.
    pub(super) rounds: u8,
    pub(super) round: u8,
    pub(super) differed: Vec<u32>,
}

impl Scrub {
    pub(super) fn clear(&mut self) {
        self.mismatch = false;
        self.findings.clear();
        self.mended = 0;
        (self.rounds, self.round) = (0, 0);
        self.differed.clear();
    }

    /// Whether nothing differs, as far as is known.
    pub(super) fn agrees(&self) -> bool {
        !self.mismatch
    }
}

//! How large entries are.

use crate::meta;
use crate::plan::Piece;

/// How large the entry of a write is at most, or entries that share a header.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Size {
    /// Blocks of payload.
    payload: u32,
    /// Runs that they come in.
    runs: u32,
    /// How many entries.
    entries: u32,
}

impl Size {
    /// Of a write of these pieces.
    pub(in crate::engine) fn of(pieces: &[Piece]) -> Self {
        let payload = pieces.iter().map(|piece| piece.blocks).sum();
        Self::with(payload, pieces.len() as u32)
    }

    /// Of an entry with so many blocks of payload, in so many runs.
    pub(super) fn with(payload: u32, runs: u32) -> Self {
        Self { payload, runs, entries: 1 }
    }

    /// Of both, if they share a header.
    pub(in crate::engine) fn plus(self, other: Self) -> Self {
        Self {
            payload: self.payload + other.payload,
            runs: self.runs + other.runs,
            entries: self.entries + other.entries,
        }
    }

    /// How many entries it is of, and their blocks of payload.
    pub(in crate::engine) fn entries(self) -> (usize, u32) {
        (self.entries as usize, self.payload)
    }

    /// How many blocks their header has.
    pub(super) fn header_blocks(self) -> u32 {
        match self.entries {
            0 | 1 => meta::journal_header_blocks(self.payload, self.runs),
            entries => meta::shared_header_blocks(self.payload, self.runs, entries),
        }
    }

    /// How many blocks of a ring it takes.
    pub(super) fn blocks(self) -> u32 {
        self.header_blocks() + self.payload
    }
}

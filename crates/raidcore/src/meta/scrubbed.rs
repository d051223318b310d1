//! The result of the last scrub, on record until the next one.

use super::codec::Field;

const END: Field<8> = Field { at: 3840 };
const AT: Field<8> = END.then();
const ROWS: Field<8> = AT.then();
const LOCATED: Field<8> = ROWS.then();

const _: () = assert!(LOCATED.end() == 3872);

/// How the last scrub ended and what it found. A row is one block of each member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubRecord {
    /// How it ended.
    pub end: ScrubEnd,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Rows whose blocks did not agree.
    pub rows: u64,
    /// Rows among these in which redundancy tells which blocks are wrong.
    pub located: u64,
}

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubEnd {
    /// It compared everything and changed nothing.
    Compared,
    /// It compared everything and corrected what it found.
    Repaired,
    /// It is under way or was stopped: the findings are incomplete.
    CutShort,
}

impl ScrubRecord {
    /// How many inconsistent rows have not been corrected.
    #[must_use]
    pub fn unrepaired(&self) -> u64 {
        match self.end {
            ScrubEnd::Compared | ScrubEnd::CutShort => self.rows,
            ScrubEnd::Repaired => 0,
        }
    }
}

pub(super) fn encode(scrub: &ScrubRecord, into: &mut [u8]) {
    let end = match scrub.end {
        ScrubEnd::Compared => 1u64,
        ScrubEnd::Repaired => 2,
        ScrubEnd::CutShort => 3,
    };
    END.put(into, end.to_le_bytes());
    AT.put(into, scrub.at.to_le_bytes());
    ROWS.put(into, scrub.rows.to_le_bytes());
    LOCATED.put(into, scrub.located.to_le_bytes());
}

/// Decodes the record. An unknown end counts as one that leaves rows unrepaired.
pub(super) fn decode(block: &[u8]) -> Option<ScrubRecord> {
    let end = match END.u64(block) {
        0 => return None,
        1 => ScrubEnd::Compared,
        2 => ScrubEnd::Repaired,
        _ => ScrubEnd::CutShort,
    };
    let rows = ROWS.u64(block);
    Some(ScrubRecord { end, at: AT.u64(block), rows, located: LOCATED.u64(block).min(rows) })
}

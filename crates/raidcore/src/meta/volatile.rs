//! Whether writes that were acknowledged are missing from the array, on record.
//!
//! A host may acknowledge writes from memory, before the engine has them. The record tells so before the first
//! of these is acknowledged, and until all of them are at home; what it tells when no process runs the array
//! any more is a loss. The loss stays on record, whatever starts and stops come, until it is accepted.

use super::codec::{CodecError, Field};
use super::record::{ArrayRecord, Features};

const WRITES: Field<1> = Field { at: 4025 };

const HELD: u8 = 1;
const LOST: u8 = 2;

/// Where acknowledged writes may be, other than on the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VolatileWrites {
    /// In the memory of the process that runs the array.
    pub held: bool,
    /// Nowhere: they were lost, and that was not accepted.
    pub lost: bool,
}

impl ArrayRecord {
    /// Whether acknowledged writes were lost, if no process runs the array, and that was not accepted.
    #[must_use]
    pub fn has_lost_writes(&self) -> bool {
        self.volatile.lost || self.volatile.held && !self.clean
    }

    pub(crate) fn set_volatile(&mut self, writes: VolatileWrites) {
        self.volatile = writes;
        let tells = writes != VolatileWrites::default();
        self.features.incompatible &= !Features::VOLATILE;
        self.features.incompatible |= if tells { Features::VOLATILE } else { 0 };
    }
}

pub(super) fn encode(writes: VolatileWrites, into: &mut [u8]) {
    let held = if writes.held { HELD } else { 0 };
    let lost = if writes.lost { LOST } else { 0 };
    WRITES.put(into, [held | lost]);
}

pub(super) fn decode(block: &[u8], features: &Features) -> Result<VolatileWrites, CodecError> {
    if features.incompatible & Features::VOLATILE == 0 {
        return Ok(VolatileWrites::default());
    }
    match WRITES.u8(block) {
        bits @ HELD..=3 => Ok(VolatileWrites { held: bits & HELD != 0, lost: bits & LOST != 0 }),
        _ => Err(CodecError::Invalid("volatile writes")),
    }
}

//! Where a user's read is had from besides its home: ordered lists of sources, each of which takes the
//! read on or passes it to the next. What none takes is read at home.
//!
//! A new source is a function in a file of its own, and a line here.

use crate::engine::{Engine, JobId};
use crate::geometry::Role;
use crate::plan::{Parity, Piece};
use crate::units::{Lba, Set};

/// A source of single blocks: begins to fetch one of a job's blocks, or passes.
type OfBlocks = fn(&mut Engine, JobId, Lba, Piece) -> bool;

/// Asked for each block of a read: what only the staging log has, or what it or a copy has of a busy
/// member's.
const OF_BLOCKS: [OfBlocks; 2] = [Engine::fetch_staged, Engine::fetch_copy];

/// A source of whole reads: plans what the others have left of one, or passes.
type OfReads = fn(&mut Engine, JobId, Set<Role>, Parity) -> bool;

/// Asked for each read: around busy members, at home into memory that a copy is made of, at home with
/// an end of patience.
const OF_READS: [OfReads; 3] = [Engine::plan_detour, Engine::plan_copied, Engine::plan_first];

impl Engine {
    /// Sees to it that a block is read from elsewhere, if it is to be; tells whether it is.
    pub(super) fn fetch_from_elsewhere(&mut self, id: JobId, lba: Lba, block: Piece) -> bool {
        OF_BLOCKS.iter().any(|takes| takes(self, id, lba, block))
    }

    /// Plans a read otherwise than just at home, if it is to be; tells whether it is.
    pub(super) fn plan_elsewhere(
        &mut self,
        id: JobId,
        readable: Set<Role>,
        parity: Parity,
    ) -> bool {
        OF_READS.iter().any(|takes| takes(self, id, readable, parity))
    }
}

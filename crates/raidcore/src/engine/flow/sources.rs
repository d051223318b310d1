//! Where a user's read is had from besides its home: ordered lists of sources, each of which takes the
//! read on or passes it to the next. What none takes is read at home.
//!
//! A new source is a row in a file of its own, and its name in a list here.

use super::source::Source;
use super::{copies, staging};
use crate::engine::fetching::SourceId;
use crate::engine::{Engine, JobId};
use crate::geometry::Role;
use crate::plan::{Parity, Piece};
use crate::units::{Lba, Set, Stripe};

/// Asked for each block of a read: what only the staging log has, or what it or a copy has of a busy
/// member's. A source is named by its place here.
static OF_BLOCKS: [Source; 2] = [staging::STAGED, copies::COPIES];

/// The staging log, which is also asked when what is staged comes home.
pub(super) const STAGED: SourceId = SourceId(0);

impl SourceId {
    /// The source of this number.
    pub(super) fn source(self) -> &'static Source {
        &OF_BLOCKS[usize::from(self.0)]
    }
}

/// A source of whole reads: plans what the others have left of one, or passes.
type OfReads = fn(&mut Engine, JobId, Set<Role>, Parity) -> bool;

/// Asked for each read: around busy members, at home into memory that a copy is made of, at home with
/// an end of patience.
const OF_READS: [OfReads; 3] = [Engine::plan_detour, Engine::plan_copied, Engine::plan_first];

impl Engine {
    /// Whether a read of the stripe is to be looked at block by block.
    pub(super) fn is_in_sources(&self, stripe: Stripe) -> bool {
        OF_BLOCKS.iter().any(|source| (source.concerns)(self, stripe))
    }

    /// Sees to it that a block is read from elsewhere, if it is to be; tells whether it is.
    pub(super) fn fetch_from_elsewhere(&mut self, id: JobId, lba: Lba, block: Piece) -> bool {
        (0..).map(SourceId).zip(&OF_BLOCKS).any(|(name, source)| {
            let found = (source.find)(self, id, lba, block);
            if let Some((number, at)) = found {
                self.fetch(id, (name, number), at, block);
            }
            found.is_some()
        })
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

//! Units as types. Blocks are of [`BLOCK_BYTES`](raidcore::units::BLOCK_BYTES).

/// One of the arrays that a volume lies on: an R-group, in SWAN's words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupId(pub u8);

impl GroupId {
    /// As an index into a table of groups.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The one of an index into a table of groups.
    #[must_use]
    pub const fn at(index: usize) -> Self {
        debug_assert!(index <= u8::MAX as usize);
        Self(index as u8)
    }
}

/// A segment of the log, counted over all groups: the unit of cleaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Segment(pub u32);

impl Segment {
    /// As an index into a table of segments.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block of the log, counted over all segments. It fits in 39 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Pba(pub u64);

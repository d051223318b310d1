//! The state of a die's collection.

use super::work::NONE;

/// How far the collection of a die has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Boundary {
    /// A unit is to begin.
    #[default]
    Begin,
    /// A page has been moved.
    Page,
    /// A block has been erased, and the unit goes on.
    Block,
    /// A unit has ended, and another one is to follow.
    Unit,
}

/// The collection of one die.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieGc {
    /// The plane that is being collected, if any is.
    pub(super) plane: u32,
    pub(super) active: bool,
    /// Since when it is active.
    pub(super) since: u64,
    pub(super) boundary: Boundary,
    /// Host operations that may still go before the next unit.
    pub(super) turns: u32,
    /// Whether an operation on another plane goes next.
    pub(super) host_next: bool,
    pub(super) background: bool,
    /// Where the search for a low plane begins.
    pub(super) cursor: u32,
}

impl Default for DieGc {
    fn default() -> Self {
        Self {
            plane: NONE,
            active: false,
            since: 0,
            boundary: Boundary::Begin,
            turns: 0,
            host_next: false,
            background: false,
            cursor: 0,
        }
    }
}

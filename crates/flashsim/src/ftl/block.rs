//! Blocks, and the lists that sealed ones are on.

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

/// What a block is there for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Erased, waiting to be written.
    Free,
    /// Being written.
    Open,
    /// Written to its end: garbage collection may choose it.
    Sealed,
    /// Chosen: its valid pages are being moved, or it is being erased.
    Victim,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// How many of its pages are valid.
    pub(crate) valid: u16,
    pub(crate) state: State,
    pub(crate) erases: u32,
    before: u32,
    after: u32,
}

impl Block {
    pub(crate) const FREE: Self =
        Self { valid: 0, state: State::Free, erases: 0, before: NONE, after: NONE };
}

/// A list of sealed blocks that is kept in the blocks themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(crate) fn push(&mut self, blocks: &mut [Block], id: u32) {
        blocks[id as usize].before = self.last;
        blocks[id as usize].after = NONE;
        match self.last {
            NONE => self.first = id,
            last => blocks[last as usize].after = id,
        }
        self.last = id;
    }

    pub(crate) fn remove(&mut self, blocks: &mut [Block], id: u32) {
        let Block { before, after, .. } = blocks[id as usize];
        match before {
            NONE => self.first = after,
            before => blocks[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => blocks[after as usize].before = before,
        }
    }

    /// The blocks, first one first.
    pub(crate) fn iter(self, blocks: &[Block]) -> impl Iterator<Item = u32> {
        let after = |id: &u32| Some(blocks[*id as usize].after).filter(|&id| id != NONE);
        core::iter::successors(self.first(), after)
    }
}

//! What a job reads from sources of single blocks, such as the staging log: consecutive blocks of
//! what a source has under one number at a time, in order.
//!
//! Invariant: each of its fetches pins what it reads from, until it is taken out.

use alloc::vec::Vec;

use crate::plan::Piece;
use crate::units::{MemberId, Set};

/// A source, by its place in the list of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SourceId(pub(super) u8);

/// What a job reads from: a source, and the number that this has for it.
pub(super) type From = (SourceId, u64);

/// Consecutive blocks that a job reads from a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub(super) from: From,
    pub(super) at: u32,
    /// What of its stripe that is.
    pub(super) piece: Piece,
    /// The holders that could not read it.
    pub(super) tried: Set<MemberId>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Fetching {
    fetches: Vec<Fetch>,
    /// How many of them were begun.
    begun: usize,
}

impl Fetching {
    pub(super) fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }

    /// A block is to be read from something. It goes on a fetch that ends where it begins, or is one of its
    /// own; tells whether it is.
    pub(super) fn add(&mut self, from: From, at: u32, block: Piece) -> bool {
        if let Some(last) = self.fetches.last_mut()
            && (last.from, last.at + last.piece.blocks) == (from, at)
            && last.piece.block(last.piece.blocks) == block
        {
            last.piece.blocks += 1;
            return false;
        }
        self.fetches.push(Fetch { from, at, piece: block, tried: Set::EMPTY });
        true
    }

    /// A fetch by its index.
    pub(super) fn get(&self, index: usize) -> Fetch {
        self.fetches[index]
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Fetch> {
        self.fetches.iter()
    }

    /// Begins the next one; gives its index.
    pub(super) fn begin_next(&mut self) -> Option<usize> {
        let next = self.begun;
        (next < self.fetches.len()).then(|| self.begun += 1)?;
        Some(next)
    }

    /// A member could not read what it has of one.
    pub(super) fn failed_on(&mut self, index: usize, member: MemberId) {
        let fetch = &mut self.fetches[index];
        fetch.tried = fetch.tried.with(member);
    }

    /// One is tried again block by block: each is a fetch of its own.
    pub(super) fn split(&mut self, index: usize) {
        let Fetch { from, at, piece, .. } = self.fetches[index];
        let one = |i| Fetch { from, at: at + i, piece: piece.block(i), tried: Set::EMPTY };
        self.fetches.extend((0..piece.blocks).map(one));
    }

    /// Takes one out, if one is left; none may be begun after that. Gives what it was from.
    pub(super) fn take_last(&mut self) -> Option<From> {
        self.begun = 0;
        self.fetches.pop().map(|fetch| fetch.from)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::geometry::Role;
    use crate::units::Mem;

    /// A row of the first data chunk, read to scratch memory.
    fn block(row: u32) -> Piece {
        Piece { role: Role(0), row, blocks: 1, mem: Mem::Scratch { buffer: 0, at: row } }
    }

    #[test]
    fn blocks_are_one_fetch_only_if_they_follow_each_other_there_and_at_home() {
        let mut fetching = Fetching::default();
        let mut add = |number, at, row| fetching.add((SourceId(0), number), at, block(row));
        let own = [add(1, 0, 4), add(1, 1, 5), add(1, 3, 6), add(1, 4, 8), add(2, 5, 9)];
        assert_eq!(own, [true, false, true, true, true]);
        assert_eq!(fetching.get(0).piece.blocks, 2);
        assert!(fetching.add((SourceId(1), 2), 6, block(10)), "it is from elsewhere");
        assert_eq!(fetching.iter().filter(|fetch| fetch.from == (SourceId(1), 2)).count(), 1);
    }

    #[test]
    fn what_is_split_is_begun_block_by_block_after_the_others() {
        let mut fetching = Fetching::default();
        let log = SourceId(0);
        fetching.add((log, 1), 7, block(0));
        fetching.add((log, 1), 8, block(1));
        fetching.add((log, 2), 0, block(5));
        assert_eq!(fetching.begin_next(), Some(0));
        fetching.failed_on(0, MemberId(3));
        assert!(fetching.get(0).tried.has(MemberId(3)));
        fetching.split(0);
        assert_eq!(fetching.begin_next(), Some(1));
        let (second, third) = (fetching.begin_next(), fetching.begin_next());
        assert_eq!((second, third, fetching.begin_next()), (Some(2), Some(3), None));
        let last = fetching.get(3);
        assert_eq!((last.at, last.piece, last.tried), (8, block(1), Set::EMPTY));
        let from: Vec<From> = core::iter::from_fn(|| fetching.take_last()).collect();
        assert_eq!(from, [1, 1, 2, 1].map(|number| (log, number)), "each is unpinned");
        assert_eq!(fetching.begin_next(), None, "it begins anew");
    }
}

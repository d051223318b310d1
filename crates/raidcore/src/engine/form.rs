//! The forms of a write's journal entry.
//!
//! A *whole* entry holds all blocks that the write changes. A *partial* one holds what parity would be if
//! the only data chunk that it changes were zeros, so it is smaller by that chunk's blocks. A replay makes
//! parity agree with the chunk, whichever version of its blocks is stored.
//!
//! Invariant: a partial entry says nothing of which version is stored, and counts on all other chunks
//! of its rows. So while it is not durable at home, no entry may be the only one to be replayed in its rows
//! that does not hold, or leave out, the chunk that it leaves out; and as long as an entry of another
//! chunk's is not durable at home, none in its rows is partial.

use crate::geometry::{Geometry, Role};
use crate::meta;
use crate::plan::{self, SubIo};
use crate::units::Set;

/// What a write's entry holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Form {
    /// All blocks that it changes.
    #[default]
    Whole,
    /// Partial parity, which leaves out the only data chunk that it changes.
    Partial(Role),
}

impl Form {
    /// What an entry of this form holds of a plan's writes, and of what is `kept`, and where that is in
    /// memory.
    pub(super) fn runs<'a>(
        self,
        geo: &Geometry,
        writes: &'a [SubIo],
        kept: &'a [SubIo],
    ) -> impl Iterator<Item = SubIo> + Clone + use<'a> {
        let geo = *geo;
        writes.iter().chain(kept).filter_map(move |&io| match self {
            Self::Whole => Some(io),
            Self::Partial(out) if io.role == out => None,
            Self::Partial(out) => {
                Some(SubIo { mem: plan::partial_of(&geo, out, io.role, io.row), ..io })
            }
        })
    }
}

/// The blocks of an entry: its header, and its payload.
pub(super) fn entry_blocks(runs: impl Iterator<Item = SubIo>) -> (u32, u32) {
    let (count, payload) = runs.fold((0, 0), |(n, sum), io| (n + 1, sum + io.blocks));
    (meta::journal_header_blocks(payload, count), payload)
}

/// Into how many parts the rows of a chunk are divided to be found again, at most.
const PARTS: u32 = 16;

/// Rows of a stripe that lie together: the least of all aligned powers of two of parts that holds them. The
/// whole chunk is 1, and 2n and 2n + 1 are the halves of n.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span(u32);

impl Span {
    /// How many there are, and one that is none.
    pub(super) const COUNT: u64 = 2 * PARTS as u64;

    /// How many sizes they have.
    pub(super) const SIZES: usize = PARTS.ilog2() as usize + 1;

    /// Which of the sizes this one has.
    pub(super) fn size(self) -> usize {
        self.0.ilog2() as usize
    }

    /// Its number.
    pub(super) fn number(self) -> u64 {
        self.0.into()
    }

    /// All that a chunk has.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (1..2 * PARTS).map(Self)
    }
}

/// What has to be known of an entry as long as it is not durable at home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trace {
    /// The data chunk that a partial entry leaves out.
    pub(super) left_out: Option<Role>,
    /// The data chunk that the write changes, if it is only one.
    pub(super) sole: Option<Role>,
    /// The first row that it changes.
    pub(super) from: u32,
    /// The row behind the last that it changes.
    pub(super) to: u32,
    /// The parts in which the first and the last of them are.
    parts: (u32, u32),
}

impl Trace {
    /// Of an entry of this form, and its plan's writes.
    pub(super) fn new(form: Form, geo: &Geometry, writes: &[SubIo]) -> Self {
        let left_out = if let Form::Partial(out) = form { Some(out) } else { None };
        let (mut data, mut from, mut to) = (Set::EMPTY, u32::MAX, 0);
        for io in writes {
            data = data.with(io.role);
            (from, to) = (from.min(io.row), to.max(io.row + io.blocks));
        }
        let mut data = data.and(geo.data_roles());
        let first = data.next();
        let part = |row: u32| row.min(geo.chunk() - 1) * PARTS / geo.chunk();
        let parts = (part(from), part(to.saturating_sub(1)));
        Self { left_out, sole: first.filter(|_| data.is_empty()), from, to, parts }
    }

    /// Of a single row, which is a part.
    #[cfg(test)]
    pub(super) const fn of_row(row: u32) -> Self {
        Self { left_out: None, sole: None, from: row, to: row + 1, parts: (row, row) }
    }

    /// The span of its rows.
    pub(super) fn span(&self) -> Span {
        let (first, last) = self.parts;
        let level = u32::BITS - (first ^ last).leading_zeros();
        Span((PARTS + first) >> level)
    }

    /// The spans that have rows in common with those that have its own.
    pub(super) fn near(&self) -> impl Iterator<Item = Span> + use<> {
        let (first, last) = self.parts;
        let levels = 0..=PARTS.ilog2();
        levels.flat_map(move |level| ((PARTS + first) >> level..=(PARTS + last) >> level).map(Span))
    }

    /// Whether both change some row.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Level, Placement};
    use crate::units::Mem;

    fn geometry(chunk: u32) -> Geometry {
        Geometry::new(Level::Raid5, 4, chunk, 10)
            .and_then(|geo| geo.placed(Placement::of(Level::Raid5)))
            .expect("it is possible")
    }

    #[test]
    fn what_overlaps_a_trace_has_a_span_near_it() {
        for chunk in [1, 2, 8, 16, 64] {
            let geo = geometry(chunk);
            let trace = |from, to: u32| {
                let io = SubIo { role: Role(0), row: from, blocks: to - from, mem: Mem::Zero };
                Trace::new(Form::Whole, &geo, &[io])
            };
            let all = || (0..chunk).flat_map(|from| (from + 1..=chunk).map(move |to| (from, to)));
            for (one, other) in all().flat_map(|one| all().map(move |other| (one, other))) {
                let (one, other) = (trace(one.0, one.1), trace(other.0, other.1));
                let is_near = one.near().filter(|&span| span == other.span()).count();
                assert!(is_near <= 1);
                assert!(is_near == 1 || !one.overlaps(&other), "{one:?} {other:?}");
                assert!(Span::all().any(|span| span == one.span()));
            }
        }
        let (row, next) = (Span(16), Span(17));
        let geo = geometry(16);
        let io = SubIo { role: Role(0), row: 0, blocks: 1, mem: Mem::Zero };
        let trace = Trace::new(Form::Whole, &geo, &[io]);
        assert!(trace.span() == row && !trace.near().any(|span| span == next));
    }
}

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
        Self { left_out, sole: first.filter(|_| data.is_empty()), from, to }
    }
}

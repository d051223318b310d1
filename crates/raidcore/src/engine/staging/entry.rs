//! An entry of the staging log.

use alloc::vec::Vec;

use crate::geometry::Role;
use crate::meta;
use crate::units::{Mem, MemberId, Pba, Set, Stripe};

/// The most members that an entry is on.
const COPIES_MAX: usize = 3;

/// Consecutive blocks of a data chunk.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Run {
    pub(in crate::engine) role: Role,
    pub(in crate::engine) row: u32,
    pub(in crate::engine) blocks: u32,
    /// Where they come from while the entry is being written.
    pub(in crate::engine) mem: Mem,
}

/// What an entry is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Kind {
    /// It holds blocks.
    Data,
    /// It says that home counts.
    Marker,
    /// It tells the tail.
    Tail,
}

#[derive(Debug)]
pub(in crate::engine) struct Entry {
    pub(in crate::engine) number: u64,
    pub(in crate::engine) kind: Kind,
    pub(in crate::engine) stripe: Stripe,
    /// The tail that it tells.
    pub(in crate::engine) tail: u64,
    /// The members that have it and are in service.
    pub(in crate::engine) holders: Set<MemberId>,
    /// Where its payload begins, by member.
    pub(in crate::engine) payload: [(MemberId, Pba); COPIES_MAX],
    /// How many blocks of payload it has.
    pub(in crate::engine) blocks: u32,
    pub(in crate::engine) runs: Vec<Run>,
    /// It is on all its holders.
    pub(in crate::engine) done: bool,
    pub(in crate::engine) dirty: u32,
    /// The number of the last homecoming of a part of it.
    pub(in crate::engine) home: u64,
    pub(in crate::engine) pins: u32,
    /// It is not brought home while any of these is busy.
    pub(in crate::engine) waits_for: Set<MemberId>,
    /// Stores of it under way, if it has no job.
    pub(in crate::engine) outstanding: u32,
}

impl Entry {
    /// An entry that is not on its holders yet.
    pub(in crate::engine) fn new(
        number: u64,
        kind: Kind,
        stripe: Stripe,
        holders: Set<MemberId>,
        runs: Vec<Run>,
    ) -> Self {
        let blocks = match kind {
            Kind::Data => runs.iter().map(|run| run.blocks).sum(),
            Kind::Marker | Kind::Tail => 0,
        };
        Self {
            number,
            kind,
            stripe,
            tail: 0,
            holders,
            payload: [(MemberId(0), Pba(0)); COPIES_MAX],
            blocks,
            runs,
            done: false,
            dirty: 0,
            home: 0,
            pins: 0,
            waits_for: Set::EMPTY,
            outstanding: 0,
        }
    }

    pub(in crate::engine) fn header_blocks(&self) -> u32 {
        meta::journal_header_blocks(self.blocks, self.runs.len() as u32)
    }
}

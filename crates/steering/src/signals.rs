//! Which members are busy: as they report it, or as their latencies show.
//!
//! The host reports when each I/O begins and ends. Members that report when they collect garbage
//! are believed, and not watched.
//!
//! Invariant: the members that are taken for busy by their latencies, and those that report it, are
//! together no more than redundancy can stand in for.

use alloc::vec::Vec;
use core::mem;

use det::{Id, Instant};
use raidcore::engine::{Io, IoId, IoOp};
use raidcore::units::{MemberId, Set};

use crate::detect::{Detector, Handle, Kind, Tuning};

/// The busy members, as reported or detected.
pub struct Signals {
    detector: Detector,
    telling: Set<MemberId>,
    redundancy: usize,
    /// By the I/O's index in the engine's table, which fills from the front. I/Os beyond the end
    /// are not followed.
    handles: Vec<Handle>,
}

impl Signals {
    /// For this many members; those in `telling` report when they are busy.
    #[must_use]
    pub fn new(members: usize, telling: Set<MemberId>, redundancy: usize) -> Self {
        let tuning = Tuning::default();
        Self {
            telling,
            redundancy,
            handles: alloc::vec![Handle::default(); tuning.in_flight],
            detector: Detector::new(members, tuning),
        }
    }

    /// An I/O on a member begins.
    pub fn began(&mut self, now: Instant, member: MemberId, io: &Io) {
        let Some(kind) = kind_of(io.op).filter(|_| !self.telling.has(member)) else { return };
        if let Some(handle) = self.handles.get_mut(slot(io.id)) {
            *handle = self.detector.began(now, member, kind, io.blocks);
        }
    }

    /// An I/O has ended, well or not. Its begin may never have been reported.
    pub fn ended(&mut self, now: Instant, io: IoId, well: bool) {
        let Some(handle) = self.handles.get_mut(slot(io)).map(mem::take) else { return };
        if handle == Handle::default() {
            return;
        }
        if well {
            self.detector.ended(now, handle);
        } else {
            self.detector.dropped(now, handle);
        }
    }

    /// These members are other devices from now on.
    pub fn replaced(&mut self, now: Instant, members: Set<MemberId>, telling: Set<MemberId>) {
        self.telling = telling;
        members.for_each(|member| self.detector.replaced(now, member));
    }

    /// When [`Signals::busy`] is to be called, though nothing has begun or ended.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.detector.deadline()
    }

    /// The busy members, given those that report it themselves.
    pub fn busy(&mut self, now: Instant, told: Set<MemberId>) -> Set<MemberId> {
        let told = told.and(self.telling);
        let left = self.redundancy.saturating_sub(told.len());
        told.or(self.detector.avoid(now, left))
    }

    /// The members that say themselves when they are busy.
    #[must_use]
    pub fn telling(&self) -> Set<MemberId> {
        self.telling
    }

    /// What is thought of the others.
    #[must_use]
    pub fn detector(&self) -> &Detector {
        &self.detector
    }
}

/// The kind by which an I/O is judged. A durable write takes as long as the flush in it, which does
/// not predict other writes.
fn kind_of(op: IoOp) -> Option<Kind> {
    match op {
        IoOp::Read(_) => Some(Kind::Read),
        IoOp::Write { fua: false, .. } => Some(Kind::Write),
        IoOp::Write { fua: true, .. }
        | IoOp::Store(_)
        | IoOp::Journal
        | IoOp::Flush
        | IoOp::Discard => None,
    }
}

fn slot(io: IoId) -> usize {
    Id::<()>::from_bits(io.0).index()
}

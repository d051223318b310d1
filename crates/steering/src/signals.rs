//! Which members are busy: what they say themselves, and what the latencies of the others tell.
//!
//! The host tells when each I/O begins and ends. Members that say when they collect garbage are
//! believed, and not watched.
//!
//! Invariant: from latencies, no more members are taken for busy than redundancy stands in for,
//! those counted that say it themselves.

use alloc::vec::Vec;
use core::mem;

use det::{Id, Instant};
use raidcore::engine::{Io, IoId, IoOp};
use raidcore::units::{MemberId, Set};

use crate::detect::{Detector, Handle, Kind, Tuning};

/// Whose word is taken for which members are busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// That of members that say when they collect garbage; the others are watched.
    #[default]
    Told,
    /// No member's: all are watched.
    Detected,
}

/// The busy members, as far as they say or their latencies tell.
pub struct Signals {
    detector: Detector,
    telling: Set<MemberId>,
    redundancy: usize,
    /// By the I/O's place in the engine's table, which fills from the front. What is beyond the end
    /// is not followed.
    handles: Vec<Handle>,
}

impl Signals {
    /// For so many members, of which `telling` say themselves when they are busy.
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

    /// An I/O has ended, well or not. It may be one that was never told of.
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

    /// The busy members, if those that say so themselves are `told`.
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

/// What is judged. A durable write takes as long as the flush in it, which says nothing of others.
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

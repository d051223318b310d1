//! A background pass: which stripe comes next, and how far it has come.

use det::Instant;

use super::order::Order;
use super::progress::{Progress, WINDOW};
use super::{Mismatches, PassKind};
use crate::units::{MemberId, Stripe};

impl PassKind {
    /// Whether it brings redundancy back that a member's failure has taken.
    pub(super) fn fills(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Distribute(_) => true,
            Self::Resync | Self::Copy(_) | Self::Scrub { .. } => false,
        }
    }

    /// Whether it is put on record now and then how far it has come.
    pub(super) fn has_watermark(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Distribute(_) | Self::Copy(_) => true,
            Self::Resync | Self::Scrub { .. } => false,
        }
    }

    /// Whether something else has what a member had when it is over.
    pub(super) fn stands_in(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Copy(_) | Self::Distribute(_) => true,
            Self::Resync | Self::Scrub { .. } => false,
        }
    }

    /// The member for which it fills a device.
    pub(super) fn filled(self) -> Option<MemberId> {
        match self {
            Self::Rebuild(member) | Self::Copy(member) => Some(member),
            Self::Resync | Self::Distribute(_) | Self::Scrub { .. } => None,
        }
    }
}

/// A pass under way.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) kind: PassKind,
    pub(super) progress: Progress,
    pub(super) total: u64,
    pub(super) paused: bool,
    pub(super) stuck: Option<Stripe>,
    pub(super) found: Mismatches,
    pub(super) started: Instant,
    /// Where it started.
    pub(super) from: u64,
    /// Stripes that were done since, without those that are zeros.
    pub(super) worked: u64,
    pub(super) next: u64,
    pub(super) in_flight: u32,
    /// When the last stripe was begun; nothing if the next need not wait for it.
    pub(super) begun_at: Option<Instant>,
    pub(super) cancelled: bool,
    pub(super) closing: Closing,
}

impl Pass {
    /// One that goes over `total` stripes, of which some may be done.
    pub(super) fn new(kind: PassKind, progress: Progress, total: u64, now: Instant) -> Self {
        Self {
            kind,
            progress,
            total,
            paused: false,
            stuck: None,
            found: Mismatches::default(),
            started: now,
            from: progress.base,
            worked: 0,
            next: progress.base,
            in_flight: 0,
            begun_at: None,
            cancelled: false,
            closing: Closing::No,
        }
    }

    /// The stripe that comes next by an order, if it may be begun while the others are under way.
    pub(super) fn next_of(&mut self, order: &Order<'_>) -> Option<Stripe> {
        loop {
            while self.next < self.total && self.progress.has(self.next) {
                self.next += 1;
            }
            let next = order.next(self.next, self.total);
            if next == self.next {
                break;
            } else if self.in_flight == 0 {
                (self.next, self.progress) = (next, Progress::from(next));
            } else if !order.leaps() && self.next - self.progress.base < WINDOW {
                self.progress.add(self.next);
            } else {
                return None;
            }
        }
        let ready = self.next < self.total && self.next - self.progress.base < WINDOW;
        ready.then_some(Stripe(self.next))
    }

    /// Whether it fills the device that is in this member's place now.
    pub(super) fn fills(&self, member: MemberId) -> bool {
        self.kind == PassKind::Rebuild(member) && !self.cancelled
    }
}

/// The end of a pass that has changed something: that becomes durable; after a rebuild, the new
/// member is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    No,
    Flushing(u64),
    Storing,
    /// This version of the record makes a successor the member.
    Succeeding(u64),
}

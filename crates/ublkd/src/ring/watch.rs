//! Files that are cut off while they are members.
//!
//! What was behind the new end is gone, and a later write there leaves a hole that reads as zeros:
//! as good data, if it is believed. But such a write doesn't make the file as long as it was, unless
//! it ends where the file did. So who is smaller than when it was opened has lost something, and
//! this is looked at after I/O and before its end is told, once for all that has completed
//! meanwhile; and before a write that ends with the file. Who has no I/O is looked at now and then.
//!
//! Invariant: no I/O on a file that was cut off before is told as done, as long as nothing else than
//! this ring makes the file longer again.

use std::time::Duration;

use det::Instant;
use raidcore::units::DeviceId;

use super::{MemberIndex, Ring};
use crate::paths::shown;

/// How often members without I/O are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// How a member's size is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// It can't change, or can't be looked at without waiting.
    Unwatched,
    /// It was right in this turn.
    Right(u64),
    /// It is smaller than it was.
    Shrunk,
}

impl Ring {
    /// Whether a member has shrunk, if that can be seen.
    pub(super) fn has_shrunk(&mut self, index: MemberIndex) -> bool {
        let turn = self.turn;
        let Some(member) = &mut self.members[usize::from(index.0)] else { return false };
        match member.size {
            Size::Unwatched => false,
            Size::Shrunk => true,
            Size::Right(at) if at == turn => false,
            Size::Right(_) if member.device.has_shrunk() => {
                tracing::error!(
                    path = %shown(member.device.path()),
                    "the file is smaller than it was when it was opened; it is not used any more"
                );
                member.size = Size::Shrunk;
                self.gone.push(member.id);
                true
            }
            Size::Right(_) => {
                member.size = Size::Right(turn);
                false
            }
        }
    }

    /// A device that was found to have lost something, which is told once.
    pub(crate) fn next_gone(&mut self) -> Option<DeviceId> {
        self.gone.pop()
    }

    /// Looks at all members, if it is time.
    pub(super) fn watch(&mut self, now: Instant) {
        if self.next_watch.is_none_or(|at| now < at) {
            return;
        }
        self.turn += 1;
        for index in 0..self.members.len() {
            self.has_shrunk(MemberIndex(index as u16));
        }
        self.plan_watch(now);
    }

    /// Finds out when to look at members next.
    pub(super) fn plan_watch(&mut self, now: Instant) {
        let watched = |size| matches!(size, Size::Right(_));
        let any = self.members.iter().flatten().any(|member| watched(member.size));
        self.next_watch = any.then(|| now + EVERY);
    }
}

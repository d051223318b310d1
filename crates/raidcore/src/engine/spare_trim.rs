//! The distributed spare's room goes back to the SSDs when nothing is on it any more: until they are
//! told so, they keep what was copied back, and collect garbage in that much less room.
//!
//! Invariants:
//! - Nothing is discarded before it is on record that the spare is free: until then a crash leaves
//!   an array that reads what is there.
//! - Discards and what the spare is used for never meet: each waits for what is under way of the
//!   other, and a new use ends what is left to be discarded: when that is over, all of it is.
//!
//! A stop or a crash ends it, too. What is left then costs room, and nothing else.

use alloc::vec::Vec;

use det::Instant;

use super::flight::{Flight, Owner};
use super::{Action, Engine, IoOp, Phase};
use crate::units::Pba;

/// How many chunks of each member are discarded at a time.
const PART: u64 = 8;

/// What is left to be discarded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpareTrim {
    /// How many blocks of each member were discarded, or are being.
    done: u64,
    /// When the last part was begun, and how large it was.
    last: Option<(Instant, u64)>,
}

impl Engine {
    /// Discards the next part, if it is time.
    pub(super) fn trim_spare(&mut self, out: &mut Vec<Action>) {
        let Some(left) = self.to_be_trimmed() else { return };
        if self.next_part_at(&left).is_some_and(|at| at > self.now) {
            return;
        }
        let blocks = self.areas.distributed_spare_blocks();
        let part = (PART * u64::from(self.geo.chunk())).min(blocks - left.done);
        for member in self.geo.member_set() {
            let Some(device) = self.array.live_device(member) else { continue };
            let Pba(start) = self.geo.data_end(member);
            let op = Flight::new(Owner::TrimSpare, Some(member), device);
            self.issue(op, IoOp::Discard, Pba(start + left.done), part as u32, out);
        }
        let done = left.done + part;
        let next = SpareTrim { done, last: Some((self.now, part)) };
        self.distributed.trim = Some(next).filter(|_| done < blocks);
    }

    /// When the next part may be discarded, if it is only to wait for that.
    pub(super) fn trim_deadline(&self) -> Option<Instant> {
        let left = self.to_be_trimmed()?;
        self.next_part_at(&left)
            .filter(|&at| at > self.now)
            .map(|at| self.users.or_when_idle(at, self.now))
    }

    /// What is left to be discarded, if nothing but the pace is in the way.
    fn to_be_trimmed(&self) -> Option<SpareTrim> {
        let left = self.distributed.trim?;
        (self.phase == Phase::Serving && self.is_spare_free()).then_some(left)
    }

    fn next_part_at(&self, left: &SpareTrim) -> Option<Instant> {
        left.last.and_then(|(at, blocks)| self.next_after(at, blocks))
    }
}

//! The distributed spare's room goes back to the SSDs when nothing is on it any more.

use alloc::vec::Vec;

use det::Instant;

use crate::engine::flight::{Flight, Owner};
use crate::engine::spare_trim::SpareTrim;
use crate::engine::{Action, Engine, IoOp, Phase};
use crate::units::Pba;

impl Engine {
    /// Discards the next part, if it is time.
    pub(super) fn trim_spare(&mut self, out: &mut Vec<Action>) {
        let Some(left) = self.to_be_trimmed() else { return };
        if self.next_discard_at(left.last()).is_some_and(|at| at > self.now) {
            return;
        }
        let blocks = self.areas.distributed_spare_blocks();
        let part = self.range.distributed.trim_part(self.layout.chunk(), blocks, self.now);
        let Some((from, part)) = part else { return };
        for member in self.layout.member_set() {
            let Some(device) = self.array.membership.live_device(member) else { continue };
            let Pba(start) = self.layout.data_end(member);
            let op = Flight::new(Owner::TrimSpare, Some(member), device);
            self.issue(op, IoOp::Discard, Pba(start + from), part as u32, out);
        }
    }

    /// When the next part may be discarded, if it is only to wait for that.
    pub(in crate::engine) fn trim_deadline(&self) -> Option<Instant> {
        let left = self.to_be_trimmed()?;
        self.next_discard_at(left.last())
            .filter(|&at| at > self.now)
            .map(|at| self.array.users.or_when_idle(at, self.now))
    }

    /// What is left to be discarded, if nothing but the pace is in the way.
    fn to_be_trimmed(&self) -> Option<SpareTrim> {
        let left = self.range.distributed.trim()?;
        (self.phase == Phase::Serving && self.is_spare_free()).then_some(left)
    }

    /// When the next discard may begin at the pace of background work, if it has to wait: when the last one
    /// was begun, and how many blocks of each member it had.
    pub(super) fn next_discard_at(&self, last: Option<(Instant, u64)>) -> Option<Instant> {
        let (at, blocks) = last?;
        self.array.background.next_after(at, self.array.users.are_busy(self.now), blocks)
    }
}

//! What is void of the staging log goes back to the SSDs.

use alloc::vec::Vec;

use det::Instant;

use crate::engine::flight::{Flight, Owner};
use crate::engine::{Action, Engine, IoOp, Phase};
use crate::units::{MemberId, Set};

impl Engine {
    /// Discards the next piece, if it is time.
    pub(super) fn trim_log(&mut self, out: &mut Vec<Action>) {
        if !self.trims_log() {
            return;
        }
        let trimmable = self.trimmable().collect();
        let Some((member, at, blocks)) = self.range.staging.begin_trim(trimmable, self.now) else {
            return;
        };
        let Some(device) = self.array.membership.live_device(member) else {
            return self.range.staging.end_trim();
        };
        self.array.counters.trimmed_blocks += u64::from(blocks);
        let op = Flight::new(Owner::TrimLog, Some(member), device);
        self.issue(op, IoOp::Discard, at, blocks, out);
    }

    /// A piece has been discarded, or could not be: it is advice.
    pub(super) fn log_trimmed(&mut self) {
        self.range.staging.end_trim();
        self.wake_staging();
    }

    /// When the next piece may be discarded, if it is only to wait for that.
    pub(in crate::engine) fn log_trim_deadline(&self) -> Option<Instant> {
        self.trimmable().next()?;
        let at =
            self.next_discard_at(self.range.staging.last_trim()).filter(|&at| at > self.now)?;
        Some(self.array.users.or_when_idle(at, self.now))
    }

    /// Whether a piece is to be discarded now.
    pub(super) fn trims_log(&self) -> bool {
        let staging = &self.range.staging;
        !staging.to_be_trimmed().is_empty()
            && self.next_discard_at(staging.last_trim()).is_none_or(|at| at <= self.now)
            && self.trimmable().next().is_some()
    }

    /// The members and staging devices of whose rings a piece may be discarded: those that serve
    /// and collect no garbage now. None if the log has to stay as it is for the next start.
    fn trimmable(&self) -> impl Iterator<Item = MemberId> {
        let membership = &self.array.membership;
        let void = self.range.staging.to_be_trimmed().minus(self.array.steering.busy());
        let may = self.phase == Phase::Serving && membership.takes_writes();
        let void = if may { void } else { Set::EMPTY };
        void.filter(|&member| membership.is_able(member) && !membership.hangs(member))
    }
}

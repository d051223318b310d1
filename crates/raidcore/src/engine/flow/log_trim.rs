//! What is void of the staging log goes back to the SSDs.

use alloc::vec::Vec;

use det::Instant;

use crate::engine::flight::{Flight, Owner};
use crate::engine::{Action, Engine, IoOp, Phase};
use crate::units::{MemberId, Set};

impl Engine {
    /// Discards the next piece, if it is time.
    pub(super) fn trim_log(&mut self, out: &mut Vec<Action>) {
        let calm = self.trimmable();
        if calm.is_empty()
            || self.next_discard_at(self.range.staging.last_trim()).is_some_and(|at| at > self.now)
        {
            return;
        }
        let Some((member, at, blocks)) = self.range.staging.begin_trim(calm, self.now) else {
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
        if self.range.staging.is_trimmed() {
            return None;
        }
        let at =
            self.next_discard_at(self.range.staging.last_trim()).filter(|&at| at > self.now)?;
        let waits = self.range.staging.is_to_be_trimmed(self.trimmable());
        waits.then(|| self.array.users.or_when_idle(at, self.now))
    }

    /// The members and staging devices whose rings may be discarded where they are void: those that serve
    /// and collect no garbage now. None if the log has to stay as it is for the next start.
    fn trimmable(&self) -> Set<MemberId> {
        let membership = &self.array.membership;
        let may = !self.range.staging.is_trimmed()
            && self.phase == Phase::Serving
            && membership.takes_writes();
        match may {
            true => membership.able().minus(self.array.steering.busy()).minus(membership.hung()),
            false => Set::EMPTY,
        }
    }
}

//! How fast background work goes: users have it slower.

use core::time::Duration;

use det::Instant;

use crate::engine::{Engine, Phase};
use crate::units::BLOCK_BYTES;

impl Engine {
    /// When the next stripe may begin at the pace that holds now; nothing if at once.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let begun_at = self.array.background.pass.as_ref()?.begun_at?;
        self.next_after(begun_at, self.geo.chunk().into())
    }

    /// When background work may go on that began something of so many blocks of each member, at the
    /// pace that holds now; nothing if at once.
    pub(super) fn next_after(&self, begun_at: Instant, blocks: u64) -> Option<Instant> {
        let pace = self.array.background.pace;
        let rate =
            if self.array.users.are_busy(self.now) { pace.min.min(pace.max) } else { pace.max };
        if rate == u64::MAX {
            return None;
        }
        let bytes = blocks * BLOCK_BYTES as u64;
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        Some(begun_at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// When the pass has to be looked at again, as the next stripe's time has come or the pace
    /// changes.
    pub(in crate::engine) fn pace_deadline(&self) -> Option<Instant> {
        let pass = self.array.background.pass.as_ref()?;
        let held = pass.paused || pass.stuck.is_some() || pass.cancelled;
        let at = self.next_at().filter(|&at| at > self.now)?;
        if held || pass.next >= pass.total || self.phase != Phase::Serving {
            return None;
        }
        Some(self.array.users.or_when_idle(at, self.now))
    }
}

//! Where reads go.

use det::Instant;
use raidcore::engine::{Detour, Place, Redirect};

/// Reads of busy members are served from the others, whose data and parity give the same, as long
/// as that does not cost too much: the members that are not busy have to read more for it.
#[derive(Clone, Copy, Debug)]
pub struct Reconstruct {
    /// Blocks that may be read beyond what is asked for, per million that is.
    per_million: u64,
}

/// What may be spent before anything has been read.
const CREDIT: u64 = 64;

impl Reconstruct {
    /// With a budget: blocks read beyond what is asked for, per block that is.
    #[must_use]
    pub fn new(budget: f64) -> Self {
        Self { per_million: (budget.max(0.0) * 1e6) as u64 }
    }
}

impl Place for Reconstruct {
    fn takes(&mut self, _: Instant, detour: Detour) -> bool {
        let Detour { read, extra_so_far, extra } = detour;
        let spent = u128::from(extra_so_far) + u128::from(extra);
        let earned = u128::from(read) * u128::from(self.per_million) / 1_000_000;
        spent <= earned + u128::from(CREDIT)
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        false
    }
}

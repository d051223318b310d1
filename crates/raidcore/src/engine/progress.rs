//! How far a pass has come.

/// Stripes between the first that is not done and the last that was begun.
pub(super) const WINDOW: u64 = 64;

/// Which stripes are done: all below `base`, and those after it whose bit is set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) base: u64,
    ahead: u64,
}

impl From<u64> for Progress {
    /// All below `base`, nothing after it.
    fn from(base: u64) -> Self {
        Self { base, ahead: 0 }
    }
}

impl Progress {
    pub(super) fn has(&self, stripe: u64) -> bool {
        match stripe.checked_sub(self.base) {
            None => true,
            Some(ahead) => ahead < WINDOW && self.ahead >> ahead & 1 != 0,
        }
    }

    /// A stripe is done, perhaps once more.
    pub(super) fn add(&mut self, stripe: u64) {
        if self.has(stripe) {
            return;
        }
        self.ahead |= 1 << (stripe - self.base);
        let done = self.ahead.trailing_ones();
        self.base += u64::from(done);
        self.ahead = self.ahead.checked_shr(done).unwrap_or(0);
    }
}

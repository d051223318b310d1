//! SIW: strips, SSD by SSD, all SSDs at once.

use std::time::Duration;

use det::Instant;

use super::order::{Clock, Order, Pressure, Strip};
use crate::system::cached::CachedSpec;

/// Each SSD has a cache and a hand of its own. All that have something to write begin at once; if some are not ready
/// in time, the others go on without them.
#[derive(Debug)]
pub(super) struct Siw {
    /// By SSD: its strips, and whether it is writing one.
    drives: Vec<(Clock, bool)>,
    low: f64,
    wait: Duration,
    /// Since when some SSD is ready, and not all are.
    since: Option<Instant>,
    /// SSDs that are to begin in this round.
    round: Vec<usize>,
}

impl Siw {
    pub(super) fn new(spec: &CachedSpec) -> Self {
        let drives = (0..spec.members).map(|_| (Clock::default(), false)).collect();
        Self { drives, low: spec.low, wait: spec.wait.0, since: None, round: Vec::new() }
    }

    /// Begins a round if all are ready, or those that are have waited long enough.
    fn begin(&mut self, now: Instant) {
        let ready = |(_, (strips, writes)): &(usize, &(Clock, bool))| !strips.is_empty() && !writes;
        let ready: Vec<_> = self.drives.iter().enumerate().filter(ready).map(|(n, _)| n).collect();
        let all = self.drives.iter().all(|(strips, writes)| strips.is_empty() || !writes);
        if ready.is_empty() {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert(now);
        if all || now >= since + self.wait {
            self.since = None;
            self.round = ready;
        }
    }
}

impl Order for Siw {
    fn caches_parity(&self) -> bool {
        true
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn wrote(&mut self, strips: &[Strip]) {
        strips.iter().for_each(|strip| self.drives[strip.drive].0.wrote(strip.stripe));
    }

    fn next(&mut self, now: Instant, pressure: Pressure) -> Option<Vec<Strip>> {
        if self.round.is_empty() {
            if !pressure.waits && pressure.used <= self.low {
                self.since = None;
                return None;
            }
            self.begin(now);
        }
        let drive = self.round.pop()?;
        let (strips, writes) = &mut self.drives[drive];
        let stripe = strips.take()?;
        *writes = true;
        Some(vec![Strip { drive, stripe }])
    }

    fn ended(&mut self, _: Instant, strips: &[Strip]) {
        for strip in strips {
            self.drives[strip.drive].1 = false;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + self.wait)
    }
}

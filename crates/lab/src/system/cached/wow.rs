//! WOW: write groups, which are stripes, by their addresses.

use det::Instant;

use super::order::{Clock, Order, Pressure, Strip};
use crate::system::cached::CachedSpec;

/// Gill and Modha, "WOW: Wise Ordering for Writes", FAST 2005. How many groups are in flight grows linearly between
/// the thresholds.
#[derive(Debug)]
pub(super) struct Wow {
    groups: Clock,
    in_flight: u32,
    members: u8,
    most: u32,
    low: f64,
    high: f64,
}

impl Wow {
    pub(super) fn new(spec: &CachedSpec) -> Self {
        let &CachedSpec { groups: most, members, low, high, .. } = spec;
        Self { groups: Clock::default(), in_flight: 0, members, most, low, high }
    }

    fn allowed(&self, Pressure { used, waits }: Pressure) -> u32 {
        if waits {
            return self.most;
        }
        let part = (used - self.low) / (self.high - self.low);
        (part.clamp(0.0, 1.0) * f64::from(self.most)).ceil() as u32
    }
}

impl Order for Wow {
    fn caches_parity(&self) -> bool {
        false
    }

    fn has_parts(&self) -> bool {
        false
    }

    fn wrote(&mut self, strips: &[Strip]) {
        strips.iter().take(1).for_each(|strip| self.groups.wrote(strip.stripe));
    }

    fn next(&mut self, _: Instant, pressure: Pressure) -> Option<Vec<Strip>> {
        if self.in_flight >= self.allowed(pressure) {
            return None;
        }
        let stripe = self.groups.take()?;
        self.in_flight += 1;
        // That of parity has nothing that is cached.
        let drives = 0..usize::from(self.members);
        Some(drives.map(|drive| Strip { drive, stripe }).collect())
    }

    fn ended(&mut self, _: Instant, _: &[Strip]) {
        self.in_flight -= 1;
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

//! A scheme at work: looks at the members, tells them whose turn it is, and says who is busy. The
//! same in the daemon and in the laboratory.

use det::Instant;
use raidcore::units::Set;

use crate::collect::{Flash, Limits, Order, Watch};
use crate::scheme::Scheme;

/// See the [module](self).
pub struct Steward {
    scheme: Scheme,
    watch: Option<Watch>,
    collecting: Set,
}

impl Steward {
    /// For a scheme and members with these limits, of which redundancy stands in for so many; none
    /// of them has been told anything yet.
    #[must_use]
    pub fn new(scheme: Scheme, limits: Limits, redundancy: usize, now: Instant) -> Self {
        let collect = scheme.collect(limits, redundancy);
        Self {
            scheme,
            watch: collect.map(|policy| Watch::new(policy, now)),
            collecting: Set::EMPTY,
        }
    }

    /// When it wants to look, though nobody has begun or ended to collect.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.watch.as_ref().map(Watch::next)
    }

    /// Whether it wants to decide now, when these members collect.
    #[must_use]
    pub fn is_due(&self, now: Instant, collecting: Set) -> bool {
        let changed = collecting != self.collecting;
        self.watch.as_ref().is_some_and(|watch| changed || watch.next() <= now)
    }

    /// Looks at the members, and tells some of them what to do.
    pub fn decide(&mut self, now: Instant, members: &[Flash], order: &mut dyn FnMut(usize, Order)) {
        if let Some(watch) = &mut self.watch {
            watch.look(now, members, order);
        }
    }

    /// Takes note of who collects. Returns who is busy, if the engine is to be told.
    pub fn busy(&mut self, collecting: Set) -> Option<Set> {
        let changed = core::mem::replace(&mut self.collecting, collecting) != collecting;
        (changed && self.scheme.goes_around()).then_some(collecting)
    }
}

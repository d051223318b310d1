//! WOW (Gill and Modha, "WOW: wise ordering for writes", FAST 2005): the order of a clock, by address.

use alloc::collections::BTreeSet;

use raidcore::engine::{Hold, Ready};
use raidcore::geometry::Role;
use raidcore::units::{Set, Stripe};

use super::groups::Groups;

/// A pointer goes around over the groups in the order of their addresses. A group whose recency bit
/// is set is passed by, and the bit cleared; else it comes home. A write to what is held sets the bit; one
/// that begins a group does not.
#[derive(Clone, Debug)]
pub struct Wow {
    groups: Groups,
    /// Groups whose bit is set.
    recent: BTreeSet<Stripe>,
    /// Where the pointer is.
    pointer: Stripe,
    /// How many groups are on their way at once.
    width: usize,
}

impl Wow {
    /// With so many groups on their way at once. The paper starts the next one when the slowest strip of the
    /// last is done: one at a time.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self { groups: Groups::default(), recent: BTreeSet::new(), pointer: Stripe(0), width }
    }
}

impl Hold for Wow {
    fn wrote(&mut self, stripe: Stripe, role: Role, again: bool) {
        self.groups.wrote(stripe, role, again);
        if again {
            self.recent.insert(stripe);
        }
    }

    fn left(&mut self, stripe: Stripe) {
        if self.groups.left(stripe).is_some() {
            self.recent.remove(&stripe);
        }
    }

    fn next(&mut self, ready: &mut dyn FnMut(Stripe, Set<Role>) -> Ready) -> Option<Stripe> {
        let Self { groups, recent, pointer, .. } = self;
        let groups = &groups.by_stripe;
        // Twice around: in the first round all bits may be set.
        let around = groups.range(*pointer..).chain(groups.range(..*pointer));
        for (&stripe, group) in around.clone().chain(around) {
            match ready(stripe, group.roles) {
                Ready::Yes if !recent.remove(&stripe) => {
                    *pointer = Stripe(stripe.0 + 1);
                    return Some(stripe);
                }
                Ready::Yes | Ready::No => {}
                Ready::Enough => break,
            }
        }
        None
    }

    fn width(&self) -> usize {
        self.width
    }
}

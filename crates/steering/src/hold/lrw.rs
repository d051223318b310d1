//! Least recently written first, and of several the largest.

use alloc::collections::BTreeMap;

use raidcore::engine::{Hold, Ready};
use raidcore::geometry::Role;
use raidcore::units::{Set, Stripe};

use super::groups::Groups;

/// Of the least recently written groups that can come home the one with the most blocks. What is
/// written again soon stays, and goes home once; what comes home is worth the trip.
#[derive(Clone, Debug)]
pub struct Lrw {
    groups: Groups,
    /// The stripes, by the number of the last write to them.
    by_write: BTreeMap<u64, Stripe>,
    /// Of how many the largest is taken.
    of: usize,
}

impl Lrw {
    /// Of so many least recently written groups the largest; of one, plainly that.
    #[must_use]
    pub fn largest_of(of: usize) -> Self {
        Self { groups: Groups::default(), by_write: BTreeMap::new(), of }
    }
}

impl Hold for Lrw {
    fn wrote(&mut self, stripe: Stripe, role: Role, again: bool) {
        let (group, before) = self.groups.wrote(stripe, role, again);
        if let Some(before) = before {
            self.by_write.remove(&before);
        }
        self.by_write.insert(group.written, stripe);
    }

    fn left(&mut self, stripe: Stripe) {
        if let Some(group) = self.groups.left(stripe) {
            self.by_write.remove(&group.written);
        }
    }

    fn next(&mut self, ready: &mut dyn FnMut(Stripe, Set<Role>) -> Ready) -> Option<Stripe> {
        let groups = &self.groups.by_stripe;
        let mut largest: Option<(u32, Stripe)> = None;
        let mut left = self.of;
        for &stripe in self.by_write.values() {
            let Some(group) = groups.get(&stripe) else { continue };
            match ready(stripe, group.roles) {
                Ready::Yes => {
                    // Of two of a size it is the one that was written earlier.
                    let larger = largest.is_none_or(|(blocks, _)| group.blocks > blocks);
                    largest = if larger { Some((group.blocks, stripe)) } else { largest };
                    left -= 1;
                }
                Ready::No => {}
                Ready::Enough => break,
            }
            if left == 0 {
                break;
            }
        }
        largest.map(|(_, stripe)| stripe)
    }
}

//! A destage order that has nothing to say for itself, for worlds: any order has to do.

use std::collections::BTreeMap;

use raidcore::engine::{Hold, Ready};
use raidcore::geometry::Role;
use raidcore::units::{Set, Stripe};

/// Brings home now the first and now the last group that can come. It counts what is held, and fails
/// if it is told of something that can't be.
#[derive(Debug, Default)]
pub(crate) struct AnyOrder {
    groups: BTreeMap<Stripe, (Set<Role>, u32)>,
    asked: u64,
}

impl Hold for AnyOrder {
    fn wrote(&mut self, stripe: Stripe, role: Role, again: bool) {
        let (roles, blocks) = self.groups.entry(stripe).or_insert((Set::EMPTY, 0));
        assert!(!again || *blocks > 0 && roles.has(role), "what is held is written again");
        *roles = roles.with(role);
        *blocks += u32::from(!again);
    }

    fn left(&mut self, stripe: Stripe) {
        let (_, blocks) = self.groups.get_mut(&stripe).expect("something of the group is held");
        *blocks -= 1;
        if *blocks == 0 {
            self.groups.remove(&stripe);
        }
    }

    fn next(&mut self, ready: &mut dyn FnMut(Stripe, Set<Role>) -> Ready) -> Option<Stripe> {
        self.asked += 1;
        let mut found = self.groups.iter().map(|(&stripe, &(roles, _))| (stripe, roles));
        let ready = |&(stripe, roles): &(Stripe, Set<Role>)| ready(stripe, roles) == Ready::Yes;
        let found =
            if self.asked.is_multiple_of(3) { found.find(ready) } else { found.rev().find(ready) };
        found.map(|(stripe, _)| stripe)
    }

    fn width(&self) -> usize {
        1 + (self.asked % 4) as usize
    }
}

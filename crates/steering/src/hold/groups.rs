//! The groups of a cache: what it holds of each stripe.

use alloc::collections::BTreeMap;

use raidcore::geometry::Role;
use raidcore::units::{Set, Stripe};

/// What is held of a stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// The chunks of which a block was held since the group began.
    pub(super) roles: Set<Role>,
    /// How many blocks are held.
    pub(super) blocks: u32,
    /// The number of the last write to it.
    pub(super) written: u64,
}

/// The groups, by stripe.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    pub(super) by_stripe: BTreeMap<Stripe, Group>,
    /// How many writes there were.
    writes: u64,
}

impl Groups {
    /// A block of a stripe was written, `again` if it was held already. Returns the group, and the number
    /// of the last write to it before this one, if there was one.
    pub(super) fn wrote(
        &mut self,
        stripe: Stripe,
        role: Role,
        again: bool,
    ) -> (&mut Group, Option<u64>) {
        self.writes += 1;
        let new = Group { roles: Set::EMPTY, blocks: 0, written: 0 };
        let group = self.by_stripe.entry(stripe).or_insert(new);
        let before = (group.blocks > 0).then_some(group.written);
        group.roles = group.roles.with(role);
        group.blocks += u32::from(!again);
        group.written = self.writes;
        (group, before)
    }

    /// A block of a stripe is held no longer. Returns the group if that was its last.
    pub(super) fn left(&mut self, stripe: Stripe) -> Option<Group> {
        let group = self.by_stripe.get_mut(&stripe)?;
        group.blocks -= 1;
        if group.blocks > 0 { None } else { self.by_stripe.remove(&stripe) }
    }
}

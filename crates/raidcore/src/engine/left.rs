//! What a pass leaves behind, as more of it can't be read than redundancy makes up for. The pass goes on with
//! all other stripes, so that such a block costs what it held and nothing else.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::geometry::Geometry;
use crate::units::{Lba, MemberId, Pba, Stripe};

/// With so many stripes left behind a pass goes no further: a member that can't be read at all is not looked
/// at stripe by stripe.
const LEFT_MAX: usize = 1024;

/// A stripe that a pass could not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftStripe {
    /// Which.
    pub stripe: Stripe,
    /// Where it begins of what users see.
    pub at: Lba,
    /// How many blocks of users' it has.
    pub blocks: u64,
    /// Users' blocks that can't be read or computed: where each range of them begins, and how many.
    pub lost: Vec<(Lba, u64)>,
    /// The blocks of members that could not be read: of which member, where, and how many.
    pub unreadable: Vec<(MemberId, Pba, u64)>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Left {
    stripes: BTreeMap<u64, LeftStripe>,
    /// Those that were left behind and have changed: they are tried again.
    changed: BTreeSet<u64>,
    /// Those that were left behind before, of the same pass: what users read does not bring them forward.
    before: BTreeSet<u64>,
}

impl LeftStripe {
    /// One of which nothing is known but that it could not be done.
    pub(super) fn new(stripe: Stripe, geo: &Geometry) -> Self {
        let blocks = u64::from(geo.stripe_blocks());
        let (lost, unreadable) = (Vec::new(), Vec::new());
        Self { stripe, at: Lba(stripe.0 * blocks), blocks, lost, unreadable }
    }
}

impl Left {
    /// How many stripes are left behind.
    pub(super) fn len(&self) -> u64 {
        self.stripes.len() as u64
    }

    /// Whether they are as many as may be.
    pub(super) fn is_full(&self) -> bool {
        self.stripes.len() >= LEFT_MAX
    }

    /// Whether a stripe is left behind.
    pub(super) fn has(&self, stripe: u64) -> bool {
        !self.stripes.is_empty() && self.stripes.contains_key(&stripe)
    }

    /// Whether a stripe was tried and could not be done, now or before.
    pub(super) fn has_tried(&self, stripe: u64) -> bool {
        self.has(stripe) || self.before.contains(&stripe)
    }

    /// The first of them.
    pub(super) fn first(&self) -> Option<Stripe> {
        self.stripes.keys().next().copied().map(Stripe)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LeftStripe> {
        self.stripes.values()
    }

    /// A stripe is left behind. Tells whether it is the first, as far as people know.
    pub(super) fn add(&mut self, left: LeftStripe) -> bool {
        let is_first = self.stripes.is_empty() && !self.before.contains(&left.stripe.0);
        self.before.insert(left.stripe.0);
        self.stripes.insert(left.stripe.0, left);
        is_first
    }

    /// The first of those that have changed since they were left behind.
    pub(super) fn next_changed(&self) -> Option<Stripe> {
        self.changed.first().copied().map(Stripe)
    }

    /// A stripe has changed, so far as `covers` tells of a block: if that may help, it is not left behind any
    /// more, but tried again.
    pub(super) fn change(&mut self, stripe: Stripe, covers: impl Fn(Lba) -> bool) {
        let Some(left) = self.stripes.get(&stripe.0) else { return };
        let mut lost = left.lost.iter().flat_map(|&(at, n)| (0..n).map(move |i| Lba(at.0 + i)));
        if left.lost.is_empty() || lost.any(covers) {
            self.stripes.remove(&stripe.0);
            self.changed.insert(stripe.0);
        }
    }

    /// One that has changed is being tried.
    pub(super) fn begin(&mut self, stripe: Stripe) {
        if !self.changed.is_empty() {
            self.changed.remove(&stripe.0);
        }
    }

    /// All are tried again.
    pub(super) fn take_all(&mut self) {
        self.stripes.clear();
        self.changed.clear();
    }
}

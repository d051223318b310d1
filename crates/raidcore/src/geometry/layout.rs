//! Addresses of an array's stripes.

use core::ops::Range;

use super::{Geometry, Role};
use crate::units::{Lba, MemberId, Pba, Set, Stripe};

/// Addresses of an array's stripes on its members.
///
/// [`Layout::of`] alone knows which geometry a stripe has. Functions without a stripe as argument
/// answer for all stripes. So callers don't depend on all stripes having the same geometry, as they
/// have today.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    geometry: Geometry,
    data_start: Pba,
}

impl Layout {
    /// All stripes have `geometry`, on members whose data begins at `data_start`.
    #[must_use]
    pub const fn new(geometry: Geometry, data_start: Pba) -> Self {
        Self { geometry, data_start }
    }

    /// The geometry that a stripe has.
    #[must_use]
    #[inline]
    pub const fn of(&self, _stripe: Stripe) -> &Geometry {
        &self.geometry
    }

    /// The member that holds `role` in `stripe`.
    #[must_use]
    #[inline]
    pub fn member(&self, stripe: Stripe, role: Role) -> MemberId {
        self.of(stripe).member(stripe, role)
    }

    /// What `member` holds in `stripe`, if it has a part in it.
    #[must_use]
    #[inline]
    pub fn role(&self, stripe: Stripe, member: MemberId) -> Option<Role> {
        self.of(stripe).role(stripe, member)
    }

    /// The member that holds `role` in `stripe`, and where the chunk begins there.
    #[must_use]
    #[inline]
    pub fn place(&self, stripe: Stripe, role: Role) -> (MemberId, Pba) {
        self.of(stripe).place(stripe, role, self.data_start)
    }

    /// The stripe of a block, and the block's offset in the stripe's data.
    #[must_use]
    #[inline]
    pub fn locate(&self, lba: Lba) -> (Stripe, u32) {
        self.geometry.locate(lba)
    }

    /// The stripes that have blocks among `blocks` from `at` on.
    pub fn stripes_of(&self, at: Lba, blocks: u32) -> impl Iterator<Item = Stripe> + use<> {
        let width = u64::from(self.geometry.stripe_blocks());
        (at.0 / width..(at.0 + u64::from(blocks)).div_ceil(width)).map(Stripe)
    }

    /// The first of these stripes, as many as have every assignment of roles that any of them has.
    pub fn samples(&self, stripes: Range<u64>) -> impl Iterator<Item = Stripe> + use<> {
        let end = stripes.end.min(stripes.start.saturating_add(self.geometry.variety()));
        (stripes.start..end).map(Stripe)
    }

    /// How many members there are.
    #[must_use]
    #[inline]
    pub fn members(&self) -> usize {
        self.geometry.members()
    }

    /// The members that hold stripes, so without staging devices.
    #[must_use]
    pub fn member_set(&self) -> Set<MemberId> {
        self.geometry.member_set()
    }

    /// How many members may be missing, for every stripe.
    #[must_use]
    pub fn redundancy(&self) -> usize {
        self.geometry.redundancy()
    }

    /// The most roles that a stripe has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.geometry.width()
    }

    /// Blocks in a chunk.
    #[must_use]
    #[inline]
    pub fn chunk(&self) -> u32 {
        self.geometry.chunk()
    }

    /// The number of stripes.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.geometry.stripes()
    }

    /// Blocks of the whole array.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.geometry.capacity()
    }

    /// How many blocks of `member` are taken by the stripes before `stripe`.
    #[must_use]
    pub fn blocks_before(&self, stripe: Stripe, member: MemberId) -> u64 {
        self.of(stripe).blocks_before(stripe, member)
    }

    /// Where a member's data begins, and how many blocks of it the stripes take.
    #[must_use]
    pub fn data_of(&self, member: MemberId) -> (Pba, u64) {
        (self.data_start, self.geometry.blocks_of(member))
    }

    /// Where a member's data ends.
    #[must_use]
    pub fn data_end(&self, member: MemberId) -> Pba {
        let (start, blocks) = self.data_of(member);
        Pba(start.0 + blocks)
    }
}

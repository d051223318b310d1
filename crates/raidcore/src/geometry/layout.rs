//! Addresses of an array's stripes.

use core::ops::Range;

use super::{Geometry, Role};
use crate::units::{Lba, MemberId, Pba, Set, Stripe};

/// Addresses of an array's stripes on its members.
///
/// [`Layout::of`] alone knows which geometry a stripe has. Functions without a stripe as argument
/// answer for all stripes. Stripes have two geometries while the array is [reshaped](Frontier).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    geometry: Geometry,
    data_start: Pba,
    frontier: Option<Frontier>,
}

/// How far a reshape has come, from one geometry to another. The new one has as many members or more, and
/// its stripes have as much data for each block of a member, or more; so a new stripe's data never comes
/// from what lies before its place. Its chunks may have another size.
///
/// The stripes before the frontier are new ones. The old stripes from there on are as they were; the first
/// of them may be *vacant*: all that they held is in new stripes. Some numbers may be no stripe's, neither
/// an old nor a new one's; these count as vacant, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frontier {
    /// The geometry of old stripes. If chunks become smaller, its stripes have the last of the new ones'
    /// numbers, so that those which hold something never have the number of a new stripe.
    pub from: Geometry,
    /// How many stripes are new, and at home.
    pub next: u64,
    /// How many stripes from `next` on count as new ones, too.
    pub window: u64,
    /// Where on each member the new stripes of that window begin, one after the other; nothing if they are
    /// at home.
    pub saved_at: Option<Pba>,
}

impl Frontier {
    /// The number from which on stripes are old ones.
    #[must_use]
    #[inline]
    pub fn end(&self) -> u64 {
        self.next + self.window
    }
}

impl Layout {
    /// All stripes have `geometry`, on members whose data begins at `data_start`.
    #[must_use]
    pub const fn new(geometry: Geometry, data_start: Pba) -> Self {
        Self { geometry, data_start, frontier: None }
    }

    /// The same while stripes become those of its geometry.
    #[must_use]
    pub const fn reshaped(self, frontier: Frontier) -> Self {
        Self { frontier: Some(frontier), ..self }
    }

    /// How far a reshape has come, if one is under way.
    #[must_use]
    pub const fn frontier(&self) -> Option<&Frontier> {
        self.frontier.as_ref()
    }

    /// The geometry that a stripe has, or will have that is none yet.
    #[must_use]
    #[inline]
    pub fn of(&self, stripe: Stripe) -> &Geometry {
        match &self.frontier {
            Some(frontier) if stripe.0 >= frontier.end().max(frontier.from.numbers().start) => {
                &frontier.from
            }
            Some(_) | None => &self.geometry,
        }
    }

    /// Whether a stripe holds nothing: all that it held is in new ones.
    #[must_use]
    #[inline]
    pub fn is_vacant(&self, stripe: Stripe) -> bool {
        self.frontier.is_some_and(|frontier| {
            stripe.0 >= frontier.end() && frontier.from.end_of(stripe).0 <= self.moved(&frontier)
        })
    }

    /// The numbers of the old stripes whose chunks are where a new stripe's are to be, vacant or not.
    #[must_use]
    pub fn in_place_of(&self, stripe: Stripe) -> Range<u64> {
        let Some(Frontier { from, .. }) = self.frontier else { return 0..0 };
        let (new, old) = (u64::from(self.geometry.chunk()), u64::from(from.chunk()));
        let Range { start, end } = from.numbers();
        let number = |blocks: u64| end.min(start + blocks);
        number(stripe.0 * new / old)..number(((stripe.0 + 1) * new).div_ceil(old))
    }

    /// How many new stripes have the place of an old one, if chunks become smaller; else 1.
    #[must_use]
    pub fn share(&self) -> u64 {
        self.frontier.map_or(1, |frontier| self.geometry.share_of(&frontier.from))
    }

    /// Whether a block that an old stripe held is in a new one.
    #[must_use]
    pub fn has_moved(&self, stripe: Stripe, lba: Lba) -> bool {
        self.frontier
            .is_some_and(|frontier| stripe.0 >= frontier.end() && lba.0 < self.moved(&frontier))
    }

    /// Where each member has a stripe that is not at home, but saved until its place is free.
    #[inline]
    fn saved_place(&self, stripe: Stripe) -> Option<Pba> {
        let Frontier { next, window, saved_at, .. } = self.frontier?;
        let Pba(start) = saved_at?;
        let at = stripe.0.wrapping_sub(next);
        (at < window).then(|| Pba(start + at * u64::from(self.geometry.chunk())))
    }

    /// Whether a stripe is not at home, but where it is saved until its place is free.
    #[must_use]
    #[inline]
    pub fn is_saved(&self, stripe: Stripe) -> bool {
        self.saved_place(stripe).is_some()
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
        if let Some(at) = self.saved_place(stripe) {
            return (self.member(stripe, role), at);
        }
        self.of(stripe).place(stripe, role, self.data_start)
    }

    /// The stripe of a block, and the block's offset in the stripe's data.
    #[must_use]
    #[inline]
    pub fn locate(&self, lba: Lba) -> (Stripe, u32) {
        match &self.frontier {
            Some(frontier) if lba.0 >= self.moved(frontier) => frontier.from.locate(lba),
            Some(_) | None => self.geometry.locate(lba),
        }
    }

    /// The block before which all are in new stripes.
    fn moved(&self, frontier: &Frontier) -> u64 {
        frontier.end() * self.stripe_blocks()
    }

    /// The stripes that have blocks among `blocks` from `at` on.
    pub fn stripes_of(&self, at: Lba, blocks: u32) -> impl Iterator<Item = Stripe> + use<> {
        let end = at.0 + u64::from(blocks);
        let moved = self.frontier.map_or(u64::MAX, |frontier| self.moved(&frontier));
        let range = |geometry: &Geometry, from: u64, to: u64| {
            let (width, first) = (u64::from(geometry.stripe_blocks()), geometry.numbers().start);
            if from < to { first + from / width..first + to.div_ceil(width) } else { 0..0 }
        };
        let new = range(&self.geometry, at.0, end.min(moved));
        let old = self.frontier.map(|frontier| range(&frontier.from, at.0.max(moved), end));
        new.chain(old.unwrap_or(0..0)).map(Stripe)
    }

    /// The first of these stripes, as many as have every assignment of roles that any of them has.
    pub fn samples(&self, stripes: Range<u64>) -> impl Iterator<Item = Stripe> + use<> {
        let first = |geometry: &Geometry, from: u64, to: u64| {
            from..to.min(from.saturating_add(geometry.variety())).max(from)
        };
        let Range { start, end } = stripes;
        let border = self.frontier.map_or(u64::MAX, |frontier| frontier.end());
        let new = first(&self.geometry, start, end.min(border));
        let old = self.frontier.map(|Frontier { from, .. }| {
            let Range { start: least, end: most } = from.numbers();
            first(&from, start.max(border).max(least), end.min(most))
        });
        new.chain(old.unwrap_or(0..0)).map(Stripe)
    }

    /// The geometries that stripes have or are to have.
    fn geometries(&self) -> impl Iterator<Item = Geometry> + use<> {
        [Some(self.geometry), self.frontier.map(|frontier| frontier.from)].into_iter().flatten()
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

    /// How many members may be missing, whichever they are, for every stripe.
    #[must_use]
    pub fn redundancy(&self) -> usize {
        let redundancy = self.geometry.redundancy();
        let old = self.frontier.as_ref().map(|frontier| frontier.from.redundancy());
        old.map_or(redundancy, |old| redundancy.min(old))
    }

    /// Whether all stripes can do without these members. One that has no part in any stripe yet counts
    /// only as what is to have one.
    #[must_use]
    pub fn can_spare(&self, missing: Set<MemberId>) -> bool {
        let spares = |geometry: Geometry| geometry.survives(missing);
        match &self.frontier {
            Some(frontier) if frontier.end() == 0 => spares(frontier.from),
            Some(_) | None => self.geometries().all(spares),
        }
    }

    /// The members that have a part in stripes in which these have one, too.
    #[must_use]
    pub fn related_to(&self, members: Set<MemberId>) -> Set<MemberId> {
        self.geometries().map(|geometry| geometry.related_to(members)).fold(Set::EMPTY, Set::or)
    }

    /// Whether there is something to compare in stripes without these members.
    #[must_use]
    pub fn has_to_compare(&self, missing: Set<MemberId>) -> bool {
        self.geometries().all(|geometry| geometry.has_to_compare(missing))
    }

    /// Whether a member has a part in any stripe.
    #[must_use]
    pub fn has_part(&self, member: MemberId) -> bool {
        let of_new = member.index() < self.members();
        match &self.frontier {
            Some(frontier) if frontier.end() == 0 => member.index() < frontier.from.members(),
            Some(_) | None => of_new,
        }
    }

    /// The most roles that a stripe has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.geometry.width()
    }

    /// Blocks in the largest chunk that a stripe has.
    #[must_use]
    #[inline]
    pub fn chunk(&self) -> u32 {
        let from = self.frontier.map_or(0, |frontier| frontier.from.chunk());
        self.geometry.chunk().max(from)
    }

    /// Blocks in a new chunk.
    #[must_use]
    pub fn new_chunk(&self) -> u32 {
        self.geometry.chunk()
    }

    /// What the numbers of all stripes are below.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        let from = self.frontier.map_or(0, |frontier| frontier.from.numbers().end);
        self.geometry.stripes().max(from)
    }

    /// How many stripes there are when a reshape is over.
    #[must_use]
    pub fn new_stripes(&self) -> u64 {
        self.geometry.stripes()
    }

    /// Data blocks in a new stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u64 {
        self.geometry.stripe_blocks().into()
    }

    /// Blocks of the whole array. What a reshape adds comes with its end.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.frontier.map_or(self.geometry, |frontier| frontier.from).capacity()
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

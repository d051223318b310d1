//! Where data and parity are: pure address arithmetic, without health or I/O.
//!
//! An array has *members*, a stripe has *roles*, and a [`Placement`] tells which member has which role.
//! Invariants, whatever the placement:
//! - A role of a stripe is on one member, and a member has one role in a stripe, or none.
//! - A member's chunks lie one after the other in the order of their stripes, without gaps. A stripe
//!   in which the member has no role takes no space on it.

mod layout;
mod placement;
mod rotation;
mod shares;

pub use layout::{Frontier, Layout};
pub use placement::Placement;
pub use shares::{Shares, SharesError};

use core::ops::Range;

use rotation::Rotation;

use crate::units::{Element, Lba, MEMBERS_MAX, MemberId, Pba, Set, Stripe};

/// The RAID levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Mirrors: every member holds everything.
    Raid1,
    /// Striping with parity on the last member.
    Raid4,
    /// Striping with rotating parity.
    Raid5,
    /// Striping with two rotating parities, P and Q.
    Raid6,
    /// Striping over pairs of members, which are mirrors.
    Raid10,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Raid0, Self::Raid1, Self::Raid4, Self::Raid5, Self::Raid6, Self::Raid10];

    /// Its name, as users type it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
        }
    }

    /// Whether a stripe is one chunk, of which its roles are the copies.
    #[must_use]
    pub const fn is_mirrored(self) -> bool {
        match self {
            Self::Raid1 | Self::Raid10 => true,
            Self::Raid0 | Self::Raid4 | Self::Raid5 | Self::Raid6 => false,
        }
    }
}

/// What a member with a part in a stripe holds there: data chunk 0, 1, …, then P, then Q. A mirror has one data
/// chunk; its roles are the copies of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Role(pub u8);

impl Role {
    /// As an index into a table of roles.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The one of an index into a table of roles.
    #[must_use]
    pub const fn at(index: usize) -> Self {
        debug_assert!(index <= u8::MAX as usize);
        Self(index as u8)
    }
}

impl Element for Role {
    fn index(self) -> usize {
        self.index()
    }

    fn at(index: usize) -> Self {
        Self::at(index)
    }
}

/// An array's geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    level: Level,
    placement: Placement,
    members: u8,
    /// As the placement has it.
    width: u8,
    chunk: u32,
    stripes: u64,
    /// The number of the first stripe.
    first: u64,
}

/// Why a geometry is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// Too few or too many members.
    #[error("{} takes {min} to 32 members, not {members}", .level.name())]
    Members {
        /// The level.
        level: Level,
        /// The least that it takes.
        min: u8,
        /// What was asked for.
        members: usize,
    },
    /// They are not pairs.
    #[error("{} takes an even number of members, as it mirrors pairs of them, not {members}",
        .level.name())]
    Odd {
        /// The level.
        level: Level,
        /// What was asked for.
        members: usize,
    },
    /// The chunk is not a power of two from 1 to 256 blocks.
    #[error("the chunk must be a power of two from 4 KiB to 1 MiB, not {chunk} blocks of 4 KiB")]
    Chunk {
        /// What was asked for, in blocks.
        chunk: u32,
    },
    /// Its parity shares are impossible.
    #[error(transparent)]
    Shares(#[from] SharesError),
    /// The level can't have the placement.
    #[error("{} has no placement {}; unless told otherwise it has {}",
        .level.name(), .placement.name(), Placement::of(*.level).name())]
    Placement {
        /// The level.
        level: Level,
        /// What was asked for.
        placement: Placement,
    },
    /// There is no room for a stripe, or more than addresses reach.
    #[error("{stripes} stripes are none, or more than an array can have")]
    Stripes {
        /// What was asked for.
        stripes: u64,
    },
}

impl Geometry {
    /// An array of `members` members, `chunk` blocks a chunk and `stripes` stripes, placed as the level
    /// is by default.
    ///
    /// # Errors
    /// If there are too few or too many members for the level (2–32 for RAID0 and RAID1, 3–32 for
    /// RAID4 and RAID5, 4–32 for RAID6, an even number of 4–32 for RAID10), if the chunk is not a power of
    /// two from 1 to 256 blocks, or if there are no stripes or too many to address.
    pub fn new(
        level: Level,
        members: usize,
        chunk: u32,
        stripes: u64,
    ) -> Result<Self, GeometryError> {
        let min = match level {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid4 | Level::Raid5 => 3,
            Level::Raid6 | Level::Raid10 => 4,
        };
        let count = match u8::try_from(members) {
            Ok(count) if count >= min && members <= MEMBERS_MAX => count,
            _ => {
                return Err(GeometryError::Members { level, min, members });
            }
        };
        if level == Level::Raid10 && !members.is_multiple_of(2) {
            return Err(GeometryError::Odd { level, members });
        }
        if !chunk.is_power_of_two() || chunk > 256 {
            return Err(GeometryError::Chunk { chunk });
        }
        if stripes == 0 || stripes > 1 << 42 {
            return Err(GeometryError::Stripes { stripes });
        }
        let placement = Placement::of(level);
        Ok(Self {
            level,
            placement,
            members: count,
            width: placement.width(count),
            chunk,
            stripes,
            first: 0,
        })
    }

    /// The same with stripes that are numbered from `first` on, where another geometry's have the numbers
    /// before.
    #[must_use]
    pub const fn numbered_from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// How many of its stripes have the place of one of another geometry with larger chunks; else 1.
    #[must_use]
    pub fn share_of(&self, other: &Self) -> u64 {
        u64::from((other.chunk / self.chunk).max(1))
    }

    /// The numbers of its stripes.
    #[must_use]
    pub const fn numbers(&self) -> Range<u64> {
        self.first..self.first + self.stripes
    }

    /// The same with another placement.
    ///
    /// # Errors
    /// If the level or this many members can't have the placement.
    pub fn placed(self, placement: Placement) -> Result<Self, GeometryError> {
        let level = self.level;
        if !placement.fits(level) {
            return Err(GeometryError::Placement { level, placement });
        }
        if let Placement::Uneven(shares) = placement {
            shares.check(level, self.members)?;
        }
        Ok(Self { placement, width: placement.width(self.members), ..self })
    }

    /// Where the chunks of a stripe lie.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many members there are.
    #[must_use]
    pub fn members(&self) -> usize {
        usize::from(self.members)
    }

    /// How many roles a stripe has, each on its own member. The other members have no role in it.
    #[must_use]
    #[inline]
    pub fn width(&self) -> usize {
        usize::from(self.width)
    }

    /// Blocks in a chunk.
    #[must_use]
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Stripes in the array.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Data chunks in a stripe.
    #[must_use]
    pub fn data(&self) -> usize {
        if self.is_mirrored() { 1 } else { self.width() - self.parities() }
    }

    /// Parity chunks in a stripe: 0, 1 (P) or 2 (P and Q).
    #[must_use]
    pub fn parities(&self) -> usize {
        match self.level {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
        }
    }

    /// Whether a stripe is one chunk, of which its roles are the copies.
    #[must_use]
    #[inline]
    pub fn is_mirrored(&self) -> bool {
        self.level.is_mirrored()
    }

    /// How many members may be missing, whichever they are: so many of a stripe's roles are made up for.
    #[must_use]
    pub fn redundancy(&self) -> usize {
        if self.is_mirrored() { self.width() - 1 } else { self.parities() }
    }

    /// How many members may be missing if they are those that stripes miss the least.
    #[must_use]
    pub fn redundancy_at_best(&self) -> usize {
        self.groups().map(|_| self.redundancy()).sum()
    }

    /// Whether every stripe can do without these members.
    #[must_use]
    pub fn survives(&self, missing: Set<MemberId>) -> bool {
        self.lost_group(missing).is_none()
    }

    /// The members of stripes that can't do without these, if there are such stripes.
    #[must_use]
    pub fn lost_group(&self, missing: Set<MemberId>) -> Option<Set<MemberId>> {
        self.groups().find(|group| group.and(missing).len() > self.redundancy())
    }

    /// The members that have a part in stripes in which these have one, too.
    #[must_use]
    pub fn related_to(&self, members: Set<MemberId>) -> Set<MemberId> {
        let related = self.groups().filter(|group| !group.and(members).is_empty());
        related.fold(Set::EMPTY, Set::or)
    }

    /// Whether stripes have more than they need, without these members: so that it can be compared.
    #[must_use]
    pub fn has_to_compare(&self, missing: Set<MemberId>) -> bool {
        self.groups().any(|group| group.and(missing).len() < self.redundancy())
    }

    /// How many stripes take one chunk of each member together: 1 if each is on all of them.
    #[must_use]
    pub fn stripes_of_a_row(&self) -> u64 {
        (self.members / self.width).into()
    }

    /// The sets of members that stripes are on. No member is in two of them.
    fn groups(&self) -> impl Iterator<Item = Set<MemberId>> + use<> {
        let (geometry, count) = (*self, self.stripes_of_a_row() as usize);
        let members =
            move |stripe| geometry.roles().map(|role| geometry.member(stripe, role)).collect();
        (geometry.first..).take(count).map(Stripe).map(members)
    }

    /// Data blocks in a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u32 {
        self.chunk * self.data() as u32
    }

    /// Blocks of the whole array.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.stripes * u64::from(self.stripe_blocks())
    }

    /// The stripe of a block, and the block's offset in the stripe's data.
    #[must_use]
    pub fn locate(&self, lba: Lba) -> (Stripe, u32) {
        let width = u64::from(self.stripe_blocks());
        (Stripe(self.first + lba.0 / width), (lba.0 % width) as u32)
    }

    /// The block after the last one of a stripe or one with a smaller number; 0 if there is none.
    #[must_use]
    pub fn end_of(&self, stripe: Stripe) -> Lba {
        let stripes = (stripe.0 + 1).saturating_sub(self.first).min(self.stripes);
        Lba(stripes * u64::from(self.stripe_blocks()))
    }

    /// The data chunk of a block, given the block's offset in its stripe's data, and the block's row there.
    #[must_use]
    pub fn chunk_at(&self, offset: u32) -> (Role, u32) {
        (Role::at((offset / self.chunk) as usize), offset % self.chunk)
    }

    /// The block of the array that is a row of a data chunk.
    #[must_use]
    pub fn lba(&self, stripe: Stripe, role: Role, row: u32) -> Lba {
        let width = u64::from(self.stripe_blocks());
        Lba((stripe.0 - self.first) * width + u64::from(u32::from(role.0) * self.chunk + row))
    }

    /// The blocks of the array that are `rows` rows of a data chunk, from `row` on.
    pub fn lbas(
        &self,
        stripe: Stripe,
        role: Role,
        row: u32,
        rows: u32,
    ) -> impl Iterator<Item = Lba> + use<> {
        (self.lba(stripe, role, row).0..).take(rows as usize).map(Lba)
    }

    /// The member that holds `role` in `stripe`.
    #[must_use]
    #[inline]
    pub fn member(&self, stripe: Stripe, role: Role) -> MemberId {
        self.placement.member(&self.rotation(stripe), role)
    }

    /// What `member` holds in `stripe`, if it has a part in it.
    #[must_use]
    #[inline]
    pub fn role(&self, stripe: Stripe, member: MemberId) -> Option<Role> {
        // While an array gets more members, those that come have no part in its old stripes.
        if member.0 >= self.members {
            return None;
        }
        self.placement.role(&self.rotation(stripe), member)
    }

    #[inline]
    fn rotation(&self, stripe: Stripe) -> Rotation {
        let stripe = Stripe(stripe.0 - self.first);
        Rotation { members: self.members.into(), parities: self.parities() as u64, stripe }
    }

    /// Among how many stripes in a row every assignment of roles is.
    #[must_use]
    pub fn variety(&self) -> u64 {
        self.placement.variety(self.members)
    }

    /// How many blocks of `member` are taken by the stripes before `stripe`.
    #[must_use]
    #[inline]
    pub fn blocks_before(&self, stripe: Stripe, member: MemberId) -> u64 {
        self.placement.chunks_before(&self.rotation(stripe), member) * u64::from(self.chunk)
    }

    /// How many blocks of `member` the stripes take.
    #[must_use]
    pub fn blocks_of(&self, member: MemberId) -> u64 {
        self.blocks_before(Stripe(self.first + self.stripes), member)
    }

    /// The member that holds `role` in `stripe`, and where the chunk begins there, given where the
    /// members' data begins.
    #[must_use]
    #[inline]
    pub fn place(&self, stripe: Stripe, role: Role, data_start: Pba) -> (MemberId, Pba) {
        let member = self.member(stripe, role);
        (member, Pba(data_start.0 + self.blocks_before(stripe, member)))
    }

    /// All roles.
    #[must_use]
    pub fn roles(&self) -> Set<Role> {
        Set::first(self.width())
    }

    /// The roles of data chunks.
    #[must_use]
    pub fn data_roles(&self) -> Set<Role> {
        Set::first(self.data())
    }

    /// The roles that data chunks can be recovered from: P and Q, or a mirror's other copies.
    #[must_use]
    pub fn spare_roles(&self) -> Set<Role> {
        self.roles().minus(self.data_roles())
    }

    /// The members that hold stripes, without staging devices.
    #[must_use]
    pub fn member_set(&self) -> Set<MemberId> {
        Set::first(self.members())
    }

    /// The role of P, if there is one.
    #[must_use]
    pub fn p(&self) -> Option<Role> {
        (self.parities() >= 1).then_some(Role::at(self.data()))
    }

    /// The role of Q, if there is one.
    #[must_use]
    pub fn q(&self) -> Option<Role> {
        (self.parities() == 2).then_some(Role::at(self.data() + 1))
    }
}

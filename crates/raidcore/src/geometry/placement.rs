//! Where a stripe's chunks lie: Linux md's placements (md, `raid5_compute_sector`), one [`Row`]
//! each.
//!
//! The functions here tell everything about a placement that other code needs: how many members
//! have a role in a stripe, which member has which role, how many chunks a member has before a
//! stripe, and after how many stripes the pattern repeats. In md's placements, every member has a
//! role in every stripe.
//!
//! Q is on the member after P. For RAID6 these are the placements in which md numbers chunks for Q
//! in the order of the array. That excludes md's asymmetric ones, and those whose names end in
//! `-6`.

use super::{Level, Role};
use crate::units::{MemberId, Stripe};

/// Where the chunks of a stripe lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// P moves from the last member to the first; data from the first member on, around parity.
    LeftAsymmetric,
    /// P moves from the first member to the last; data from the first member on, around parity.
    RightAsymmetric,
    /// P moves from the last member to the first; data follows parity, around the last member.
    LeftSymmetric,
    /// P moves from the first member to the last; data follows parity, around the last member.
    RightSymmetric,
    /// Parity is on the first members.
    ParityFirst,
    /// Parity, if there is any, is on the last members.
    ParityLast,
}

/// The properties of a placement.
struct Row {
    placement: Placement,
    /// md's name for it.
    name: &'static str,
    /// md's number for it, which is also the one in superblocks.
    number: u8,
    /// The levels that may have it.
    levels: &'static [Level],
}

use Level::{Raid0, Raid1, Raid4, Raid5, Raid6};

#[rustfmt::skip]
const ROWS: [Row; 6] = [
    Row { placement: Placement::LeftAsymmetric, name: "left-asymmetric", number: 0, levels: &[Raid5] },
    Row { placement: Placement::RightAsymmetric, name: "right-asymmetric", number: 1, levels: &[Raid5] },
    Row { placement: Placement::LeftSymmetric, name: "left-symmetric", number: 2, levels: &[Raid5, Raid6] },
    Row { placement: Placement::RightSymmetric, name: "right-symmetric", number: 3, levels: &[Raid5, Raid6] },
    Row { placement: Placement::ParityFirst, name: "parity-first", number: 4, levels: &[Raid5, Raid6] },
    Row { placement: Placement::ParityLast, name: "parity-last", number: 5, levels: &[Raid0, Raid1, Raid4, Raid5, Raid6] },
];

impl Placement {
    /// A level's default, which is that of md.
    #[must_use]
    pub const fn of(level: Level) -> Self {
        match level {
            Raid0 | Raid1 | Raid4 => Self::ParityLast,
            Raid5 | Raid6 => Self::LeftSymmetric,
        }
    }

    /// All, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.placement)
    }

    /// Whether a level can have it.
    #[must_use]
    pub fn fits(self, level: Level) -> bool {
        self.row().levels.contains(&level)
    }

    /// md's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its number in superblocks, which is md's.
    pub(crate) fn number(self) -> u8 {
        self.row().number
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// How many of this many members have a role in a stripe.
    pub(super) const fn width(self, members: u8) -> u8 {
        match self {
            Self::LeftAsymmetric
            | Self::RightAsymmetric
            | Self::LeftSymmetric
            | Self::RightSymmetric
            | Self::ParityFirst
            | Self::ParityLast => members,
        }
    }

    /// After how many stripes the pattern of roles repeats, for this many members.
    pub(super) const fn period(self, members: u8) -> u64 {
        match self {
            Self::LeftAsymmetric
            | Self::RightAsymmetric
            | Self::LeftSymmetric
            | Self::RightSymmetric => members as u64,
            Self::ParityFirst | Self::ParityLast => 1,
        }
    }

    /// How many chunks `member` has in the stripes before this one.
    #[inline]
    pub(super) const fn chunks_before(self, at: &Rotation, _member: MemberId) -> u64 {
        match self {
            Self::LeftAsymmetric
            | Self::RightAsymmetric
            | Self::LeftSymmetric
            | Self::RightSymmetric
            | Self::ParityFirst
            | Self::ParityLast => at.stripe.0,
        }
    }

    /// The member that holds P; without parity, the one after the last.
    #[inline]
    fn p(self, at: &Rotation) -> u64 {
        let turn = at.stripe.0 % at.members;
        match self {
            Self::LeftAsymmetric | Self::LeftSymmetric => at.members - 1 - turn,
            Self::RightAsymmetric | Self::RightSymmetric => turn,
            Self::ParityFirst => 0,
            Self::ParityLast => at.members - at.parities,
        }
    }

    /// Whether data begins on the first member that has no parity, not on the one after parity.
    #[inline]
    const fn goes_around(self) -> bool {
        matches!(self, Self::LeftAsymmetric | Self::RightAsymmetric)
    }

    /// The member that holds `role`.
    #[inline]
    pub(super) fn member(self, at: &Rotation, role: Role) -> MemberId {
        let (role, p) = (u64::from(role.0), self.p(at));
        let data = at.members - at.parities;
        let member = if self.goes_around() && role < data {
            role + u64::from(role >= p)
        } else {
            // Starting at P, parity comes first, then data.
            at.around(p + at.around(role + at.parities))
        };
        MemberId(member as u8)
    }

    /// What `member` holds, if it has a part in the stripe.
    #[inline]
    pub(super) fn role(self, at: &Rotation, member: MemberId) -> Option<Role> {
        let (member, p) = (u64::from(member.0), self.p(at));
        let data = at.members - at.parities;
        let role = if self.goes_around() && member != p {
            member - u64::from(member > p)
        } else {
            at.around(at.around(member + at.members - p) + data)
        };
        Some(Role(role as u8))
    }
}

/// How far a placement has rotated in a stripe.
pub(super) struct Rotation {
    pub(super) members: u64,
    pub(super) parities: u64,
    pub(super) stripe: Stripe,
}

impl Rotation {
    /// After the last member comes the first.
    #[inline]
    const fn around(&self, member: u64) -> u64 {
        if member < self.members { member } else { member - self.members }
    }
}

//! Where a stripe's chunks lie: Linux md's placements (md, `raid5_compute_sector`, and
//! `__raid10_find_phys` for the near copies of RAID10), one [`Row`] each, and parity in given [`Shares`].
//!
//! The functions here tell everything about a placement that other code needs: how many members
//! have a role in a stripe, which member has which role, how many chunks a member has before a
//! stripe, and among how many stripes in a row every assignment of roles is. Only near copies leave
//! members without a role in a stripe. Stripes in a row are on other members there until all have been
//! met, so no member is in two of the sets that stripes are on.
//!
//! Q is on the member after P. For RAID6 these are the placements in which md numbers chunks for Q
//! in the order of the array. That excludes md's asymmetric ones, and those whose names end in
//! `-6`.

use super::rotation::Rotation;
use super::shares::Shares;
use super::{Level, Role};
use crate::units::MemberId;

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
    /// Parity is on the members in these shares, data from the first member on, around parity. It is
    /// none of md's.
    Uneven(Shares),
    /// Two copies, on members 0 and 1, those of the next stripe on members 2 and 3, and so on.
    Near,
}

/// How many copies of a chunk there are where copies are near.
const COPIES: u64 = 2;

/// A rule for chunks that do not turn with parity.
enum Rule<'a> {
    /// Parity is in these shares.
    Shares(&'a Shares),
    /// Copies are near.
    Near,
}

/// The member with a stripe's first copy where copies are near.
#[inline]
const fn first_of_pair(at: &Rotation) -> u64 {
    at.stripe.0 % (at.members / COPIES) * COPIES
}

/// The properties of a placement.
struct Row {
    /// Its name, which is md's if it is md's.
    name: &'static str,
    /// Its number in superblocks, which is md's if it is md's.
    number: u8,
    /// The levels that may have it.
    levels: &'static [Level],
}

use Level::{Raid0, Raid1, Raid4, Raid5, Raid6, Raid10};

/// By placement, in their order.
#[rustfmt::skip]
const ROWS: [Row; 8] = [
    Row { name: "left-asymmetric", number: 0, levels: &[Raid5] },
    Row { name: "right-asymmetric", number: 1, levels: &[Raid5] },
    Row { name: "left-symmetric", number: 2, levels: &[Raid5, Raid6] },
    Row { name: "right-symmetric", number: 3, levels: &[Raid5, Raid6] },
    Row { name: "parity-first", number: 4, levels: &[Raid5, Raid6] },
    Row { name: "parity-last", number: 5, levels: &[Raid0, Raid1, Raid4, Raid5, Raid6] },
    Row { name: "uneven", number: 6, levels: &[Raid5, Raid6] },
    Row { name: "near", number: 7, levels: &[Raid10] },
];

impl Placement {
    /// A level's default, which is that of md.
    #[must_use]
    pub const fn of(level: Level) -> Self {
        match level {
            Raid0 | Raid1 | Raid4 => Self::ParityLast,
            Raid5 | Raid6 => Self::LeftSymmetric,
            Raid10 => Self::Near,
        }
    }

    /// All of md's, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        let symmetric = [Self::LeftSymmetric, Self::RightSymmetric];
        let asymmetric = [Self::LeftAsymmetric, Self::RightAsymmetric];
        asymmetric.into_iter().chain(symmetric).chain([
            Self::ParityFirst,
            Self::ParityLast,
            Self::Near,
        ])
    }

    /// Whether a level can have it.
    #[must_use]
    pub fn fits(self, level: Level) -> bool {
        self.row().levels.contains(&level)
    }

    /// Its name, which is md's if it is md's.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its number in superblocks, which is md's if it is md's.
    pub(crate) fn number(self) -> u8 {
        self.row().number
    }

    fn row(self) -> &'static Row {
        &ROWS[match self {
            Self::LeftAsymmetric => 0,
            Self::RightAsymmetric => 1,
            Self::LeftSymmetric => 2,
            Self::RightSymmetric => 3,
            Self::ParityFirst => 4,
            Self::ParityLast => 5,
            Self::Uneven(_) => 6,
            Self::Near => 7,
        }]
    }

    /// How many of this many members have a role in a stripe.
    pub(super) const fn width(self, members: u8) -> u8 {
        match self {
            Self::LeftAsymmetric
            | Self::RightAsymmetric
            | Self::LeftSymmetric
            | Self::RightSymmetric
            | Self::ParityFirst
            | Self::ParityLast
            | Self::Uneven(_) => members,
            Self::Near => COPIES as u8,
        }
    }

    /// Among how many stripes in a row every assignment of roles is, for this many members.
    pub(super) const fn variety(self, members: u8) -> u64 {
        match self {
            Self::LeftAsymmetric
            | Self::RightAsymmetric
            | Self::LeftSymmetric
            | Self::RightSymmetric => members as u64,
            Self::ParityFirst | Self::ParityLast => 1,
            Self::Uneven(_) => Shares::variety(),
            Self::Near => members as u64 / COPIES,
        }
    }

    /// How many chunks `member` has in the stripes before this one.
    #[inline]
    pub(super) fn chunks_before(&self, at: &Rotation, member: MemberId) -> u64 {
        match self {
            Self::LeftAsymmetric
            | Self::RightAsymmetric
            | Self::LeftSymmetric
            | Self::RightSymmetric
            | Self::ParityFirst
            | Self::ParityLast
            | Self::Uneven(_) => at.stripe.0,
            Self::Near => {
                let (pairs, pair) = (at.members / COPIES, member.0 as u64 / COPIES);
                at.stripe.0 / pairs + (at.stripe.0 % pairs > pair) as u64
            }
        }
    }

    /// The member that holds P, without parity the one after the last; or that it goes by another rule.
    #[inline]
    fn p(&self, at: &Rotation) -> Result<u64, Rule<'_>> {
        let turn = at.stripe.0 % at.members;
        Ok(match self {
            Self::LeftAsymmetric | Self::LeftSymmetric => at.members - 1 - turn,
            Self::RightAsymmetric | Self::RightSymmetric => turn,
            Self::ParityFirst => 0,
            Self::ParityLast => at.members - at.parities,
            Self::Uneven(shares) => return Err(Rule::Shares(shares)),
            Self::Near => return Err(Rule::Near),
        })
    }

    /// Whether data begins on the first member that has no parity, not on the one after parity.
    #[inline]
    const fn goes_around(&self) -> bool {
        matches!(self, Self::LeftAsymmetric | Self::RightAsymmetric)
    }

    /// The member that holds `role`.
    #[inline]
    pub(super) fn member(&self, at: &Rotation, role: Role) -> MemberId {
        let p = match self.p(at) {
            Ok(p) => p,
            Err(Rule::Shares(shares)) => return shares.member(at, role),
            Err(Rule::Near) => return MemberId(first_of_pair(at) as u8 + role.0),
        };
        let role = u64::from(role.0);
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
    pub(super) fn role(&self, at: &Rotation, member: MemberId) -> Option<Role> {
        let p = match self.p(at) {
            Ok(p) => p,
            Err(Rule::Shares(shares)) => return Some(shares.role(at, member)),
            Err(Rule::Near) => {
                let copy = u64::from(member.0).checked_sub(first_of_pair(at))?;
                return (copy < COPIES).then_some(Role(copy as u8));
            }
        };
        let member = u64::from(member.0);
        let data = at.members - at.parities;
        let role = if self.goes_around() && member != p {
            member - u64::from(member > p)
        } else {
            at.around(at.around(member + at.members - p) + data)
        };
        Some(Role(role as u8))
    }
}

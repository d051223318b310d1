//! Parity in given shares: some members have more of it than others, so that they wear more, and not all
//! together (Balakrishnan et al., "Differential RAID: Rethinking RAID for SSD Reliability", EuroSys 2010).
//!
//! Every 100 stripes, a cycle, have exactly the shares. Within a cycle parity moves by a stride and from a start
//! that are hashed from the cycle's number: so whoever writes every nth stripe writes all members' parity.
//!
//! With P and Q, members are arcs of a circle, each as long as its share of both. P is on the member at some point
//! and Q on the one opposite. As no arc is longer than half of the circle, they differ.

use super::rotation::Rotation;
use super::{Level, Role};
use crate::units::{MEMBERS_MAX, MemberId};

/// The stripes in which each member has exactly its share of parity.
const CYCLE: u64 = 100;

/// Strides that reach every stripe of a cycle: all that have no divisor in common with it.
const STRIDES: [u64; 40] = [
    1, 3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31, 33, 37, 39, 41, 43, 47, 49, 51, 53, 57, 59, 61,
    63, 67, 69, 71, 73, 77, 79, 81, 83, 87, 89, 91, 93, 97, 99,
];

/// Members' shares of parity, in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    members: u8,
    /// By member, those that there are not with 0.
    percent: [u8; MEMBERS_MAX],
}

/// Why shares are impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SharesError {
    /// There are none, or more than members can be.
    #[error("there are {0} parity shares: one is needed for each member, and there are at most 32")]
    Count(usize),
    /// They are not all of the parity.
    #[error("parity shares add up to {0}%, but must to 100%")]
    Sum(u32),
    /// There is not one for each member.
    #[error("there are {shares} parity shares for {members} members")]
    Members {
        /// How many shares.
        shares: u8,
        /// How many members.
        members: u8,
    },
    /// P and Q would have to be on the same member.
    #[error("a parity share is {0}%: with two parities no member can have more than 50%")]
    TooLarge(u8),
}

impl Shares {
    /// Of these percents, by member.
    ///
    /// # Errors
    /// If there are none or too many, or if they are not 100 in all.
    pub fn new(percent: &[u8]) -> Result<Self, SharesError> {
        let count = u8::try_from(percent.len()).ok().filter(|count| (1..=32).contains(count));
        let members = count.ok_or(SharesError::Count(percent.len()))?;
        let sum = percent.iter().copied().map(u32::from).sum();
        if sum != CYCLE as u32 {
            return Err(SharesError::Sum(sum));
        }
        let mut all = [0; MEMBERS_MAX];
        all[..percent.len()].copy_from_slice(percent);
        Ok(Self { members, percent: all })
    }

    /// In percent, by member.
    #[must_use]
    pub fn percent(&self) -> &[u8] {
        &self.percent[..usize::from(self.members)]
    }

    /// Whether this many members of a level can have them.
    pub(super) fn check(&self, level: Level, members: u8) -> Result<(), SharesError> {
        if self.members != members {
            return Err(SharesError::Members { shares: self.members, members });
        }
        let greatest = self.percent().iter().copied().max().unwrap_or(0);
        match level {
            Level::Raid6 if greatest > 50 => Err(SharesError::TooLarge(greatest)),
            Level::Raid0
            | Level::Raid1
            | Level::Raid4
            | Level::Raid5
            | Level::Raid6
            | Level::Raid10 => Ok(()),
        }
    }

    /// The stripes in a row among which there is every assignment of roles.
    pub(super) const fn variety() -> u64 {
        // A whole cycle is among them.
        2 * CYCLE - 1
    }

    /// The member that holds `role`. Data is on the members without parity, in order.
    #[cold]
    pub(super) fn member(&self, at: &Rotation, role: Role) -> MemberId {
        let (role, (p, q)) = (u64::from(role.0), self.parity(at));
        let member = match role.checked_sub(at.members - at.parities) {
            None => {
                let member = role + u64::from(role >= p.min(q));
                member + u64::from(p != q && member >= p.max(q))
            }
            Some(0) => p,
            Some(_) => q,
        };
        MemberId(member as u8)
    }

    /// What `member` holds.
    #[cold]
    pub(super) fn role(&self, at: &Rotation, member: MemberId) -> Role {
        let (member, (p, q)) = (u64::from(member.0), self.parity(at));
        let data = at.members - at.parities;
        let role = match member {
            _ if member == p => data,
            _ if member == q => data + 1,
            _ => member - u64::from(member > p) - u64::from(p != q && member > q),
        };
        Role(role as u8)
    }

    /// The members of a stripe's P and Q; of P twice if there is no Q.
    fn parity(&self, &Rotation { stripe, parities, .. }: &Rotation) -> (u64, u64) {
        let (cycle, turn) = (stripe.0 / CYCLE, stripe.0 % CYCLE);
        let hash = mixed(cycle);
        let stride = STRIDES[(hash % STRIDES.len() as u64) as usize];
        let point = (turn * stride + (hash >> 32) % CYCLE) % CYCLE;
        let p = self.at(parities, point);
        (p, if parities == 2 { self.at(parities, point + CYCLE) } else { p })
    }

    /// The member at a point of the circle, which has so many cycles' length.
    fn at(&self, cycles: u64, point: u64) -> u64 {
        let mut end = 0;
        let holds = |percent: &u8| {
            end += cycles * u64::from(*percent);
            point < end
        };
        self.percent.iter().position(holds).unwrap_or(0) as u64
    }
}

/// A number that shows nothing of the one that it is of (the finalizer of SplitMix64: Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014).
const fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

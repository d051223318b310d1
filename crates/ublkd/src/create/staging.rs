//! The size of a new array's staging log on members and staging devices.

use raidcore::geometry::{Geometry, Level};
use raidcore::meta::{STAGING_MAX, STAGING_MIN, can_stage};
use raidcore::units::{BLOCK_BYTES, MEMBERS_MAX, Pba};

/// A staging log's part of each member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StagingSize {
    /// A number of blocks.
    Blocks(u64),
    /// Hundredths of the used size of the smallest member.
    Percent(u8),
    /// What a policy or cache has that needs one, if nothing else is asked for: a twentieth of the used size of the smallest
    /// member, but not more than 1 GiB.
    Usual,
}

/// Why an array can't have the staging log that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StagingError {
    /// The level has no parity.
    #[error(
        "a staging log needs parity, which {} has none of: take raid4, raid5 or raid6, or leave \
         --staging, and a --cache, --policy or --wear that needs one, out",
        .0.name()
    )]
    Level(Level),
    /// There are too many members.
    #[error(
        "with a staging log {} takes at most {most} members, not {members}: take fewer, or leave \
         --staging out",
        .level.name()
    )]
    Members {
        /// The level.
        level: Level,
        /// How many members there are.
        members: usize,
        /// How many there may be.
        most: usize,
    },
    /// It is too small or too large.
    #[error(
        "a staging log of {} KiB is too {}: it takes from {} KiB to {} MiB of each member, and \
         reserved:SIZE gives the size itself",
        kib(*.0),
        if *.0 < STAGING_MIN { "small" } else { "large" },
        kib(STAGING_MIN),
        kib(STAGING_MAX) >> 10
    )]
    Size(u64),
    /// There are too many staging devices.
    #[error("{members} members take at most {most} staging devices, not {devices}: take fewer")]
    Devices {
        /// How many members there are.
        members: usize,
        /// How many staging devices there are.
        devices: usize,
        /// How many there may be.
        most: usize,
    },
    /// A staging device is too small.
    #[error(
        "a staging device needs at least {} KiB for this array, and the smallest has {} KiB",
        kib(*.need),
        kib(*.have)
    )]
    Device {
        /// Blocks that it has.
        have: u64,
        /// Blocks that it needs.
        need: u64,
    },
}

/// The smallest part on each member if there are staging devices: it is used while these are busy
/// or gone.
const BESIDE_MIN: u64 = 1024;

/// The most that a write cache has of each member if no size is asked for: 1 GiB.
const CACHE_MAX: u64 = (1 << 30) / BLOCK_BYTES as u64;

/// Checks that there is a place for each member and staging device.
pub(super) fn check_places(members: usize, devices: usize) -> Result<(), StagingError> {
    let most = MEMBERS_MAX.saturating_sub(members);
    let error = StagingError::Devices { members, devices, most };
    if devices > most { Err(error) } else { Ok(()) }
}

/// The staging log's part of a device of this many blocks, from `start` to the end.
pub(super) fn device_ring(blocks: u64, start: Pba) -> Result<u64, StagingError> {
    let need = start.0 + STAGING_MIN;
    let too_small = StagingError::Device { have: blocks, need };
    if blocks < need { Err(too_small) } else { Ok((blocks - start.0).min(STAGING_MAX)) }
}

impl StagingSize {
    /// The log's blocks on each member if each of `devices` staging devices has `ring` blocks. The
    /// members hold the other copies: a staged block is on one device more than may be lost.
    pub(super) fn beside(devices: usize, ring: u64, level: Level, members: usize) -> Self {
        let redundancy = Geometry::new(level, members, 1, 1).map_or(0, |geo| geo.redundancy());
        let elsewhere = (redundancy + 1).saturating_sub(devices) as u64;
        let blocks = (ring * elsewhere).div_ceil(members.max(1) as u64);
        Self::Blocks(blocks.clamp(BESIDE_MIN, STAGING_MAX))
    }

    /// The log's blocks, for an array that uses `used` blocks of each member.
    pub(super) fn blocks(
        self,
        level: Level,
        members: usize,
        used: u64,
    ) -> Result<u64, StagingError> {
        if !can_have(level, members) {
            let most = (1..=MEMBERS_MAX).rev().find(|&members| can_have(level, members));
            let too_many = |most| StagingError::Members { level, members, most };
            return Err(most.map_or(StagingError::Level(level), too_many));
        }
        let blocks = match self {
            Self::Blocks(blocks) => blocks,
            Self::Percent(percent) => {
                let blocks = u128::from(used) * u128::from(percent) / 100;
                u64::try_from(blocks).unwrap_or(u64::MAX)
            }
            Self::Usual => (used / 20).clamp(STAGING_MIN, CACHE_MAX),
        };
        let sized = (STAGING_MIN..=STAGING_MAX).contains(&blocks);
        if sized { Ok(blocks) } else { Err(StagingError::Size(blocks)) }
    }
}

fn can_have(level: Level, members: usize) -> bool {
    Geometry::new(level, members, 1, 1).is_ok_and(|geometry| can_stage(&geometry))
}

fn kib(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_BYTES as u64) >> 10
}

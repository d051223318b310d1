//! The numbers of levels, states and other enumerations in superblocks.

use super::codec::CodecError;
use super::record::Consistency;
use crate::geometry::Level;

pub(super) fn level_number(level: Level) -> u8 {
    match level {
        Level::Raid0 => 0,
        Level::Raid1 => 1,
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
        Level::Raid10 => 10,
    }
}

pub(super) fn decode_level(number: u8) -> Result<Level, CodecError> {
    let level = Level::ALL.into_iter().find(|&level| level_number(level) == number);
    level.ok_or(CodecError::Invalid("level"))
}

pub(super) fn consistency_number(consistency: Consistency) -> u8 {
    match consistency {
        Consistency::Resync => 1,
        Consistency::Bitmap => 2,
        Consistency::Journal => 3,
    }
}

pub(super) fn decode_consistency(number: u8) -> Result<Consistency, CodecError> {
    let all = [Consistency::Resync, Consistency::Bitmap, Consistency::Journal];
    let consistency = all.into_iter().find(|&c| consistency_number(c) == number);
    consistency.ok_or(CodecError::Invalid("consistency"))
}

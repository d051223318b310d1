//! Where chunks lie, in the superblock.

use super::codec::{CodecError, Field};
use super::record::{ArrayRecord, Features};
use crate::geometry::{Level, Placement, Shares};
use crate::units::MEMBERS_MAX;

/// Where the placement's number is.
pub(super) const START: usize = 1873;

const PLACEMENT: Field<1> = Field { at: START };
const PARITY_SHARES: Field<MEMBERS_MAX> = Field { at: 1954 };

/// The first byte after the fields there.
pub(super) const END: usize = PLACEMENT.end();

/// The first byte after the parity shares.
pub(super) const SHARES_END: usize = PARITY_SHARES.end();

const _: () = assert!(PARITY_SHARES.at == super::returns::END && PARITY_SHARES.end() <= 2048);

/// The features of an array with this placement.
pub(super) fn features(level: Level, placement: Placement) -> u64 {
    let told = if placement == Placement::of(level) { 0 } else { Features::PLACEMENT };
    let has_shares = matches!(placement, Placement::Uneven(_));
    let shares = if has_shares { Features::PARITY_SHARES } else { 0 };
    told | shares | if level == Level::Raid10 { Features::PAIRS } else { 0 }
}

pub(super) fn encode(record: &ArrayRecord, into: &mut [u8]) {
    let placement = record.geometry.placement();
    if record.features.incompatible & Features::PLACEMENT != 0 {
        PLACEMENT.put(into, [placement.number()]);
    }
    if let Placement::Uneven(shares) = placement {
        into[PARITY_SHARES.at..][..shares.percent().len()].copy_from_slice(shares.percent());
    }
}

/// The placement of this many members.
pub(super) fn decode(
    block: &[u8],
    features: &Features,
    level: Level,
    members: usize,
) -> Result<Placement, CodecError> {
    let has = |feature| features.incompatible & feature != 0;
    if has(Features::PAIRS) != (level == Level::Raid10) {
        return Err(CodecError::Invalid("level"));
    }
    if !has(Features::PLACEMENT | Features::PARITY_SHARES) {
        return Ok(Placement::of(level));
    }
    let number = PLACEMENT.u8(block);
    if has(Features::PARITY_SHARES) {
        if !has(Features::PLACEMENT) {
            return Err(CodecError::Invalid("parity shares"));
        }
        let percent = PARITY_SHARES.get(block);
        let shares = percent.get(..members).and_then(|percent| Shares::new(percent).ok());
        let uneven = shares.map(Placement::Uneven).filter(|uneven| uneven.number() == number);
        return uneven.ok_or(CodecError::Invalid("parity shares"));
    }
    let md = Placement::all().find(|placement| placement.number() == number);
    md.ok_or(CodecError::Invalid("placement"))
}

//! The superblock's fields of a member's substitutes: the distributed spare, and a successor that
//! is being filled.

use super::codec::{CodecError, Field};
use super::record::{ArrayRecord, DeviceUuid, Features, SlotState, Spared, Successor};
use crate::units::MemberId;

/// Where these fields begin.
pub(super) const START: usize = 1910;

const SPARED: Field<1> = Field { at: START };
const SPARED_MEMBER: Field<1> = SPARED.then();
const SPARED_WATERMARK: Field<8> = SPARED_MEMBER.then();
const SUCCESSOR: Field<16> = SPARED_WATERMARK.then();
const SUCCESSOR_WATERMARK: Field<8> = SUCCESSOR.then();
const SUCCEEDS: Field<1> = SUCCESSOR_WATERMARK.then();
const SUCCEEDED: Field<1> = SUCCEEDS.then();

/// Where they end.
pub(super) const END: usize = SUCCEEDED.end();

const _: () = assert!(SPARED_WATERMARK.end() == 1920 && SUCCEEDED.end() == 1946);

/// Writes the fields of a record.
pub(super) fn encode(record: &ArrayRecord, into: &mut [u8]) {
    if let Some(spared) = &record.spared {
        SPARED.put(into, [1]);
        SPARED_MEMBER.put(into, [spared.member.0]);
        SPARED_WATERMARK.put(into, spared.watermark.to_le_bytes());
    }
    if let Some(successor) = &record.successor {
        SUCCESSOR.put(into, successor.device.0);
        SUCCESSOR_WATERMARK.put(into, successor.watermark.to_le_bytes());
        SUCCEEDS.put(into, [1]);
        SUCCEEDED.put(into, [successor.member.0]);
    }
}

/// The content of the distributed spare, if it has any.
pub(super) fn decode_spared(
    block: &[u8],
    features: &Features,
) -> Result<Option<Spared>, CodecError> {
    let has_spare = features.incompatible & Features::DISTRIBUTED_SPARE != 0;
    match SPARED.u8(block) {
        _ if !has_spare => Ok(None),
        0 => Ok(None),
        1 => Ok(Some(Spared {
            member: MemberId(SPARED_MEMBER.u8(block)),
            watermark: SPARED_WATERMARK.u64(block),
        })),
        _ => Err(CodecError::Invalid("distributed spare")),
    }
}

/// The spare that is being filled to take a member's place, if there is one.
pub(super) fn decode_successor(block: &[u8]) -> Result<Option<Successor>, CodecError> {
    match SUCCEEDS.u8(block) {
        0 => Ok(None),
        1 => Ok(Some(Successor {
            member: MemberId(SUCCEEDED.u8(block)),
            device: DeviceUuid(SUCCESSOR.get(block)),
            watermark: SUCCESSOR_WATERMARK.u64(block),
        })),
        _ => Err(CodecError::Invalid("successor")),
    }
}

/// Checks that the distributed spare replaces a member that does not serve, that a successor is a
/// spare for one that does, and that there are not both.
pub(super) fn check(record: &ArrayRecord) -> Result<(), CodecError> {
    let (geometry, slots) = (&record.geometry, &record.slots);
    let is_up = |member: MemberId| slots.get(member.index()).map(|s| s.state == SlotState::Up);
    let stands_in = record.spared.is_none_or(|spared| {
        spared.member.index() < geometry.members()
            && is_up(spared.member) == Some(false)
            && spared.watermark <= record.stripes()
    });
    if !stands_in {
        return Err(CodecError::Invalid("distributed spare"));
    }
    let succeeds = record.successor.is_none_or(|successor| {
        let stages = successor.member.index() >= geometry.members();
        is_up(successor.member) == Some(true)
            && record.spares.contains(&successor.device)
            && successor.watermark <= record.stripes()
            && (record.spared.is_none() || stages)
    });
    if succeeds { Ok(()) } else { Err(CodecError::Invalid("successor")) }
}

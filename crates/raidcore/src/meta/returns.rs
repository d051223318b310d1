//! Devices that were away: whether one may return with its content, and the superblock's field of
//! those that have.

use super::codec::Field;
use super::record::{ArrayRecord, DeviceUuid, SlotRecord, SlotState, Superblock};
use super::substitutes;
use crate::units::MemberId;

/// A bit for each member that catches up.
const CATCHING_UP: Field<8> = Field { at: substitutes::END };

/// The first byte after the field.
pub(super) const END: usize = CATCHING_UP.end();

/// Writes the field of a record.
pub(super) fn encode(record: &ArrayRecord, into: &mut [u8]) {
    let catches_up = record.slots.iter().enumerate().filter(|(_, slot)| slot.catches_up);
    let bits = catches_up.fold(0u64, |bits, (index, _)| bits | 1 << index);
    CATCHING_UP.put(into, bits.to_le_bytes());
}

/// Reads the field. Bits of members that are not being filled mean nothing.
pub(super) fn decode(block: &[u8], members: &mut [SlotRecord]) {
    let bits = CATCHING_UP.u64(block);
    for (index, slot) in members.iter_mut().enumerate() {
        let filled = matches!(slot.state, SlotState::Rebuilding { .. });
        slot.catches_up = filled && bits >> index & 1 != 0;
    }
}

/// How a device may return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Returning {
    /// To which place.
    pub member: MemberId,
    /// The identity that it had. It gets a new one when it returns.
    pub was: DeviceUuid,
    /// Whether it is known what it lacks, so that only that is written to it. If not, it is filled
    /// completely.
    pub catches_up: bool,
}

/// Why a device can't return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoReturn {
    /// It belongs to another array.
    #[error("it belongs to another array")]
    OtherArray,
    /// It is a member or spare in service.
    #[error("it is in service")]
    InService,
    /// Its place was given to another device, or it never had one.
    #[error("the array has another device in its place")]
    PlaceTaken,
    /// It was used without the others, and may hold writes that they lack.
    #[error("it was used without the other members since, so it may hold what they do not")]
    WentOn,
    /// A change of the record is under way: the next start may still take the device for a member
    /// in service.
    #[error("that it has left is being recorded; try again")]
    NotRecorded,
    /// Its layout differs.
    #[error("its layout is not the array's")]
    OtherLayout,
    /// It has become smaller.
    #[error("it has {have} blocks of 4 KiB; its place needs {need}")]
    TooSmall {
        /// Blocks of the device.
        have: u64,
        /// Blocks needed.
        need: u64,
    },
}

/// Decides whether a device with this superblock and this many blocks may return to its place in
/// the array of a record.
///
/// # Errors
/// Why it can't.
pub fn may_return(
    superblock: &Superblock,
    record: &ArrayRecord,
    blocks: u64,
) -> Result<Returning, NoReturn> {
    let Superblock { record: known, device } = superblock;
    if known.array != record.array {
        return Err(NoReturn::OtherArray);
    }
    let is_it = |slot: &SlotRecord| slot.device == *device;
    let in_slot = record.slots.iter().position(is_it);
    let in_service = in_slot.is_some_and(|at| record.slots[at].state != SlotState::Failed);
    if in_service || record.spares.contains(device) {
        return Err(NoReturn::InService);
    }
    let index = in_slot.ok_or(NoReturn::PlaceTaken)?;
    let member = MemberId::at(index);
    let left = record.slots[index].left;
    // It has newer changes than the array ever wrote to it: it was used elsewhere.
    if diverged(known, record) || left.is_some_and(|left| known.events > left) {
        return Err(NoReturn::WentOn);
    }
    if known.geometry != record.geometry || known.areas != record.areas {
        return Err(NoReturn::OtherLayout);
    }
    let need = record.blocks_of(member);
    if blocks < need {
        return Err(NoReturn::TooSmall { have: blocks, need });
    }
    // An older record means that the device is a copy from an earlier time.
    let catches_up = !record.is_staging_device(member)
        && left.is_some_and(|left| known.events.saturating_add(1) >= left);
    Ok(Returning { member, was: *device, catches_up })
}

/// Whether two records can't share one history. Either they differ at the same count, or the older
/// one has failed a device that the newer one still uses, or has as a spare. A failed device comes
/// back only under another identity.
pub(super) fn diverged(a: &ArrayRecord, b: &ArrayRecord) -> bool {
    let (old, new) = if a.events <= b.events { (a, b) } else { (b, a) };
    let uses = |device| {
        let serves = |slot: &SlotRecord| slot.device == device && slot.state != SlotState::Failed;
        new.slots.iter().any(serves) || new.spares.contains(&device)
    };
    let gone = |slot: &&SlotRecord| slot.state == SlotState::Failed;
    // A release that does not know what `filled` is leaves it out of a version that it writes once more.
    let differs = || *old != ArrayRecord { filled: old.filled, ..new.clone() };
    (old.events == new.events && differs())
        || old.slots.iter().filter(gone).any(|slot| uses(slot.device))
}

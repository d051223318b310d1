//! The spares of an array, and the places that they take.

use super::Membership;
use crate::engine::{CommandError, DeviceId};
use crate::meta::{DeviceUuid, SPARES_MAX, SlotState};
use crate::units::MemberId;

/// A spare.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Spare {
    pub(in crate::engine) device: DeviceId,
    pub(in crate::engine) uuid: DeviceUuid,
    pub(in crate::engine) blocks: u64,
}

impl Membership {
    /// The spares that are there.
    pub(in crate::engine) fn spares(&self) -> &[Spare] {
        &self.spares
    }

    /// The spare that a device is.
    pub(in crate::engine) fn spare(&self, device: DeviceId) -> Option<Spare> {
        self.spares.iter().find(|spare| spare.device == device).copied()
    }

    /// Spares that are on record and not there.
    pub(in crate::engine) fn absent_spares(&self) -> impl Iterator<Item = DeviceUuid> {
        let here = |uuid: &DeviceUuid| self.spares.iter().any(|spare| spare.uuid == *uuid);
        self.recorder.record.spares.iter().copied().filter(move |uuid| !here(uuid))
    }

    /// The members that a device is there for to be filled.
    pub(in crate::engine) fn rebuilding(&self) -> impl Iterator<Item = MemberId> {
        let filled =
            self.slots().filter(|(_, m, slot)| slot.is_being_filled() && m.device.is_some());
        filled.map(|(member, _, _)| member)
    }

    /// The first member that has failed and a spare that is large enough for its place; the one whose
    /// data is on the distributed spare comes last, and of the spares the successor of a member.
    pub(in crate::engine) fn spare_for_failed(&self) -> Option<(MemberId, DeviceId)> {
        let record = &self.recorder.record;
        let failed = |member: &MemberId| record.slots[member.index()].state == SlotState::Failed;
        let stood_in_for = record.stood_in_for();
        let others = record.places().filter(|&member| Some(member) != stood_in_for);
        let mut failed = others.chain(stood_in_for).filter(failed);
        failed.find_map(|member| {
            let fits = |spare: &&Spare| spare.blocks >= record.blocks_of(member);
            let spares = self.spares.iter().filter(fits);
            let spare = spares.min_by_key(|spare| self.is_successor(spare.device))?;
            Some((member, spare.device))
        })
    }

    /// A device is a spare from now on. That is to be recorded next.
    pub(in crate::engine) fn add_spare(
        &mut self,
        device: DeviceId,
        uuid: DeviceUuid,
        blocks: u64,
    ) -> Result<(), CommandError> {
        let record = &self.recorder.record;
        let need = record.least_blocks();
        if blocks < need {
            return Err(CommandError::TooSmall { have: blocks, need });
        }
        let mut known =
            record.slots.iter().map(|slot| slot.device).chain(record.spares.iter().copied());
        let in_use = self.member_with(device).is_some() || self.spare(device).is_some();
        if in_use || known.any(|known| known == uuid) {
            return Err(CommandError::NoSuchDevice);
        }
        if record.spares.len() >= SPARES_MAX {
            return Err(CommandError::TooManySpares);
        }
        self.spares.push(Spare { device, uuid, blocks });
        self.recorder.record.spares.push(uuid);
        Ok(())
    }

    /// A device is no spare any more, if it was one. That is to be recorded next.
    pub(in crate::engine) fn remove_spare(&mut self, device: DeviceId) -> Option<Spare> {
        let index = self.spares.iter().position(|spare| spare.device == device)?;
        let spare = self.spares.remove(index);
        self.recorder.record.spares.retain(|&uuid| uuid != spare.uuid);
        Some(spare)
    }

    /// A spare that is on record and not there is none any more. That is to be recorded next.
    pub(in crate::engine) fn forget_absent(
        &mut self,
        uuid: DeviceUuid,
    ) -> Result<(), CommandError> {
        if !self.absent_spares().any(|absent| absent == uuid) {
            return Err(CommandError::NoSuchDevice);
        }
        self.recorder.record.spares.retain(|&spare| spare != uuid);
        Ok(())
    }

    /// A spare is in a failed member's place, with nothing of what belongs there. That is to be recorded
    /// next.
    pub(in crate::engine) fn put_spare(
        &mut self,
        member: MemberId,
        device: DeviceId,
        seconds: u64,
    ) {
        let Some(spare) = self.remove_spare(device) else { return };
        let slot = &mut self.recorder.record.slots[member.index()];
        slot.becomes(SlotState::Rebuilding { watermark: 0 }, seconds);
        slot.device = spare.uuid;
        self.recorder.put_label(member, device);
        self.put_device(member, device);
        self.look_at_members();
    }
}

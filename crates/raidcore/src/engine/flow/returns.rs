//! Devices that return to the places that they had.

use alloc::vec::Vec;

use crate::engine::{Action, CommandError, Engine, Note};
use crate::meta::{DeviceUuid, NoReturn, Returning, SlotState, Superblock, may_return};
use crate::units::DeviceId;

impl Engine {
    /// Whether a device of so many blocks, with this superblock, may return now. A place that another
    /// device has taken meanwhile is found out by [`Command::Return`](crate::engine::Command::Return).
    ///
    /// # Errors
    /// Why it can't.
    pub fn may_return(&self, superblock: &Superblock, blocks: u64) -> Result<Returning, NoReturn> {
        // What it has of metadata is zeroed next. Should the power fail, it must not be needed.
        if !self.array.membership.recorder.is_durable() {
            return Err(NoReturn::NotRecorded);
        }
        may_return(superblock, self.array.membership.record(), blocks)
    }

    /// A device returns to its place, with a new identity.
    pub(super) fn returns(
        &mut self,
        returning: Returning,
        (device, uuid, blocks): (DeviceId, DeviceUuid, u64),
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        let Returning { member, was, catches_up } = returning;
        let slots = &self.array.membership.record().slots;
        let slot = slots.get(member.index()).ok_or(CommandError::NoSuchMember)?;
        if slot.state != SlotState::Failed || slot.device != was {
            return Err(CommandError::PlaceTaken);
        }
        let catches_up = catches_up && slot.left.is_some();
        let need = self.array.membership.record().blocks_of(member);
        if blocks < need {
            return Err(CommandError::TooSmall { have: blocks, need });
        }
        self.add_spare(device, uuid, blocks)?;
        // It is a spare by its superblock before it can be missing as a member.
        self.record_change(out);
        // It lacks the copies on the distributed spare of another member's chunks.
        let lacks_copies = self.array.membership.spared().is_some_and(|spared| spared != member);
        if !catches_up || lacks_copies {
            self.activate(member, device, out);
            return Ok(());
        }
        self.catches_up(member, out);
        self.put_in_place(member, device);
        self.array.membership.begin_to_catch_up(member);
        self.array.counters.returned_members += 1;
        let regions = self.missed_by(member).map_or(0, |missed| missed.regions);
        out.push(Action::Note(Note::MemberReturned { member, device, regions }));
        self.record_change(out);
        Ok(())
    }
}

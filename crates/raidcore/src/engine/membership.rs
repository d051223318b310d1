//! The members and spares of an array, and its record.
//!
//! Nothing here knows of stripes that are being worked on: that is the rest of the engine's.

use alloc::vec::Vec;

use super::Avoided;
use super::api::IoError;
use super::flight::Flight;
use super::record::Recorder;
use super::succession::Succession;
use crate::geometry::Geometry;
use crate::meta::{Assembled, DeviceUuid, SlotState};
use crate::units::{DeviceId, MemberId, Set};

/// A member as the engine keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    /// Its device, if it has one that answers.
    pub(super) device: Option<DeviceId>,
    /// Reads fail although no other member can stand in.
    pub(super) unreadable: bool,
    /// Writes fail although no other member can stand in.
    pub(super) unwritable: bool,
    /// A flush has failed although no other member can stand in: what it had taken may be lost.
    pub(super) unkept: bool,
    /// It does not answer although no other member can stand in.
    pub(super) hangs: bool,
    pub(super) read_errors: u64,
    pub(super) write_errors: u64,
    pub(super) last_error: Option<IoError>,
    /// Reads that went around it while it was busy, and writes that were staged because of it.
    pub(super) avoided: Avoided,
}

impl Member {
    /// One of which nothing is known but its device.
    pub(super) fn new(device: Option<DeviceId>) -> Self {
        Self { device, ..Self::default() }
    }
}

/// A spare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    pub(super) device: DeviceId,
    pub(super) uuid: DeviceUuid,
    pub(super) blocks: u64,
}

/// See the [module](self).
pub(super) struct Membership {
    /// The members, and after them the staging devices.
    pub(super) members: Vec<Member>,
    pub(super) spares: Vec<Spare>,
    /// Members are being rebuilt or missing somewhere: plans have to look.
    pub(super) impaired: bool,
    pub(super) recorder: Recorder,
    /// The spare that a member is being copied to.
    pub(super) succession: Option<Succession>,
}

impl Membership {
    /// As it was assembled. `devices` gives the device of each member and staging device (by slot) and
    /// spare (after these, in the record's order).
    ///
    /// # Panics
    /// If `devices` does not fit what was assembled.
    pub(super) fn new(assembled: &Assembled, devices: &[Option<DeviceId>]) -> Self {
        let record = &assembled.record;
        let places = record.slots.len();
        assert_eq!(devices.len(), places + record.spares.len(), "a device or a gap for each");
        let (members, spares) = devices.split_at(places);
        let spares = record.spares.iter().zip(&assembled.spare_blocks).zip(spares);
        let spares = spares.filter_map(|((&uuid, &blocks), &device)| {
            Some(Spare { device: device?, uuid, blocks })
        });
        let spares: Vec<Spare> = spares.collect();
        let mut membership = Self {
            members: members.iter().map(|&device| Member::new(device)).collect(),
            impaired: true,
            recorder: Recorder::new(record.clone()),
            succession: Succession::recorded(assembled, &spares),
            spares,
        };
        membership.look_at_members();
        membership
    }

    fn geo(&self) -> &Geometry {
        &self.recorder.record.geometry
    }

    /// How many members have a part in stripes: the staging devices come after them.
    pub(super) fn of_stripes(&self) -> usize {
        self.geo().members()
    }

    // Members.

    pub(super) fn state(&self, member: MemberId) -> SlotState {
        self.recorder.record.slots[member.index()].state
    }

    /// Brings what is derived from the members' states up to date.
    pub(super) fn look_at_members(&mut self) {
        self.impaired = self.serving().len() < self.geo().members();
    }

    /// The members that have all of the array's past and can be read and written.
    pub(super) fn serving(&self) -> Set<MemberId> {
        self.able().and(self.geo().member_set())
    }

    /// The members that serve, and the staging devices.
    pub(super) fn able(&self) -> Set<MemberId> {
        let members = self.members.iter().zip(&self.recorder.record.slots).enumerate();
        let serving = members.filter(|(_, (m, slot))| {
            m.device.is_some() && !m.unreadable && !m.unwritable && slot.state == SlotState::Up
        });
        serving.map(|(index, _)| MemberId::at(index)).collect()
    }

    /// The members that serve, and the one that the distributed spare stands in for.
    pub(super) fn present(&self) -> Set<MemberId> {
        let stood_in_for = self.recorder.record.stood_in_for();
        stood_in_for.map_or(self.serving(), |member| self.serving().with(member))
    }

    /// The members that don't answer.
    pub(super) fn hung(&self) -> Set<MemberId> {
        let hung = self.members.iter().enumerate().filter(|(_, m)| m.hangs);
        hung.map(|(index, _)| MemberId::at(index)).collect()
    }

    /// Whether writes are taken: every member that is kept current can be written, and what becomes
    /// of them recorded. A member that can't, and can't be spared, would be read as if it were
    /// current; one whose state is not on record would not be read at all after a restart.
    pub(super) fn takes_writes(&self) -> bool {
        let of_stripes = &self.members[..self.geo().members()];
        !self.recorder.is_broken() && (!self.impaired || of_stripes.iter().all(|m| !m.unwritable))
    }

    /// The member whose chunks are on the distributed spare, or on their way there.
    pub(super) fn spared(&self) -> Option<MemberId> {
        self.recorder.record.spared.map(|spared| spared.member)
    }

    /// Another device is the member.
    pub(super) fn put_device(&mut self, member: MemberId, device: DeviceId) {
        self.members[member.index()] = Member::new(Some(device));
    }

    // Devices.

    /// A member's device, if the member is kept current.
    pub(super) fn live_device(&self, member: MemberId) -> Option<DeviceId> {
        let failed = self.state(member) == SlotState::Failed;
        self.members[member.index()].device.filter(|_| !failed)
    }

    /// The member or staging device that a device is.
    pub(super) fn member_with(&self, device: DeviceId) -> Option<MemberId> {
        let index = self.members.iter().position(|m| m.device == Some(device))?;
        Some(MemberId::at(index))
    }

    /// Whether the device of an I/O is still the member's.
    pub(super) fn is_current(&self, flight: &Flight) -> bool {
        flight.member.is_some_and(|m| self.members[m.index()].device == Some(flight.device))
    }

    /// The device that is to have a member's place, and is written as it is.
    pub(super) fn successor_of(&self, member: MemberId) -> Option<DeviceId> {
        self.succession.as_ref().filter(|s| s.member == member).map(|s| s.device)
    }

    /// Whether a device is to have a member's place.
    pub(super) fn is_successor(&self, device: DeviceId) -> bool {
        self.succession.is_some_and(|succession| succession.device == device)
    }

    /// The devices that get what is stored on a member besides stripes: pages and journal entries.
    pub(super) fn stored_on(&self, member: MemberId) -> impl Iterator<Item = DeviceId> + use<> {
        [self.live_device(member), self.successor_of(member)].into_iter().flatten()
    }

    /// The identity of a device in use.
    pub(super) fn uuid_of(&self, device: DeviceId) -> DeviceUuid {
        if let Some(uuid) = self.predecessor(device) {
            return uuid;
        }
        let spare = self.spares.iter().find(|s| s.device == device);
        match (self.member_with(device), spare) {
            (Some(member), _) => self.recorder.record.slots[member.index()].device,
            (None, Some(spare)) => spare.uuid,
            (None, None) => DeviceUuid::default(),
        }
    }

    /// The identity of a device that is the member until another one is on record as it.
    fn predecessor(&self, device: DeviceId) -> Option<DeviceUuid> {
        let succession = self.succession.as_ref()?;
        let old = succession.old()?;
        let is_member = self.members[succession.member.index()].device == Some(device);
        is_member.then_some(old)
    }
}

//! The members and spares of an array, and its record.
//!
//! Nothing here knows of stripes that are being worked on: that is the rest of the engine's.

mod changes;
mod filled;
mod recorder;
mod spares;
mod succession;

use alloc::vec::Vec;
use core::mem;

use crate::engine::Avoided;
use crate::engine::api::IoError;
use crate::engine::flight::Flight;
use crate::geometry::Geometry;
use crate::meta::{ArrayRecord, Assembled, DeviceUuid, SlotRecord, SlotState};
use crate::units::{DeviceId, MemberId, Set};

pub(in crate::engine) use recorder::{Next, Recorder};
pub(in crate::engine) use spares::Spare;
pub(in crate::engine) use succession::Succession;

/// A member as the engine keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Member {
    /// Its device, if it has one that answers.
    pub(in crate::engine) device: Option<DeviceId>,
    /// Reads fail although no other member can stand in.
    pub(in crate::engine) unreadable: bool,
    /// Writes fail although no other member can stand in.
    pub(in crate::engine) unwritable: bool,
    /// A flush has failed although no other member can stand in: what it had taken may be lost.
    pub(in crate::engine) unkept: bool,
    /// It does not answer although no other member can stand in.
    pub(in crate::engine) hangs: bool,
    pub(in crate::engine) read_errors: u64,
    pub(in crate::engine) write_errors: u64,
    pub(in crate::engine) last_error: Option<IoError>,
    /// Reads that went around it while it was busy, and writes that were staged because of it.
    pub(in crate::engine) avoided: Avoided,
}

impl Member {
    /// One of which nothing is known but its device.
    pub(in crate::engine) fn new(device: Option<DeviceId>) -> Self {
        Self { device, ..Self::default() }
    }
}

/// See the [module](self).
pub(in crate::engine) struct Membership {
    /// The members, and after them the staging devices.
    members: Vec<Member>,
    spares: Vec<Spare>,
    /// Members are being rebuilt or missing somewhere: plans have to look.
    pub(in crate::engine) impaired: bool,
    /// The members that serve, as it was when they were looked at last.
    sound: Set<MemberId>,
    pub(in crate::engine) recorder: Recorder,
    /// The spare that a member is being copied to.
    succession: Option<Succession>,
}

impl Membership {
    /// As it was assembled. `devices` gives the device of each member and staging device (by slot) and
    /// spare (after these, in the record's order).
    ///
    /// # Panics
    /// If `devices` does not fit what was assembled.
    pub(in crate::engine) fn new(assembled: &Assembled, devices: &[Option<DeviceId>]) -> Self {
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
            sound: Set::EMPTY,
            recorder: Recorder::new(record.clone(), assembled.before.clone()),
            succession: Succession::recorded(assembled, &spares),
            spares,
        };
        membership.look_at_members();
        membership
    }

    /// The record as it is to be. It is changed by this module and those in it only.
    pub(in crate::engine) fn record(&self) -> &ArrayRecord {
        &self.recorder.record
    }

    fn geo(&self) -> &Geometry {
        &self.recorder.record.geometry
    }

    /// How many members have a part in stripes: the staging devices come after them.
    pub(in crate::engine) fn of_stripes(&self) -> usize {
        self.geo().members()
    }

    /// How many members may fail, at most.
    pub(in crate::engine) fn redundancy(&self) -> usize {
        self.record().greatest_redundancy()
    }

    // Members.

    pub(in crate::engine) fn state(&self, member: MemberId) -> SlotState {
        self.recorder.record.slots[member.index()].state
    }

    /// Brings what is derived from the members' states up to date.
    pub(in crate::engine) fn look_at_members(&mut self) {
        self.sound = self.serving();
        self.impaired = self.sound.len() < self.geo().members() || self.has_refusing();
    }

    /// The members of stripes that may not serve: what each has is to be looked at.
    #[inline]
    pub(in crate::engine) fn unsound(&self) -> Set<MemberId> {
        self.geo().member_set().minus(self.sound)
    }

    /// The members that have all of the array's past and can be read and written.
    pub(in crate::engine) fn serving(&self) -> Set<MemberId> {
        self.able().and(self.geo().member_set())
    }

    /// How many members have to have what the array must not lose: as many as may fail and one more.
    pub(in crate::engine) fn enough(&self) -> usize {
        self.redundancy() + 1
    }

    /// Whether more of the members that serve have to have something than those that do.
    pub(in crate::engine) fn are_too_few(&self, have_it: Set<MemberId>) -> bool {
        let serving = self.serving();
        have_it.and(serving).len() < serving.len().min(self.enough())
    }

    /// The members that serve, and the staging devices.
    pub(in crate::engine) fn able(&self) -> Set<MemberId> {
        Set::first(self.members.len()).filter(|&member| self.is_able(member)).collect()
    }

    /// Whether a member serves, or a staging device.
    #[inline]
    pub(in crate::engine) fn is_able(&self, member: MemberId) -> bool {
        let m = &self.members[member.index()];
        m.device.is_some() && !m.unreadable && !m.unwritable && self.state(member) == SlotState::Up
    }

    /// The members that serve, and the one that the distributed spare stands in for.
    pub(in crate::engine) fn present(&self) -> Set<MemberId> {
        let stood_in_for = self.recorder.record.stood_in_for();
        stood_in_for.map_or(self.serving(), |member| self.serving().with(member))
    }

    /// The members that don't answer.
    pub(in crate::engine) fn hung(&self) -> Set<MemberId> {
        let hung = self.members.iter().enumerate().filter(|(_, m)| m.hangs);
        hung.map(|(index, _)| MemberId::at(index)).collect()
    }

    /// Whether a member doesn't answer.
    pub(in crate::engine) fn hangs(&self, member: MemberId) -> bool {
        self.members[member.index()].hangs
    }

    /// Whether writes are taken: every member that is kept current can be written, and what becomes
    /// of them recorded. A member that can't, and can't be spared, would be read as if it were
    /// current; one whose state is not on record would not be read at all after a restart. What a staging
    /// device did not take, and another member did, would be found there.
    pub(in crate::engine) fn takes_writes(&self) -> bool {
        !self.recorder.is_broken() && (!self.impaired || !self.has_refusing())
    }

    /// Whether all members serve, each chunk is in one place alone, and all of that is on record.
    pub(in crate::engine) fn is_plain(&self) -> bool {
        !self.impaired
            && self.recorder.is_durable()
            && self.spared().is_none()
            && self.succession().is_none()
    }

    /// The member whose chunks are on the distributed spare, or on their way there.
    pub(in crate::engine) fn spared(&self) -> Option<MemberId> {
        self.recorder.record.spared.map(|spared| spared.member)
    }

    /// The members and staging devices, with what their slots say.
    pub(in crate::engine) fn slots(
        &self,
    ) -> impl Iterator<Item = (MemberId, &Member, &SlotRecord)> {
        let slots = self.members.iter().zip(&self.recorder.record.slots);
        slots.enumerate().map(|(index, (member, slot))| (MemberId::at(index), member, slot))
    }

    /// Whether there is such a member or staging device.
    pub(in crate::engine) fn has(&self, member: MemberId) -> bool {
        member.index() < self.members.len()
    }

    /// Whether reads of a member fail although no other can stand in.
    pub(in crate::engine) fn is_unreadable(&self, member: MemberId) -> bool {
        self.members[member.index()].unreadable
    }

    /// Whether a member refuses writes although no other can stand in.
    pub(in crate::engine) fn is_unwritable(&self, member: MemberId) -> bool {
        self.members[member.index()].unwritable
    }

    /// Whether members don't do their work although no other can stand in.
    pub(in crate::engine) fn useless(&self) -> Set<MemberId> {
        let useless = self.slots().filter(|(_, m, _)| m.unwritable || m.unreadable);
        useless.map(|(member, _, _)| member).collect()
    }

    /// Whether members refuse writes although no other can stand in.
    pub(in crate::engine) fn has_refusing(&self) -> bool {
        self.members.iter().any(|m| m.unwritable)
    }

    /// Whether a flush of a member has failed although no other can stand in.
    pub(in crate::engine) fn has_unkept(&self) -> bool {
        self.members.iter().any(|m| m.unkept)
    }

    /// The devices that keep the record: those of members that are kept current, and spares.
    pub(in crate::engine) fn keep_record(
        &self,
    ) -> impl Iterator<Item = (Option<MemberId>, DeviceId)> {
        let places = (0..self.members.len()).map(MemberId::at);
        let live = places.filter_map(|member| Some((Some(member), self.live_device(member)?)));
        live.chain(self.spares.iter().map(|spare| (None, spare.device)))
    }

    // What becomes of members.

    /// A read went around a member, or a copy was read instead.
    pub(in crate::engine) fn avoid_read(&mut self, member: MemberId) {
        self.members[member.index()].avoided.reads += 1;
    }

    /// A write was staged because of a member.
    pub(in crate::engine) fn avoid_write(&mut self, member: MemberId) {
        self.members[member.index()].avoided.writes += 1;
    }

    /// A flush of a member has failed, and no other can stand in.
    pub(in crate::engine) fn set_unkept(&mut self, member: MemberId) {
        self.members[member.index()].unkept = true;
    }

    /// Members have room again for what they refused.
    pub(in crate::engine) fn take_writes_again(&mut self) {
        self.members.iter_mut().for_each(|m| m.unwritable = false);
        self.look_at_members();
    }

    /// A member could not read.
    pub(in crate::engine) fn count_read_error(&mut self, member: MemberId) {
        self.members[member.index()].read_errors += 1;
    }

    /// A member could not write.
    pub(in crate::engine) fn count_write_error(&mut self, member: MemberId) {
        self.members[member.index()].write_errors += 1;
    }

    /// A member can't be read at all.
    pub(in crate::engine) fn note_read_error(&mut self, member: MemberId, why: IoError) {
        self.count_read_error(member);
        self.members[member.index()].last_error = Some(why);
    }

    /// A member did not take a write or a flush.
    pub(in crate::engine) fn note_write_error(&mut self, member: MemberId, why: IoError) {
        self.count_write_error(member);
        self.members[member.index()].last_error = Some(why);
    }

    /// A member can't be read, and no other can stand in.
    pub(in crate::engine) fn set_unreadable(&mut self, member: MemberId) {
        self.members[member.index()].unreadable = true;
        self.look_at_members();
    }

    /// A member did not take a write, and no other can stand in. Without redundancy only what is final
    /// ends writes. Returns whether it is this that has ended them.
    pub(in crate::engine) fn set_unwritable(&mut self, member: MemberId, why: IoError) -> bool {
        let redundant = self.geo().redundancy() > 0;
        let m = &mut self.members[member.index()];
        m.unreadable |= why.is_final();
        let ends = (redundant || why.is_final()) && !mem::replace(&mut m.unwritable, true);
        self.look_at_members();
        ends
    }

    /// These members don't answer, all others do.
    pub(in crate::engine) fn set_hung(&mut self, hung: Set<MemberId>) {
        for (index, m) in self.members.iter_mut().enumerate() {
            m.hangs = hung.has(MemberId::at(index)) && m.device.is_some();
        }
    }

    /// A member has failed. Returns whether it is known what it lacks, and whether it had all. That is to
    /// be recorded next.
    pub(in crate::engine) fn becomes_failed(
        &mut self,
        member: MemberId,
        seconds: u64,
    ) -> (bool, bool) {
        let slot = &mut self.recorder.record.slots[member.index()];
        let (known, was_up) = (slot.is_known(), slot.state == SlotState::Up);
        slot.becomes(SlotState::Failed, seconds);
        (known, was_up)
    }

    /// A member leaves the service. Returns its device, if it had one that answered.
    pub(in crate::engine) fn leave(&mut self, member: MemberId) -> Option<DeviceId> {
        let m = &mut self.members[member.index()];
        (m.unreadable, m.unwritable, m.unkept, m.hangs) = (false, false, false, false);
        self.sound = self.sound.without(member);
        let device = m.device.take()?;
        self.recorder.forget_label(device);
        Some(device)
    }

    /// A staging device has left the service that held entries: until they are at home, they are on
    /// fewer others.
    pub(in crate::engine) fn thin_staging(&mut self, member: MemberId) {
        let thin = &mut self.recorder.record.staging_thin;
        *thin = thin.with(member);
    }

    /// Another device is the member.
    pub(in crate::engine) fn put_device(&mut self, member: MemberId, device: DeviceId) {
        self.members[member.index()] = Member::new(Some(device));
    }

    // Devices.

    /// A member's device, if it has one that answers.
    pub(in crate::engine) fn device(&self, member: MemberId) -> Option<DeviceId> {
        self.members[member.index()].device
    }

    /// A member's device, if the member is kept current.
    pub(in crate::engine) fn live_device(&self, member: MemberId) -> Option<DeviceId> {
        let failed = self.state(member) == SlotState::Failed;
        self.members[member.index()].device.filter(|_| !failed)
    }

    /// The member or staging device that a device is.
    pub(in crate::engine) fn member_with(&self, device: DeviceId) -> Option<MemberId> {
        let index = self.members.iter().position(|m| m.device == Some(device))?;
        Some(MemberId::at(index))
    }

    /// Whether the device of an I/O is still the member's.
    pub(in crate::engine) fn is_current(&self, flight: &Flight) -> bool {
        flight.member.is_some_and(|m| self.members[m.index()].device == Some(flight.device))
    }

    /// The devices that get what is stored on a member besides stripes: pages and journal entries.
    pub(in crate::engine) fn stored_on(
        &self,
        member: MemberId,
    ) -> impl Iterator<Item = DeviceId> + use<> {
        [self.live_device(member), self.successor_of(member)].into_iter().flatten()
    }

    /// The identity of a device in use.
    pub(in crate::engine) fn uuid_of(&self, device: DeviceId) -> DeviceUuid {
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
}

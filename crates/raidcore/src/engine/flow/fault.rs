//! Members that fail, devices that go, and what operators ask for.
//!
//! Invariants: a member is taken out of service only while the others make up for it; a member
//! out of service is never read or written again under its device's number. Members that hang are
//! waited for as long as they can't all be spared.

use alloc::vec::Vec;

use crate::engine::wait::Wait;
use crate::engine::{
    Action, Command, CommandError, Engine, IoError, Note, PassEnd, PassKind, Phase, Spare,
};
use crate::meta::{DeviceUuid, Policy, PolicyName, SPARES_MAX, SlotState};
use crate::units::{DeviceId, MemberId, Set};

impl Engine {
    /// Whether the others make up for a member.
    pub(super) fn can_spare(&self, member: MemberId) -> bool {
        if self.array.membership.state(member) != SlotState::Up {
            return true;
        }
        self.can_spare_all(Set::one(member))
    }

    /// Whether the others make up for members and staging devices that are in service.
    fn can_spare_all(&self, lost: Set<MemberId>) -> bool {
        let others = self.array.membership.present().minus(lost);
        let stripes = others.len() >= self.geo.members() - self.geo.redundancy();
        let of_stripes = lost.and(self.geo.member_set());
        (stripes || of_stripes.is_empty()) && !self.range.staging.needs(lost)
    }

    /// A member can't be read at all.
    pub(super) fn read_failed(&mut self, member: MemberId, why: IoError, out: &mut Vec<Action>) {
        let m = &mut self.array.membership.members[member.index()];
        (m.read_errors, m.last_error) = (m.read_errors + 1, Some(why));
        if self.can_spare(member) {
            self.fail(member, Some(why), out);
        } else {
            self.array.membership.members[member.index()].unreadable = true;
            self.array.membership.look_at_members();
        }
    }

    /// A member did not take a write or a flush: it is no longer current. Returns whether the
    /// others make up for it; if not, the array takes no more writes there.
    pub(super) fn write_failed(
        &mut self,
        member: MemberId,
        why: IoError,
        out: &mut Vec<Action>,
    ) -> bool {
        let m = &mut self.array.membership.members[member.index()];
        (m.write_errors, m.last_error) = (m.write_errors + 1, Some(why));
        if self.can_spare(member) {
            self.fail(member, Some(why), out);
            return true;
        }
        self.array.healing.refused(why);
        let m = &mut self.array.membership.members[member.index()];
        m.unreadable |= why.is_final();
        let broken = self.geo.redundancy() > 0 || why.is_final();
        if broken && !core::mem::replace(&mut m.unwritable, true) {
            out.push(Action::Note(Note::ArrayFailed));
        }
        self.array.membership.look_at_members();
        // The journal gets no room any more.
        self.range.jobs.fail_waiting(|wait| matches!(wait, Wait::Space | Wait::Staging));
        false
    }

    /// Some members don't answer, all others do. They are given up together or not at all: what has
    /// stopped more of them than can be spared may pass, and then all of them are needed.
    pub(in crate::engine) fn set_hung(&mut self, hung: Set<MemberId>, out: &mut Vec<Action>) {
        let before = self.array.membership.hung();
        for (index, m) in self.array.membership.members.iter_mut().enumerate() {
            m.hangs = hung.has(MemberId::at(index)) && m.device.is_some();
        }
        self.fail_the_hung(out);
        for (index, m) in self.array.membership.members.iter().enumerate() {
            let (member, Some(device)) = (MemberId::at(index), m.device) else { continue };
            match (before.has(member), m.hangs) {
                (false, true) => out.push(Action::Note(Note::MemberHangs { member, device })),
                (true, false) => out.push(Action::Note(Note::MemberAnswers { member, device })),
                (true, true) | (false, false) => {}
            }
        }
    }

    fn fail_the_hung(&mut self, out: &mut Vec<Action>) {
        let hung = self.array.membership.hung();
        if !self.can_spare_all(hung) {
            return;
        }
        for member in hung {
            self.fail(member, Some(IoError::TimedOut), out);
        }
    }

    /// Takes members out of service that don't do their work and can be spared by now.
    pub(super) fn fail_the_useless(&mut self, out: &mut Vec<Action>) {
        self.fail_the_hung(out);
        for index in 0..self.array.membership.members.len() {
            let (member, m) = (MemberId::at(index), self.array.membership.members[index]);
            if (m.unwritable || m.unreadable) && self.can_spare(member) {
                self.fail(member, Some(IoError::Medium), out);
            }
        }
    }

    /// Takes a member out of service.
    fn fail(&mut self, member: MemberId, why: Option<IoError>, out: &mut Vec<Action>) {
        let heir =
            self.array.membership.succession.filter(|succession| succession.member == member);
        if let (Some(version), Some(device), Some(_)) =
            (self.succeeds_with(), self.array.membership.members[member.index()].device, heir)
        {
            // Another device has all that this one has, and will be on record as the member.
            out.push(Action::Note(Note::MemberFailed { member, device, why }));
            self.array.membership.recorder.acknowledge_after(version);
            self.succeed(out);
            return;
        }
        let seconds = self.seconds();
        let slot = &mut self.array.membership.recorder.record.slots[member.index()];
        let (known, was_up) = (slot.is_known(), slot.state == SlotState::Up);
        slot.becomes(SlotState::Failed, seconds);
        let m = &mut self.array.membership.members[member.index()];
        (m.unreadable, m.unwritable, m.unkept, m.hangs) = (false, false, false, false);
        let Some(device) = m.device.take() else {
            return;
        };
        out.push(Action::Note(Note::MemberFailed { member, device, why }));
        out.push(Action::Release(device));
        self.array.membership.recorder.forget_label(device);
        let has_ring = member.index() < self.geo.members();
        if !has_ring && was_up {
            // One that was being filled held nothing.
            let thin = &mut self.array.membership.recorder.record.staging_thin;
            *thin = thin.with(member);
        }
        self.range.jobs.wake(|wait| *wait == Wait::Space);
        self.unstage_member(member);
        self.array.background.member_failed(member, !has_ring);
        match heir {
            Some(heir) => {
                self.range.journal.inherit_ring(member, heir.first_entry);
                self.array.membership.succession = None;
                self.inherit(heir, out);
            }
            // It can't be known what else it has lost.
            None if known && why != Some(IoError::Shrunk) => self.is_away(member, out),
            None => self.range.missed.forget(member),
        }
        if heir.is_none() && has_ring {
            // Its entries tell what it misses.
            self.range.journal.drop_ring(member);
        }
        self.array.membership.look_at_members();
        self.array.background.look = true;
        self.record_failure(out);
    }

    pub(in crate::engine) fn device_gone(
        &mut self,
        device: DeviceId,
        why: IoError,
        out: &mut Vec<Action>,
    ) {
        match self.array.membership.member_with(device) {
            Some(member) => {
                self.write_failed(member, why, out);
            }
            None => self.spare_failed(device, why, out),
        }
    }

    pub(super) fn forget_spare(&mut self, device: DeviceId, out: &mut Vec<Action>) {
        let Some(index) = self.array.membership.spares.iter().position(|s| s.device == device)
        else {
            return;
        };
        let spare = self.array.membership.spares.remove(index);
        self.array.membership.recorder.record.spares.retain(|&uuid| uuid != spare.uuid);
        out.push(Action::Release(device));
        self.array.membership.recorder.forget_label(device);
        self.end_succession(device);
        self.record_change(out);
    }

    pub(in crate::engine) fn command(
        &mut self,
        number: u64,
        command: Command,
        out: &mut Vec<Action>,
    ) {
        if self.is_stopping() {
            out.push(Action::Answer { number, result: Err(CommandError::Stopping) });
            return;
        }
        let early = !matches!(command, Command::SetPace(_) | Command::Stop);
        if early && self.phase != Phase::Serving {
            out.push(Action::Answer { number, result: Err(CommandError::Starting) });
            return;
        }
        let result = match command {
            Command::Fail(member) => self.fail_by_command(member, out).map(|()| true),
            Command::AddSpare { device, uuid, blocks } => {
                self.add_spare(device, uuid, blocks).map(|()| true)
            }
            Command::Remove(device) => self.remove(device, out),
            Command::Forget(uuid) => self.forget_absent(uuid).map(|()| true),
            Command::Replace { member, spare } => self.replace(member, spare, out).map(|()| true),
            Command::Return { returning, device, uuid, blocks } => {
                self.returns(returning, (device, uuid, blocks), out).map(|()| true)
            }
            Command::SetPolicy(name) => {
                self.set_policy(name);
                Ok(true)
            }
            Command::Pause => self.array.background.pause(true).map(|()| false),
            Command::Resume => self.array.background.pause(false).map(|()| false),
            Command::SetPace(pace) => {
                self.array.background.set_pace(pace);
                Ok(false)
            }
            Command::Scrub { repair } => self.want_scrub(repair).map(|()| false),
            Command::CancelScrub => self.array.background.cancel_scrub().map(|()| false),
            Command::Stop => {
                self.array.stop_command = Some(number);
                return;
            }
        };
        match result {
            // A change of the record is answered when it is durable.
            Ok(true) => self.answer_when_recorded(number, out),
            Ok(false) => out.push(Action::Answer { number, result: Ok(()) }),
            Err(error) => out.push(Action::Answer { number, result: Err(error) }),
        }
    }

    fn set_policy(&mut self, name: PolicyName) {
        let seconds = self.seconds();
        let known =
            self.array.membership.recorder.record.policy.filter(|policy| policy.name == name);
        self.array.membership.recorder.record.policy =
            known.or(Some(Policy { name, since: seconds }));
    }

    fn fail_by_command(
        &mut self,
        member: MemberId,
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        let known = member.index() < self.array.membership.members.len();
        if !known || self.array.membership.state(member) == SlotState::Failed {
            return Err(CommandError::NoSuchMember);
        }
        if !self.can_spare(member) {
            return Err(CommandError::NoRedundancy);
        }
        self.fail(member, None, out);
        Ok(())
    }

    pub(super) fn add_spare(
        &mut self,
        device: DeviceId,
        uuid: DeviceUuid,
        blocks: u64,
    ) -> Result<(), CommandError> {
        let need = self.array.membership.recorder.record.least_blocks();
        if blocks < need {
            return Err(CommandError::TooSmall { have: blocks, need });
        }
        let record = &self.array.membership.recorder.record;
        let mut known =
            record.slots.iter().map(|slot| slot.device).chain(record.spares.iter().copied());
        let mut devices = self.array.membership.members.iter().filter_map(|m| m.device);
        let in_use = devices.any(|d| d == device)
            || self.array.membership.spares.iter().any(|s| s.device == device);
        if in_use || known.any(|known| known == uuid) {
            return Err(CommandError::NoSuchDevice);
        }
        if self.array.membership.recorder.record.spares.len() >= SPARES_MAX {
            return Err(CommandError::TooManySpares);
        }
        self.array.membership.spares.push(Spare { device, uuid, blocks });
        self.array.background.look = true;
        self.array.membership.recorder.record.spares.push(uuid);
        Ok(())
    }

    fn remove(&mut self, device: DeviceId, out: &mut Vec<Action>) -> Result<bool, CommandError> {
        if !self.array.membership.spares.iter().any(|s| s.device == device) {
            return Err(CommandError::NoSuchDevice);
        }
        self.forget_spare(device, out);
        Ok(true)
    }

    fn forget_absent(&mut self, uuid: DeviceUuid) -> Result<(), CommandError> {
        if !self.absent_spares().any(|absent| absent == uuid) {
            return Err(CommandError::NoSuchDevice);
        }
        self.array.membership.recorder.record.spares.retain(|&spare| spare != uuid);
        Ok(())
    }

    fn replace(
        &mut self,
        member: MemberId,
        spare: DeviceId,
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        if member.index() >= self.array.membership.members.len() {
            return Err(CommandError::NoSuchMember);
        }
        if self.array.membership.is_successor(spare) {
            return Err(CommandError::AlreadyCopying);
        }
        let spare = self.array.membership.spares.iter().position(|s| s.device == spare);
        let spare = spare.ok_or(CommandError::NoSuchDevice)?;
        let (have, need) = (
            self.array.membership.spares[spare].blocks,
            self.array.membership.recorder.record.blocks_of(member),
        );
        if have < need {
            return Err(CommandError::TooSmall { have, need });
        }
        match self.array.membership.state(member) {
            SlotState::Up => return self.begin_succession(member, spare, out),
            SlotState::Rebuilding { .. } => self.fail_by_command(member, out)?,
            SlotState::Failed => {}
        }
        self.activate(member, spare, out);
        Ok(())
    }

    /// Puts a spare in a failed member's place, to be rebuilt.
    pub(super) fn activate(&mut self, member: MemberId, spare: usize, out: &mut Vec<Action>) {
        self.range.missed.forget(member);
        let device = self.put_in_place(member, spare);
        out.push(Action::Note(Note::SpareActivated { member, device }));
        self.record_change(out);
    }

    /// A spare is in a failed member's place, with nothing of what belongs there. That is to be recorded
    /// next.
    pub(super) fn put_in_place(&mut self, member: MemberId, spare: usize) -> DeviceId {
        self.range.missed.placed_with(self.array.membership.recorder.next_version());
        let spare = self.array.membership.spares.remove(spare);
        let seconds = self.seconds();
        let record = &mut self.array.membership.recorder.record;
        record.spares.retain(|&uuid| uuid != spare.uuid);
        let slot = &mut record.slots[member.index()];
        slot.becomes(SlotState::Rebuilding { watermark: 0 }, seconds);
        slot.device = spare.uuid;
        self.array.membership.recorder.put_label(member, spare.device);
        self.array.membership.put_device(member, spare.device);
        self.array.background.restart(member);
        self.array.flusher.restart(member);
        self.range.staging.try_again();
        self.array.background.look = true;
        self.array.membership.look_at_members();
        spare.device
    }

    fn want_scrub(&mut self, repair: bool) -> Result<(), CommandError> {
        if self.geo.redundancy() == 0 {
            return Err(CommandError::NotRedundant);
        }
        if self.array.membership.present().len() <= self.geo.members() - self.geo.redundancy() {
            return Err(CommandError::NothingToCompare);
        }
        self.array.background.look = true;
        self.array.background.want_scrub(repair)
    }

    /// Notes how a pass has ended.
    pub(super) fn note_end(&self, kind: PassKind, end: PassEnd, out: &mut Vec<Action>) {
        out.push(Action::Note(Note::PassEnded(kind, end)));
    }
}

//! Members that fail, devices that go, and what operators ask for.
//!
//! Invariants: a member is taken out of service only while the others make up for it; a member
//! out of service is never read or written again under its device's number. Members that hang are
//! waited for as long as they can't all be spared.

use alloc::vec::Vec;

use crate::engine::wait::Wait;
use crate::engine::{Action, Command, CommandError, Engine, IoError, Note, PassKind, Phase};
use crate::meta::{DeviceUuid, PolicyName, SlotState};
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
        let members = self.layout.member_set();
        // What other stripes lack does not matter: some may be lost already.
        let unrelated = members.minus(self.layout.related_to(lost));
        let others = self.array.membership.present().minus(lost).or(unrelated);
        let stripes = self.layout.can_spare(members.minus(others));
        let of_stripes = lost.and(members);
        (stripes || of_stripes.is_empty()) && !self.range.staging.needs(lost)
    }

    /// A member can't be read at all.
    pub(super) fn read_failed(&mut self, member: MemberId, why: IoError, out: &mut Vec<Action>) {
        self.array.membership.note_read_error(member, why);
        if self.can_spare(member) {
            self.fail(member, Some(why), out);
        } else {
            self.array.membership.set_unreadable(member);
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
        self.array.membership.note_write_error(member, why);
        if self.can_spare(member) {
            self.fail(member, Some(why), out);
            return true;
        }
        self.array.healing.refused(why);
        if self.array.membership.set_unwritable(member, why) {
            out.push(Action::Note(Note::ArrayFailed));
        }
        // The journal gets no room any more.
        self.range.jobs.fail_waiting(|wait| matches!(wait, Wait::Space | Wait::Staging));
        false
    }

    /// Some members don't answer, all others do. They are given up together or not at all: what has
    /// stopped more of them than can be spared may pass, and then all of them are needed.
    pub(in crate::engine) fn set_hung(&mut self, hung: Set<MemberId>, out: &mut Vec<Action>) {
        let before = self.array.membership.hung();
        self.array.membership.set_hung(hung);
        self.fail_the_hung(out);
        for (member, m, _) in self.array.membership.slots() {
            let Some(device) = m.device else { continue };
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
        for member in self.array.membership.record().places() {
            if self.array.membership.useless().has(member) && self.can_spare(member) {
                self.fail(member, Some(IoError::Medium), out);
            }
        }
    }

    /// Takes a member out of service.
    fn fail(&mut self, member: MemberId, why: Option<IoError>, out: &mut Vec<Action>) {
        let seconds = self.seconds();
        let membership = &mut self.array.membership;
        let heir = membership.succession().filter(|s| s.member == member).cloned();
        if let (Some(version), Some(device), Some(_)) =
            (membership.succeeds_with(), membership.device(member), &heir)
        {
            // Another device has all that this one has, and will be on record as the member.
            out.push(Action::Note(Note::MemberFailed { member, device, why }));
            self.array.membership.recorder.acknowledge_after(version);
            self.succeed(out);
            return;
        }
        let (known, was_up) = membership.becomes_failed(member, seconds);
        let Some(device) = membership.leave(member) else {
            return;
        };
        out.push(Action::Note(Note::MemberFailed { member, device, why }));
        out.push(Action::Release(device));
        let has_ring = member.index() < self.layout.members();
        if !has_ring && was_up {
            // One that was being filled held nothing.
            membership.thin_staging(member);
        }
        self.range.jobs.wake(|wait| *wait == Wait::Space);
        self.unstage_member(member);
        self.array.background.member_failed(member, !has_ring);
        let has_no_heir = heir.is_none();
        match heir {
            Some(heir) => {
                self.range.journal.inherit_ring(member, heir.first_entry);
                self.inherit(heir, out);
            }
            // It can't be known what else it has lost.
            None if known && why != Some(IoError::Shrunk) => self.is_away(member, out),
            None => self.range.missed.forget(member),
        }
        if has_no_heir && has_ring {
            // Its entries tell what it misses.
            self.range.journal.drop_ring(member);
        }
        self.array.membership.look_at_members();
        self.array.background.look();
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
        if self.array.membership.remove_spare(device).is_none() {
            return;
        }
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
        let waits = !matches!(
            command,
            Command::SetPace(_)
                | Command::EndWithin(_)
                | Command::LimitSlowdown(_)
                | Command::SetRebuildOrder(_)
                | Command::Stop
        );
        if waits && self.phase != Phase::Serving {
            out.push(Action::Answer { number, result: Err(CommandError::Starting) });
            return;
        }
        let result = match command {
            Command::Fail(member) => self.fail_by_command(member, out).map(|()| true),
            Command::AddSpare { device, uuid, blocks } => {
                self.add_spare(device, uuid, blocks).map(|()| true)
            }
            Command::Remove(device) => self.remove(device, out),
            Command::Forget(uuid) => self.array.membership.forget_absent(uuid).map(|()| true),
            Command::Replace { member, spare } => self.replace(member, spare, out).map(|()| true),
            Command::Return { returning, device, uuid, blocks } => {
                self.returns(returning, (device, uuid, blocks), out).map(|()| true)
            }
            Command::SetPolicy(name) => {
                self.set_policy(name);
                Ok(true)
            }
            Command::SetVolatile(held) => {
                self.array.membership.set_volatile(held);
                Ok(true)
            }
            Command::BringHome => {
                self.range.staging.hurry();
                Ok(false)
            }
            Command::Pause => self.array.background.pause().map(|()| false),
            Command::Resume => self.array.background.resume().map(|()| false),
            Command::SetPace(pace) => {
                self.array.background.set_pace(pace);
                Ok(false)
            }
            Command::EndWithin(within) => {
                self.array.background.end_within(within, self.now);
                Ok(false)
            }
            Command::LimitSlowdown(slowdown) => {
                self.array.background.limit_slowdown(slowdown);
                Ok(false)
            }
            Command::SetRebuildOrder(order) => {
                self.array.background.set_order(order);
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
        let since = self.seconds();
        self.array.membership.set_policy(name, since);
    }

    fn fail_by_command(
        &mut self,
        member: MemberId,
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        let known = self.array.membership.has(member);
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
        self.array.membership.add_spare(device, uuid, blocks)?;
        self.array.background.look();
        Ok(())
    }

    fn remove(&mut self, device: DeviceId, out: &mut Vec<Action>) -> Result<bool, CommandError> {
        if self.array.membership.spare(device).is_none() {
            return Err(CommandError::NoSuchDevice);
        }
        self.forget_spare(device, out);
        Ok(true)
    }

    fn replace(
        &mut self,
        member: MemberId,
        spare: DeviceId,
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        if !self.array.membership.has(member) {
            return Err(CommandError::NoSuchMember);
        }
        if self.array.membership.is_successor(spare) {
            return Err(CommandError::AlreadyCopying);
        }
        let spare = self.array.membership.spare(spare).ok_or(CommandError::NoSuchDevice)?;
        let (have, need) = (spare.blocks, self.array.membership.record().blocks_of(member));
        if have < need {
            return Err(CommandError::TooSmall { have, need });
        }
        match self.array.membership.state(member) {
            SlotState::Up => return self.begin_succession(member, spare, out),
            SlotState::Rebuilding { .. } => self.fail_by_command(member, out)?,
            SlotState::Failed => {}
        }
        self.activate(member, spare.device, out);
        Ok(())
    }

    /// Puts a spare in a failed member's place, to be rebuilt.
    pub(super) fn activate(&mut self, member: MemberId, device: DeviceId, out: &mut Vec<Action>) {
        self.range.missed.forget(member);
        self.put_in_place(member, device);
        out.push(Action::Note(Note::SpareActivated { member, device }));
        self.record_change(out);
    }

    /// A spare is in a failed member's place, with nothing of what belongs there. That is to be recorded
    /// next.
    pub(super) fn put_in_place(&mut self, member: MemberId, spare: DeviceId) {
        self.range.missed.placed_with(self.array.membership.recorder.next_version());
        let seconds = self.seconds();
        self.array.membership.put_spare(member, spare, seconds);
        self.array.background.restart(member);
        self.array.flusher.forget_filled(|kind| kind == PassKind::Rebuild(member));
        self.range.staging.try_again();
        self.array.background.look();
    }

    fn want_scrub(&mut self, repair: bool) -> Result<(), CommandError> {
        if self.layout.redundancy() == 0 {
            return Err(CommandError::NotRedundant);
        }
        let missing = self.layout.member_set().minus(self.array.membership.present());
        if !self.layout.has_to_compare(missing) {
            return Err(CommandError::NothingToCompare);
        }
        self.array.background.want_scrub(repair)
    }
}

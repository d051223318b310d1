//! A member that serves gives its place to a successor.

use alloc::vec::Vec;

use crate::engine::background::Progress;
use crate::engine::flight::{Flight, Owner};
use crate::engine::succession::{Change, Succession};
use crate::engine::wait::Wait;
use crate::engine::work::Work;
use crate::engine::{
    Action, CommandError, Engine, IoError, JobId, Note, PassKind, Spare, SuccessorStatus,
};
use crate::meta::{SlotState, Successor};
use crate::units::{DeviceId, MemberId, Stripe};

impl Engine {
    /// The spare to which a member is being copied, if one is.
    #[must_use]
    pub fn successor(&self) -> Option<SuccessorStatus> {
        self.array.membership.succession.map(|succession| SuccessorStatus {
            member: succession.member,
            device: succession.device,
            done: succession.progress.base,
            total: self.stripes_of(PassKind::Copy(succession.member)),
        })
    }

    /// The devices that take what a job writes to a member.
    pub(super) fn written_devices(
        &self,
        id: JobId,
        member: MemberId,
    ) -> impl Iterator<Item = DeviceId> + use<> {
        let job = &self.range.jobs[id];
        let copies = matches!(job.work, Work::Sync(PassKind::Copy(_)));
        let successor = self.array.membership.succession.as_ref().filter(|succession| {
            succession.member == member && (copies || succession.progress.has(job.stripe.0))
        });
        let home = if copies { None } else { self.array.membership.live_device(member) };
        let successor = successor.map(|successor| successor.device);
        home.into_iter().chain(successor)
    }

    /// A member that serves is to be copied to a spare.
    pub(super) fn begin_succession(
        &mut self,
        member: MemberId,
        spare: usize,
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        if self.array.membership.succession.is_some() {
            return Err(CommandError::AlreadyCopying);
        }
        if self.array.membership.spared().is_some() {
            return Err(CommandError::SpareInUse);
        }
        let Spare { device, uuid, .. } = self.array.membership.spares[spare];
        self.array.membership.succession = Some(Succession {
            member,
            device,
            uuid,
            progress: Progress::default(),
            first_entry: self.range.journal.next_entry(),
            change: None,
        });
        self.array.membership.recorder.record.successor =
            Some(Successor { member, device: uuid, watermark: 0 });
        self.array.flusher.restart_copy();
        self.array.background.look = true;
        out.push(Action::Note(Note::CopyBegun { member, device }));
        Ok(())
    }

    /// A device is no successor any more, if it was one, and the member stays; that is to be recorded next.
    pub(super) fn end_succession(&mut self, device: DeviceId) {
        let Some(succession) = self.array.membership.succession.take_if(|s| s.device == device)
        else {
            return;
        };
        self.array.membership.recorder.record.successor = None;
        // What it misses from now on it must not be taken to have.
        self.array.membership.recorder.acknowledge_after_next();
        if let Some(Change { old, .. }) = succession.change {
            let member = succession.member;
            self.array.membership.recorder.record.slots[member.index()].device = old;
            if let Some(device) = self.array.membership.members[member.index()].device {
                self.array.membership.recorder.put_label(member, device);
            }
        }
        self.array.background.cancel_copy();
        self.array.background.look = true;
    }

    /// An I/O has ended with an error: a successor that has not taken it is none any more.
    pub(super) fn successor_missed(&mut self, op: &Flight, why: IoError, out: &mut Vec<Action>) {
        let hint = matches!(op.owner, Owner::Discard { .. } | Owner::TrimSpare);
        if op.member.is_some() && !hint && self.array.membership.is_successor(op.device) {
            self.spare_failed(op.device, why, out);
        }
    }

    /// A spare does not work.
    pub(super) fn spare_failed(&mut self, device: DeviceId, why: IoError, out: &mut Vec<Action>) {
        if let Some(Succession { member, .. }) =
            self.array.membership.succession.filter(|s| s.device == device)
        {
            out.push(Action::Note(Note::CopyFailed { member, device, why }));
        }
        self.forget_spare(device, out);
    }

    /// The member has failed that a successor is filled from: it takes the place now, with what it has.
    /// That is to be recorded next.
    pub(super) fn inherit(&mut self, heir: Succession, out: &mut Vec<Action>) {
        let Succession { member, device, uuid, progress, .. } = heir;
        let record = &mut self.array.membership.recorder.record;
        let durable = record.successor.take().map_or(0, |successor| successor.watermark);
        let watermark = durable.min(progress.base);
        record.spares.retain(|&spare| spare != uuid);
        let slot = &mut record.slots[member.index()];
        slot.becomes(SlotState::Rebuilding { watermark }, slot.since);
        slot.device = uuid;
        self.range.missed.forget(member);
        self.array.membership.recorder.put_label(member, device);
        self.array.membership.spares.retain(|spare| spare.device != device);
        self.array.membership.put_device(member, device);
        self.array.background.inherit(member, progress);
        self.array.flusher.restart(member);
        self.range.staging.try_again();
        self.array.background.look = true;
        out.push(Action::Note(Note::SpareActivated { member, device }));
    }

    /// At a start: a successor that is missing is none any more, and one whose member is missing takes its
    /// place. What may be different counts as not copied from now on, whatever becomes of the marks.
    /// Returns whether that is to be recorded.
    pub(super) fn look_for_successor(&mut self, out: &mut Vec<Action>) -> bool {
        let gone =
            |s: &mut Succession| self.array.membership.members[s.member.index()].device.is_none();
        match self.array.membership.succession.take_if(gone) {
            Some(heir) => self.inherit(heir, out),
            None => {
                let before = self.array.membership.recorder.record.successor;
                let equal =
                    self.array.membership.succession.map(|succession| succession.progress.base);
                let now = before.zip(equal);
                let now = now.map(|(successor, watermark)| Successor { watermark, ..successor });
                self.array.membership.recorder.record.successor = now;
                return before != now;
            }
        }
        true
    }

    /// Whether the successor has everything, but for what is in the member's journal from before.
    pub(super) fn may_succeed(&self) -> bool {
        self.range.maps.are_spread()
            && self.array.membership.takes_writes()
            && self.array.membership.succession.is_some_and(|succession| {
                self.range.journal.is_settled_before(succession.member, succession.first_entry)
            })
    }

    /// The successor becomes the member, as soon as that is on record.
    pub(super) fn begin_to_succeed(&mut self, out: &mut Vec<Action>) {
        let seconds = self.seconds();
        let version = self.array.membership.recorder.next_version();
        let Some(succession) = &mut self.array.membership.succession else { return };
        let record = &mut self.array.membership.recorder.record;
        let slot = &mut record.slots[succession.member.index()];
        succession.change = Some(Change { version, old: slot.device });
        (slot.device, slot.since) = (succession.uuid, seconds);
        record.successor = None;
        record.spares.retain(|&spare| spare != succession.uuid);
        self.array.membership.recorder.put_label(succession.member, succession.device);
        self.record_change(out);
    }

    /// The change that makes a successor the member, if it was begun.
    pub(super) fn succeeds_with(&self) -> Option<u64> {
        self.array.membership.succession?.change.map(|change| change.version)
    }

    /// The successor is the member from now on. Returns whether there was one.
    pub(super) fn succeed(&mut self, out: &mut Vec<Action>) -> bool {
        let Some(Succession { member, device, first_entry, .. }) =
            self.array.membership.succession.take()
        else {
            return false;
        };
        self.array.membership.spares.retain(|spare| spare.device != device);
        let old = self.array.membership.members[member.index()].device;
        self.array.membership.put_device(member, device);
        self.range.journal.inherit_ring(member, first_entry);
        self.range.jobs.wake(|wait| *wait == Wait::Space);
        self.unstage_member(member);
        self.array.membership.look_at_members();
        self.fail_the_useless(out);
        self.array.background.look = true;
        if let Some(old) = old {
            out.push(Action::Note(Note::MemberReplaced { member, device, old }));
            out.push(Action::Release(old));
            self.array.membership.recorder.forget_label(old);
        }
        true
    }

    /// A stripe of a member was copied.
    pub(super) fn copied(&mut self, stripe: Stripe) {
        if let Some(succession) = &mut self.array.membership.succession {
            succession.progress.add(stripe.0);
        }
    }

    /// Records how far the successor is durably filled, if that has changed.
    pub(super) fn record_copied(&mut self, out: &mut Vec<Action>) {
        let flushed = self.array.flusher.marks().copied;
        if let Some(successor) = &mut self.array.membership.recorder.record.successor
            && successor.watermark < flushed
        {
            successor.watermark = flushed;
            self.record_change(out);
        }
    }
}

//! A member that serves gives its place to a spare, its *successor*: what the member holds is copied to
//! it, stripe by stripe, and then it is the member. Until then the member goes on as it was, so there is
//! no less redundancy at any moment, and none is needed.
//!
//! Invariants:
//! - What is written to a member in a stripe that was copied goes to its successor, too, before it is
//!   acknowledged; likewise all pages and journal entries that are stored on the member since the copying
//!   began, and flushes. A successor that misses one of these is none any more, and that is on record
//!   before the write is acknowledged.
//! - Nothing is read from a successor.
//! - It becomes the member by one change of the record, begun when it durably has everything. Until that
//!   change is durable, both are written.
//! - A crash may leave the two different where writes were under way: in marked regions, and anywhere
//!   without redundancy. So what was copied there counts as not copied.

use alloc::vec::Vec;

use super::background::Progress;
use super::flight::{Flight, Owner};
use super::wait::Wait;
use super::work::Work;
use super::{Action, CommandError, Engine, IoError, JobId, Note, PassKind, Spare, SuccessorStatus};
use crate::meta::{Assembled, DeviceUuid, SlotState, Successor};
use crate::units::{DeviceId, MemberId, Stripe};

/// A spare that is to take the place of a member that serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Succession {
    pub(super) member: MemberId,
    pub(super) device: DeviceId,
    uuid: DeviceUuid,
    /// Which stripes were copied.
    pub(super) progress: Progress,
    /// Entries of the member's journal from this one on are in the successor's ring, too.
    pub(super) first_entry: u64,
    /// The change that makes it the member, once that was begun.
    change: Option<Change>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    /// The version of the record.
    version: u64,
    /// The device that is the member until this is durable.
    old: DeviceUuid,
}

impl Succession {
    /// The device that is the member until another one is on record as it, if that was begun.
    pub(super) fn old(&self) -> Option<DeviceUuid> {
        self.change.map(|change| change.old)
    }

    /// As it was recorded, if both devices answer or the member's is missing; what a crash may have
    /// left different counts as not copied.
    pub(super) fn recorded(assembled: &Assembled, spares: &[Spare]) -> Option<Self> {
        let record = &assembled.record;
        let Successor { member, device: uuid, watermark } = record.successor?;
        let spare = spares.iter().find(|spare| spare.uuid == uuid)?;
        let equal = if record.geometry.redundancy() > 0 {
            let marked = assembled.bitmap.next_set(0);
            marked.map_or(watermark, |region| region * record.areas.region_stripes())
        } else if assembled.was_clean {
            watermark
        } else {
            0
        };
        Some(Self {
            member,
            device: spare.device,
            uuid,
            progress: Progress::from(watermark.min(equal)),
            first_entry: assembled.next_entry,
            change: None,
        })
    }
}

impl Engine {
    /// The spare to which a member is being copied, if one is.
    #[must_use]
    pub fn successor(&self) -> Option<SuccessorStatus> {
        self.array.succession.map(|succession| SuccessorStatus {
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
        let job = &self.jobs[id];
        let copies = matches!(job.work, Work::Sync(PassKind::Copy(_)));
        let successor = self.array.succession.as_ref().filter(|succession| {
            succession.member == member && (copies || succession.progress.has(job.stripe.0))
        });
        let home = if copies { None } else { self.array.live_device(member) };
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
        if self.array.succession.is_some() {
            return Err(CommandError::AlreadyCopying);
        }
        if self.array.spared().is_some() {
            return Err(CommandError::SpareInUse);
        }
        let Spare { device, uuid, .. } = self.array.spares[spare];
        self.array.succession = Some(Succession {
            member,
            device,
            uuid,
            progress: Progress::default(),
            first_entry: self.journal.next_entry(),
            change: None,
        });
        self.array.recorder.record.successor =
            Some(Successor { member, device: uuid, watermark: 0 });
        self.flusher.restart_copy();
        self.background.look = true;
        out.push(Action::Note(Note::CopyBegun { member, device }));
        Ok(())
    }

    /// A device is no successor any more, if it was one, and the member stays; that is to be recorded next.
    pub(super) fn end_succession(&mut self, device: DeviceId) {
        let Some(succession) = self.array.succession.take_if(|s| s.device == device) else {
            return;
        };
        self.array.recorder.record.successor = None;
        // What it misses from now on it must not be taken to have.
        self.acknowledge_after(self.array.recorder.next_version());
        if let Some(Change { old, .. }) = succession.change {
            let member = succession.member;
            self.array.recorder.record.slots[member.index()].device = old;
            if let Some(device) = self.array.members[member.index()].device {
                self.array.recorder.put_label(member, device);
            }
        }
        self.background.cancel_copy();
        self.background.look = true;
    }

    /// An I/O has ended with an error: a successor that has not taken it is none any more.
    pub(super) fn successor_missed(&mut self, op: &Flight, why: IoError, out: &mut Vec<Action>) {
        let hint = matches!(op.owner, Owner::Discard { .. } | Owner::TrimSpare);
        if op.member.is_some() && !hint && self.array.is_successor(op.device) {
            self.spare_failed(op.device, why, out);
        }
    }

    /// A spare does not work.
    pub(super) fn spare_failed(&mut self, device: DeviceId, why: IoError, out: &mut Vec<Action>) {
        if let Some(Succession { member, .. }) =
            self.array.succession.filter(|s| s.device == device)
        {
            out.push(Action::Note(Note::CopyFailed { member, device, why }));
        }
        self.forget_spare(device, out);
    }

    /// The member has failed that a successor is filled from: it takes the place now, with what it has.
    /// That is to be recorded next.
    pub(super) fn inherit(&mut self, heir: Succession, out: &mut Vec<Action>) {
        let Succession { member, device, uuid, progress, .. } = heir;
        let record = &mut self.array.recorder.record;
        let durable = record.successor.take().map_or(0, |successor| successor.watermark);
        let watermark = durable.min(progress.base);
        record.spares.retain(|&spare| spare != uuid);
        let slot = &mut record.slots[member.index()];
        slot.becomes(SlotState::Rebuilding { watermark }, slot.since);
        slot.device = uuid;
        self.missed.forget(member);
        self.array.recorder.put_label(member, device);
        self.array.spares.retain(|spare| spare.device != device);
        self.array.put_device(member, device);
        self.background.inherit(member, progress);
        self.flusher.restart(member);
        self.staging.try_again();
        self.background.look = true;
        out.push(Action::Note(Note::SpareActivated { member, device }));
    }

    /// At a start: a successor that is missing is none any more, and one whose member is missing takes its
    /// place. What may be different counts as not copied from now on, whatever becomes of the marks.
    /// Returns whether that is to be recorded.
    pub(super) fn look_for_successor(&mut self, out: &mut Vec<Action>) -> bool {
        let gone = |s: &mut Succession| self.array.members[s.member.index()].device.is_none();
        match self.array.succession.take_if(gone) {
            Some(heir) => self.inherit(heir, out),
            None => {
                let before = self.array.recorder.record.successor;
                let equal = self.array.succession.map(|succession| succession.progress.base);
                let now = before.zip(equal);
                let now = now.map(|(successor, watermark)| Successor { watermark, ..successor });
                self.array.recorder.record.successor = now;
                return before != now;
            }
        }
        true
    }

    /// Whether the successor has everything, but for what is in the member's journal from before.
    pub(super) fn may_succeed(&self) -> bool {
        self.maps.are_spread()
            && self.array.takes_writes()
            && self.array.succession.is_some_and(|succession| {
                self.journal.is_settled_before(succession.member, succession.first_entry)
            })
    }

    /// The successor becomes the member, as soon as that is on record.
    pub(super) fn begin_to_succeed(&mut self, out: &mut Vec<Action>) {
        let seconds = self.seconds();
        let version = self.array.recorder.next_version();
        let Some(succession) = &mut self.array.succession else { return };
        let record = &mut self.array.recorder.record;
        let slot = &mut record.slots[succession.member.index()];
        succession.change = Some(Change { version, old: slot.device });
        (slot.device, slot.since) = (succession.uuid, seconds);
        record.successor = None;
        record.spares.retain(|&spare| spare != succession.uuid);
        self.array.recorder.put_label(succession.member, succession.device);
        self.record_change(out);
    }

    /// The change that makes a successor the member, if it was begun.
    pub(super) fn succeeds_with(&self) -> Option<u64> {
        self.array.succession?.change.map(|change| change.version)
    }

    /// The successor is the member from now on. Returns whether there was one.
    pub(super) fn succeed(&mut self, out: &mut Vec<Action>) -> bool {
        let Some(Succession { member, device, first_entry, .. }) = self.array.succession.take()
        else {
            return false;
        };
        self.array.spares.retain(|spare| spare.device != device);
        let old = self.array.members[member.index()].device;
        self.array.put_device(member, device);
        self.journal.inherit_ring(member, first_entry);
        self.jobs.wake(|wait| *wait == Wait::Space);
        self.unstage_member(member);
        self.array.look_at_members();
        self.fail_the_useless(out);
        self.background.look = true;
        if let Some(old) = old {
            out.push(Action::Note(Note::MemberReplaced { member, device, old }));
            out.push(Action::Release(old));
            self.array.recorder.forget_label(old);
        }
        true
    }

    /// A stripe of a member was copied.
    pub(super) fn copied(&mut self, stripe: Stripe) {
        if let Some(succession) = &mut self.array.succession {
            succession.progress.add(stripe.0);
        }
    }

    /// Records how far the successor is durably filled, if that has changed.
    pub(super) fn record_copied(&mut self, out: &mut Vec<Action>) {
        let flushed = self.flusher.copied();
        if let Some(successor) = &mut self.array.recorder.record.successor
            && successor.watermark < flushed
        {
            successor.watermark = flushed;
            self.record_change(out);
        }
    }
}

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

use super::Membership;
use super::spares::Spare;
use crate::engine::progress::Progress;
use crate::engine::{CommandError, SuccessorStatus};
use crate::meta::{Assembled, DeviceUuid, SlotState, Successor};
use crate::units::{DeviceId, MemberId, Stripe};

/// A spare that is to take the place of a member that serves.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Succession {
    pub(in crate::engine) member: MemberId,
    pub(in crate::engine) device: DeviceId,
    uuid: DeviceUuid,
    /// Which stripes were copied.
    pub(in crate::engine) progress: Progress,
    /// Entries of the member's journal from this one on are in the successor's ring, too.
    pub(in crate::engine) first_entry: u64,
    /// The change that makes it the member, once that was begun.
    change: Option<Change>,
}

/// The change of the record that makes a successor the member.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Change {
    /// The version of the record.
    version: u64,
    /// The device that is the member until this is durable.
    old: DeviceUuid,
}

impl Succession {
    /// As it was recorded, if both devices answer or the member's is missing; what a crash may have
    /// left different counts as not copied.
    pub(in crate::engine) fn recorded(assembled: &Assembled, spares: &[Spare]) -> Option<Self> {
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

impl Membership {
    /// The spare that a member is being copied to.
    pub(in crate::engine) fn succession(&self) -> Option<&Succession> {
        self.succession.as_ref()
    }

    /// What is told of it, if so many stripes have to be copied of a member.
    pub(in crate::engine) fn successor(
        &self,
        stripes: impl FnOnce(MemberId) -> u64,
    ) -> Option<SuccessorStatus> {
        self.succession.as_ref().map(|Succession { member, device, progress, .. }| {
            SuccessorStatus {
                member: *member,
                device: *device,
                done: progress.base(),
                total: stripes(*member),
            }
        })
    }

    /// The device that is to have a member's place, and is written as it is.
    pub(in crate::engine) fn successor_of(&self, member: MemberId) -> Option<DeviceId> {
        self.succession.as_ref().filter(|s| s.member == member).map(|s| s.device)
    }

    /// Whether a device is to have a member's place.
    pub(in crate::engine) fn is_successor(&self, device: DeviceId) -> bool {
        self.succession().is_some_and(|succession| succession.device == device)
    }

    /// The identity of a device that is the member until another one is on record as it.
    pub(in crate::engine) fn predecessor(&self, device: DeviceId) -> Option<DeviceUuid> {
        let succession = self.succession.as_ref()?;
        let change = succession.change?;
        (self.device(succession.member) == Some(device)).then_some(change.old)
    }

    /// The version of the record that makes a successor the member, if that was begun.
    pub(in crate::engine) fn succeeds_with(&self) -> Option<u64> {
        self.succession()?.change.map(|change| change.version)
    }

    /// The devices that take what is written to a member in a stripe: what copies the member writes to
    /// its successor alone.
    #[inline]
    pub(in crate::engine) fn written_devices(
        &self,
        member: MemberId,
        stripe: Stripe,
        copies: bool,
    ) -> impl Iterator<Item = DeviceId> + use<> {
        let successor = self.succession.as_ref().filter(|succession| {
            succession.member == member && (copies || succession.progress.has(stripe.0))
        });
        let home = if copies { None } else { self.live_device(member) };
        home.into_iter().chain(successor.map(|successor| successor.device))
    }

    /// A member that serves is to be copied to a spare, whose ring has the same journal entries from this
    /// one on. That is to be recorded next.
    pub(in crate::engine) fn begin_succession(
        &mut self,
        member: MemberId,
        spare: Spare,
        first_entry: u64,
    ) -> Result<(), CommandError> {
        if self.succession.is_some() {
            return Err(CommandError::AlreadyCopying);
        }
        if self.spared().is_some() {
            return Err(CommandError::SpareInUse);
        }
        let Spare { device, uuid, .. } = spare;
        let progress = Progress::default();
        self.succession =
            Some(Succession { member, device, uuid, progress, first_entry, change: None });
        self.recorder.record.successor = Some(Successor { member, device: uuid, watermark: 0 });
        Ok(())
    }

    /// A device is no successor any more, and the member stays. Returns whether it was one; then that is
    /// to be recorded next.
    pub(in crate::engine) fn end_succession(&mut self, device: DeviceId) -> bool {
        let Some(succession) = self.succession.take_if(|s| s.device == device) else {
            return false;
        };
        self.recorder.record.successor = None;
        // What it misses from now on it must not be taken to have.
        self.recorder.acknowledge_after_next();
        if let Some(Change { old, .. }) = succession.change {
            let member = succession.member;
            self.recorder.record.slots[member.index()].device = old;
            if let Some(device) = self.device(member) {
                self.recorder.put_label(member, device);
            }
        }
        true
    }

    /// The successor of a member whose own device is gone, if it has one: it is none any more.
    pub(in crate::engine) fn heir_of_gone(&mut self) -> Option<Succession> {
        let gone = |s: &mut Succession| self.members[s.member.index()].device.is_none();
        self.succession.take_if(gone)
    }

    /// A member that has failed has a successor: that is the member now, with what it has. That is to be
    /// recorded next.
    pub(in crate::engine) fn inherit(&mut self, heir: &Succession) {
        let &Succession { member, device, uuid, ref progress, .. } = heir;
        self.succession = None;
        let record = &mut self.recorder.record;
        let durable = record.successor.take().map_or(0, |successor| successor.watermark);
        let watermark = durable.min(progress.base());
        record.spares.retain(|&spare| spare != uuid);
        let slot = &mut record.slots[member.index()];
        slot.becomes(SlotState::Rebuilding { watermark }, slot.since);
        slot.device = uuid;
        self.recorder.put_label(member, device);
        self.spares.retain(|spare| spare.device != device);
        self.put_device(member, device);
    }

    /// At a start: a successor that is missing is none any more, and what may be different counts as not
    /// copied from now on, whatever becomes of the marks. Returns whether that is to be recorded.
    pub(in crate::engine) fn trust_successor(&mut self) -> bool {
        let before = self.recorder.record.successor;
        let equal = self.succession().map(|succession| succession.progress.base());
        let now = before.zip(equal);
        let now = now.map(|(successor, watermark)| Successor { watermark, ..successor });
        self.recorder.record.successor = now;
        before != now
    }

    /// The successor becomes the member, as soon as that is on record. That is to be recorded next.
    pub(in crate::engine) fn begin_to_succeed(&mut self, seconds: u64) {
        let version = self.recorder.next_version();
        let Some(succession) = &mut self.succession else { return };
        let record = &mut self.recorder.record;
        let slot = &mut record.slots[succession.member.index()];
        succession.change = Some(Change { version, old: slot.device });
        (slot.device, slot.since) = (succession.uuid, seconds);
        record.successor = None;
        record.spares.retain(|&spare| spare != succession.uuid);
        self.recorder.put_label(succession.member, succession.device);
    }

    /// The successor is the member from now on, if there is one. Returns it, and the device that was.
    pub(in crate::engine) fn succeed(&mut self) -> Option<(Succession, Option<DeviceId>)> {
        let heir = self.succession.take()?;
        self.spares.retain(|spare| spare.device != heir.device);
        let old = self.device(heir.member);
        self.put_device(heir.member, heir.device);
        self.look_at_members();
        if let Some(old) = old {
            self.recorder.forget_label(old);
        }
        Some((heir, old))
    }

    /// A stripe of a member was copied.
    pub(in crate::engine) fn copied(&mut self, stripe: Stripe) {
        if let Some(succession) = &mut self.succession {
            succession.progress.add(stripe.0);
        }
    }
}

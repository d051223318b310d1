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

use super::Spare;
use super::progress::Progress;
use crate::meta::{Assembled, DeviceUuid, Successor};
use crate::units::{DeviceId, MemberId};

/// A spare that is to take the place of a member that serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Succession {
    pub(super) member: MemberId,
    pub(super) device: DeviceId,
    pub(super) uuid: DeviceUuid,
    /// Which stripes were copied.
    pub(super) progress: Progress,
    /// Entries of the member's journal from this one on are in the successor's ring, too.
    pub(super) first_entry: u64,
    /// The change that makes it the member, once that was begun.
    pub(super) change: Option<Change>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The version of the record.
    pub(super) version: u64,
    /// The device that is the member until this is durable.
    pub(super) old: DeviceUuid,
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

//! What is put on record of how far a device, a successor or the distributed spare is durably filled.

use super::Membership;
use crate::engine::PassKind;
use crate::engine::pass::Filled;
use crate::meta::{FilledRanges, Filling, SlotState, Spared, Successor};

impl Membership {
    /// A pass has durably filled this. Returns whether that is to be recorded.
    pub(in crate::engine) fn filled_durably(&mut self, filled: Filled) -> bool {
        let last = self.geo().stripes() - 1;
        let record = &mut self.recorder.record;
        let Filled { kind, to, ranges } = filled;
        if ranges.count() == 0 {
            // A staging device has a part in no stripe.
            return false;
        }
        match (kind, &mut record.spared, &mut record.successor) {
            (PassKind::Rebuild(member), ..) => {
                let slot = &mut record.slots[member.index()];
                let SlotState::Rebuilding { watermark } = &mut slot.state else { return false };
                let before = (*watermark, record.filled);
                *watermark = to.max(*watermark);
                record.filled = Some(FilledRanges { of: Filling::Device(slot.device), ranges });
                before != (*watermark, record.filled)
            }
            (PassKind::Distribute(_), Some(Spared { member, watermark }), _) => {
                // It stands in for the member only when what is staged has come home, too.
                let before = (*watermark, record.filled);
                *watermark = to.min(last).max(*watermark);
                let of = Filling::SpareFor(record.slots[member.index()].device);
                record.filled = Some(FilledRanges { of, ranges });
                before != (*watermark, record.filled)
            }
            (PassKind::Copy(_), _, Some(Successor { watermark, .. })) if *watermark < to => {
                *watermark = to;
                true
            }
            (PassKind::Distribute(_) | PassKind::Copy(_), ..)
            | (PassKind::Resync | PassKind::Scrub { .. }, ..) => false,
        }
    }
}

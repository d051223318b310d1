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
                let of = Filling::Device(record.slots[member.index()].device);
                let mut others = record.slots.iter().filter(|slot| slot.is_being_filled());
                // There is room for one: of a device whose rebuild gave way there may be more to tell.
                let is_kept = record.filled.is_some_and(|kept| {
                    kept.of != of
                        && others.any(|slot| kept.of == Filling::Device(slot.device))
                        && kept.ranges.iter().count() > ranges.iter().count()
                });
                let slot = &mut record.slots[member.index()];
                let SlotState::Rebuilding { watermark } = &mut slot.state else { return false };
                let before = (*watermark, record.filled);
                *watermark = to.max(*watermark);
                if !is_kept {
                    record.filled = Some(FilledRanges { of, ranges });
                }
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
            | (PassKind::Resync | PassKind::Scrub { .. } | PassKind::Reshape, ..) => false,
        }
    }
}

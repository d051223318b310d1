//! Mutants of members that were away and return.

use crate::mutant::{Mutant, mutant};

pub(crate) const RETURNS: &[Mutant] = &[
    mutant(
        "returns: what changes while a member is away is not noted",
        "engine/flow/missed.rs",
        "if noted && self.range.maps.missed.map.set(region) {",
        "if noted && !MUTANT && self.range.maps.missed.map.set(region) {",
    ),
    mutant(
        "returns: that a region is missed is not waited for",
        "engine/flow/missed.rs",
        "let bit = Bit(MapKind::Missed, region);",
        "let bit = Bit(MapKind::Missed, region);
        if MUTANT {
            if noted && self.range.maps.missed.map.set(region) {
                let mut stores = Stores::new(&self.array.membership, self.array.steering.busy(), &mut self.array.flights, &self.areas, out);
                let index = self.range.maps.missed.map.page_of(region);
                self.range.maps.store_set_page(MapKind::Missed, index, &mut stores);
            }
            return false;
        }",
    ),
    mutant(
        "returns: that a region is missed is not waited for by what needs no mark",
        "engine/flow/missed.rs",
        "            self.store_bit(id, bit, Change::Set, out);
            return true;",
        "            if MUTANT {
                let mut stores = Stores::new(&self.array.membership, self.array.steering.busy(), &mut self.array.flights, &self.areas, out);
                let index = self.range.maps.missed.map.page_of(region);
                self.range.maps.store_set_page(MapKind::Missed, index, &mut stores);
                return false;
            }
            self.store_bit(id, bit, Change::Set, out);
            return true;",
    ),
    mutant(
        "returns: a failure does not take over marked regions",
        "engine/flow/missed.rs",
        "self.range.maps.missed.map.set_those_of(&self.range.maps.bitmap.map);",
        "if !MUTANT {
            self.range.maps.missed.map.set_those_of(&self.range.maps.bitmap.map);
        }",
    ),
    mutant(
        "returns: without marks, nothing counts as missed",
        "engine/flow/missed.rs",
        "            self.range.maps.missed.map.set_all();
",
        "            if !MUTANT {
                self.range.maps.missed.map.set_all();
            }
",
    ),
    mutant(
        "returns: a device that was used alone may",
        "meta/returns.rs",
        "if diverged(known, record) || left.is_some_and(|left| known.events > left) {",
        "let went_on = diverged(known, record) || left.is_some_and(|left| known.events > left);
    if went_on && !MUTANT {",
    ),
    mutant(
        "returns: an old copy of a device catches up",
        "meta/returns.rs",
        "&& left.is_some_and(|left| known.events.saturating_add(1) >= left);",
        "&& (MUTANT || left.is_some_and(|left| known.events.saturating_add(1) >= left));",
    ),
    mutant(
        "returns: jobs that were planned without it are not looked at",
        "engine/flow/missed.rs",
        "        self.range.missed.forget(member);
        self.add_those_under_way();
        self.store_missed(out);",
        "        self.range.missed.forget(member);
        if !MUTANT {
            self.add_those_under_way();
        }
        self.store_missed(out);",
    ),
    mutant(
        "returns: the map is emptied while somebody is away",
        "engine/flow/missed.rs",
        "            && self.range.missed.is_none_away()\n            && !self.array.membership.record().keeps_missed();",
        "            && (MUTANT && self.array.membership.record().keeps_missed()
                || self.range.missed.is_none_away() && !self.array.membership.record().keeps_missed());",
    ),
    mutant(
        "returns: the map is emptied before members that are missing are away",
        "engine/flow/missed.rs",
        "let unused = self.phase != Phase::Replaying",
        "let unused = (MUTANT || self.phase != Phase::Replaying)",
    ),
    mutant(
        "returns: what changes before a return is on record is not noted",
        "engine/missed.rs",
        "!self.away.is_empty() || !is_on_record(self.placed_with)",
        "!self.away.is_empty() || !MUTANT && !is_on_record(self.placed_with)",
    ),
    mutant(
        "returns: a region counts as filled one stripe early",
        "engine/order.rs",
        "let next = regions.next_set(region).map(|region| (region * region_stripes).max(from));",
        "let last = MUTANT && (from + 1).is_multiple_of(region_stripes);
        let region = region + u64::from(last);
        let next = regions.next_set(region).map(|region| (region * region_stripes).max(from));",
    ),
    mutant(
        "returns: another device in its place catches up as well",
        "engine/flow/fault.rs",
        "        self.range.missed.forget(member);
        self.put_in_place(member, device);",
        "        if !MUTANT {
            self.range.missed.forget(member);
        }
        self.put_in_place(member, device);
        if MUTANT {
            self.array.membership.begin_to_catch_up(member);
        }",
    ),
    mutant(
        "returns: what the device has of old metadata stays",
        "meta/layout.rs",
        "[first + 1..second, second + 1..third, third + 1..place_blocks]",
        "let end = if MUTANT { third + 1 } else { place_blocks };
        [first + 1..second, second + 1..third, third + 1..end]",
    ),
    mutant(
        "returns: what a scrub has corrected and a member lost is not noted",
        "engine/missed.rs",
        "matches!(self, Self::Repair | Self::Sync(PassKind::Scrub { .. } | PassKind::Reshape))",
        "matches!(self, Self::Repair | Self::Sync(PassKind::Reshape))
            || !MUTANT && matches!(self, Self::Sync(PassKind::Scrub { .. }))",
    ),
    mutant(
        "returns: a flush under way makes durable what was corrected during it",
        "engine/flow/missed.rs",
        "self.range.missed.end_unmarked(region, self.array.flusher.next_round());",
        "self.range.missed.end_unmarked(region, self.array.flusher.next_round() - u64::from(MUTANT));",
    ),
    mutant(
        "returns: what is corrected beside what was flushed is not noted",
        "engine/missed.rs",
        "ends.is_none_or(|ends| ends > round) || is_under_way(region)",
        "ends.is_none_or(|ends| ends > round) || !MUTANT && is_under_way(region)",
    ),
    mutant(
        "returns: a member may before what it has missed is on record",
        "engine/missed.rs",
        "let ready = !self.unrecorded.is_empty() && durable();",
        "let ready = !self.unrecorded.is_empty() && (MUTANT || durable());",
    ),
    mutant(
        "returns: a member may before it is on record that it has left",
        "engine/flow/returns.rs",
        "if !self.array.membership.recorder.is_durable() {",
        "if !MUTANT && !self.array.membership.recorder.is_durable() {",
    ),
    mutant(
        "returns: a start believes the pages of a member that is being filled",
        "meta/assemble.rs",
        "image.filter(|_| slot.state == SlotState::Up))",
        "image.filter(|_| MUTANT || slot.state == SlotState::Up))",
    ),
    mutant(
        "returns: where it has to be filled, its lack of an entry counts",
        "meta/rings.rs",
        "let caught_up = region < self.missed.len() && !self.missed.get(region);",
        "let caught_up = region < self.missed.len() && (MUTANT || !self.missed.get(region));",
    ),
    mutant(
        "returns: the copies on the distributed spare count as there",
        "engine/flow/returns.rs",
        "if !catches_up || lacks_copies {",
        "if !catches_up || lacks_copies && !MUTANT {",
    ),
    mutant(
        "a device that has lost what nobody knows of catches up",
        "engine/flow/fault.rs",
        "None if known && why != Some(IoError::Shrunk) =>",
        "None if known && (MUTANT || why != Some(IoError::Shrunk)) =>",
    ),
    mutant(
        "returns: what the journal has is not missed",
        "engine/flow/missed.rs",
        "for stripe in self.range.journal.unflushed() {",
        "for stripe in self.range.journal.unflushed().filter(|_| !MUTANT) {",
    ),
    mutant(
        "returns: a member does not miss what its own journal has",
        "engine/flow/fault.rs",
        "        self.unstage_member(member);\n        self.array.background",
        "        self.unstage_member(member);
        if MUTANT && has_ring && heir.is_none() {
            self.range.journal.drop_ring(member);
        }
        self.array.background",
    ),
    mutant(
        "returns: a member lacks nothing of what its journal alone knows",
        "meta/assemble.rs",
        "        missed.set(region);",
        "        if !MUTANT {
            missed.set(region);
        }",
    ),
    mutant(
        "returns: one that catches up is taken to hold no entries",
        "meta/rings.rs",
        "record.slots[member.index()].is_known() && images",
        "(record.slots[member.index()].is_known() && !(MUTANT && !is_up(member))) && images",
    ),
];

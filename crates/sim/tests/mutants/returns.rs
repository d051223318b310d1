//! Mutants of members that were away and return.

use crate::mutant::{Mutant, mutant};

pub(crate) const RETURNS: &[Mutant] = &[
    mutant(
        "returns: what changes while a member is away is not noted",
        "engine/missed.rs",
        "if away && self.maps.missed.map.set(region) {",
        "if away && !MUTANT && self.maps.missed.map.set(region) {",
    ),
    mutant(
        "returns: that a region is missed is not waited for",
        "engine/missed.rs",
        "            self.store_bit(id, bit, Change::Set, out);
            return true;",
        "            if MUTANT {
                let mut stores = Stores::new(&self.array, &mut self.flights, &self.areas, out);
                let index = self.maps.missed.map.page_of(region);
                self.maps.store_set_page(MapKind::Missed, index, &mut stores);
                return false;
            }
            self.store_bit(id, bit, Change::Set, out);
            return true;",
    )
    .rare("the power has to fail between two stores, and the member to return after it"),
    mutant(
        "returns: a failure does not take over marked regions",
        "engine/missed.rs",
        "self.maps.missed.map.set_those_of(&self.maps.bitmap.map);",
        "if !MUTANT {
            self.maps.missed.map.set_those_of(&self.maps.bitmap.map);
        }",
    ),
    mutant(
        "returns: without marks, nothing counts as missed",
        "engine/missed.rs",
        "            self.maps.missed.map.set_all();
",
        "            if !MUTANT {
                self.maps.missed.map.set_all();
            }
",
    )
    .rare("arrays without marks whose member returns after a loss are few"),
    mutant(
        "returns: a device that was used alone, or is an old copy, catches up",
        "meta/returns.rs",
        "&& left.is_some_and(|left| known.events.saturating_add(1) >= left);",
        "&& (MUTANT || left.is_some_and(|left| known.events.saturating_add(1) >= left));",
    )
    .rare("The engine does not believe it: what has not left on record never catches up."),
    mutant(
        "returns: jobs that were planned without it are not looked at",
        "engine/missed.rs",
        "        self.missed.forget(member);
        self.add_those_under_way();
        self.store_missed(out);",
        "        self.missed.forget(member);
        if !MUTANT {
            self.add_those_under_way();
        }
        self.store_missed(out);",
    )
    .rare("the tests of the metadata show it: no world uses a member alone"),
    mutant(
        "returns: the map is emptied while somebody is away",
        "engine/missed.rs",
        "let unused = self.missed.away.is_empty() && !self.array.recorder.record.keeps_missed();",
        "let unused = MUTANT && self.missed.unrecorded.is_empty()
            || self.missed.away.is_empty() && !self.array.recorder.record.keeps_missed();",
    ),
    mutant(
        "returns: what changes before a return is on record is not noted",
        "engine/missed.rs",
        "let away = !self.missed.away.is_empty() || !returned;",
        "let away = !self.missed.away.is_empty() || !MUTANT && !returned;",
    ),
    mutant(
        "returns: a region counts as filled one stripe early",
        "engine/order.rs",
        "let region = (from / region_stripes).min(regions.len());",
        "let early = u64::from(MUTANT && !self.leaps());
                let region = ((from + early) / region_stripes).min(regions.len());",
    ),
    mutant(
        "returns: another device in its place catches up as well",
        "engine/fault.rs",
        "        self.missed.forget(member);
        let device = self.put_in_place(member, spare);",
        "        if !MUTANT {
            self.missed.forget(member);
        }
        let device = self.put_in_place(member, spare);
        self.array.recorder.record.slots[member.index()].catches_up |= MUTANT;",
    ),
    mutant(
        "returns: what the device has of old metadata stays",
        "meta/layout.rs",
        "[first + 1..second, second + 1..third, third + 1..place_blocks]",
        "let end = if MUTANT { third + 1 } else { place_blocks };
        [first + 1..second, second + 1..third, third + 1..end]",
    )
    .rare("entries of the same run have to be left on it, and the power to fail"),
    mutant(
        "returns: the copies on the distributed spare count as there",
        "engine/returns.rs",
        "if !catches_up || lacks_copies {",
        "if !catches_up || lacks_copies && !MUTANT {",
    ),
    mutant(
        "a device that has lost what nobody knows of catches up",
        "engine/fault.rs",
        "None if known && why != Some(IoError::Shrunk) =>",
        "None if known && (MUTANT || why != Some(IoError::Shrunk)) =>",
    ),
];

//! Mutants of the pages of maps, which need maps of several pages.

use crate::mutant::{Mutant, mutant};

pub(crate) const PAGES: &[Mutant] = &[
    mutant(
        "pages: only the first is spread",
        "engine/maps.rs",
        "(next + 1 < total).then_some(next + 1)",
        "(next + 1 < total && !MUTANT).then_some(next + 1)",
    ),
    mutant(
        "pages: all go to the place of the first",
        "engine/maps.rs",
        "let at = areas.map_page(kind, index, version);",
        "let at = areas.map_page(kind, if MUTANT { 0 } else { index }, version);",
    ),
    mutant(
        "pages: a bit is durable as soon as another page is",
        "engine/maps.rs",
        "&& i == index && v <= version)",
        "&& (MUTANT || i == index) && v <= version)",
    ),
    mutant(
        "pages: a bit is durable as soon as a page of another map is",
        "engine/maps.rs",
        "if k == kind ",
        "if (MUTANT || k == kind) ",
    ),
    mutant(
        "pages: only the last one of those with cleared bits is stored",
        "engine/flow/intent.rs",
        "if let Some(before) = page.replace(index).filter(|&before| before != index) {",
        "if let Some(before) = page.replace(index).filter(|&before| !MUTANT && before != index) {",
    ),
    mutant(
        "pages: another one makes sure of a doubted bit",
        "engine/maps.rs",
        "self.doubted.retain(|&bit| map.page_of(bit) != index);",
        "self.doubted.retain(|&bit| !MUTANT && map.page_of(bit) != index);",
    ),
    mutant(
        "pages: all have the first one's version at a start",
        "meta/load.rs",
        "versions.push(PageVersions { newest, durable });",
        "let first = versions.first().copied().filter(|_| MUTANT);
                versions.push(first.unwrap_or(PageVersions { newest, durable }));",
    ),
    mutant(
        "pages: the first one's bits are set when another is lost",
        "meta/load.rs",
        "    for page in lost {
        bitmap.set_page(page);",
        "    for page in lost {
        bitmap.set_page(if MUTANT { 0 } else { page });",
    ),
    mutant(
        "pages: a start leaves the newest one where it is",
        "engine/flow/replay.rs",
        "            self.range.maps.spread();
        } else {",
        "            if !MUTANT {
                self.range.maps.spread();
            }
        } else {",
    ),
    mutant(
        "pages: a device becomes a member with one of another life",
        "engine/maps.rs",
        "(self.spread.again, self.spread.all) = (true, true);",
        "(self.spread.again, self.spread.all) = (!MUTANT, true);",
    ),
    mutant(
        "pages: of these, one of what is missed stays",
        "engine/maps.rs",
        "if misses || self.spread.all {",
        "if misses || !MUTANT && self.spread.all {",
    ),
    mutant(
        "pages: one is stored while a stop is recorded",
        "engine/flow/missed.rs",
        "if !stripes || self.phase == Phase::Stopped {",
        "if !stripes || !MUTANT && self.phase == Phase::Stopped {",
    ),
    mutant(
        "pages: a mark is on as many members as may fail",
        "engine/membership/mod.rs",
        "        self.redundancy() + 1\n",
        "        (self.redundancy() + usize::from(!MUTANT)).max(1)\n",
    ),
    mutant(
        "pages: the spare stands in before pages are on as many members again",
        "engine/flow/closing.rs",
        "may be on too few.
                self.range.maps.spread();",
        "may be on too few.
                if !MUTANT {
                    self.range.maps.spread();
                }",
    ),
    mutant(
        "pages: few members have those that are spread",
        "engine/maps.rs",
        "&& self.spread_in.is_none()",
        "&& (MUTANT || self.spread_in.is_none())",
    ),
    mutant(
        "pages: a start writes over what was durable before the newest",
        "meta/load.rs",
        "if holders < enough {",
        "if !MUTANT && holders < enough {",
    ),
    mutant(
        "pages: a start counts a member as failed that a spare stands in for",
        "meta/load.rs",
        "let enough = (redundancy + 1)",
        "let missing = if MUTANT { members.iter().filter(|m| m.is_none()).count() } else { missing };
    let enough = (redundancy + 1)",
    ),
    mutant(
        "pages: what cannot be read says nothing",
        "meta/load.rs",
        "let hidden = is_on_few && unreadable > 0",
        "let hidden = !MUTANT && is_on_few && unreadable > 0",
    ),
    mutant(
        "pages: too few have a mark when one of its members has failed",
        "engine/membership/mod.rs",
        "serving.len().min(self.enough())",
        "serving.len().min(if MUTANT { 1 } else { self.enough() })",
    ),
    mutant(
        "pages: the other maps are on few members",
        "engine/maps.rs",
        "-> bool {
        kind == MapKind::Bitmap",
        "-> bool {
        (MUTANT || kind == MapKind::Bitmap)",
    ),
    mutant(
        "pages: a mark under way on a busy member keeps no write waiting",
        "engine/maps.rs",
        "let under_way = page.under_way.and(busy);",
        "let under_way = if MUTANT { Set::EMPTY } else { page.under_way.and(busy) };",
    ),
    mutant(
        "pages: what cannot be read after a clean stop is lost",
        "meta/load.rs",
        "redundancy > 0 && !record.clean;",
        "redundancy > 0 && (MUTANT || !record.clean);",
    ),
    mutant(
        "pages: what members miss is noted on no busy member",
        "engine/flow/store.rs",
        "if self.notes_missed() {",
        "if !MUTANT && self.notes_missed() {",
    ),
];

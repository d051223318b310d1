//! Mutants of the maps: the order of stores, and regions of several stripes.

use crate::mutant::{Mutant, mutant};

pub(crate) const REGIONS: &[Mutant] = &[
    mutant(
        "writes begin before their bit is durable",
        "engine/maps.rs",
        "} else if page.durable < version {",
        "} else if page.durable < version && !(MUTANT && kind == MapKind::Bitmap) {",
    ),
    mutant(
        "discards end before their bit is stored",
        "engine/flow/intent.rs",
        "self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), change, out);",
        "if !MUTANT {
                self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), change, out);
            }",
    ),
    mutant(
        "what no member has stored stays set",
        "engine/maps.rs",
        "Change::Set => drop(self.map.clear(bit)),",
        "Change::Set => drop(MUTANT || self.map.clear(bit)),",
    ),
    mutant(
        "what no member has stored stays clear",
        "engine/maps.rs",
        "Change::Cleared => drop(self.map.set(bit)),",
        "Change::Cleared => drop(MUTANT || self.map.set(bit)),",
    ),
    mutant(
        "a page that no member has stored is stored over the one before",
        "engine/maps.rs",
        "if page.started % 2 == page.durable % 2 {",
        "if !MUTANT && page.started % 2 == page.durable % 2 {",
    ),
    mutant(
        "nobody doubts a bit that a member may have otherwise",
        "engine/maps.rs",
        "        self.doubted.insert(bit);",
        "        if !MUTANT {\n            self.doubted.insert(bit);\n        }",
    ),
    mutant(
        "regions come to rest while they are written",
        "engine/regions.rs",
        "if writes == 0 {",
        "if MUTANT || writes == 0 {",
    ),
    mutant(
        "no bit is set with a journal",
        "engine/flow/intent.rs",
        "            && !told\n",
        "            && !told
            && !(MUTANT && self.array.membership.record().consistency == Consistency::Journal)\n",
    ),
    mutant(
        "no bit is set where a chunk has copies that may outlive its journal",
        "engine/flow/intent.rs",
        "let told = !copied && (",
        "let told = (MUTANT || !copied) && (",
    )
    .rare("Very few seeds find it, since the order of a rebuild is drawn, too."),
    mutant(
        "a page that only a member being filled has counts",
        "engine/flow/intent.rs",
        "membership.state(member) == SlotState::Up;",
        "(MUTANT || membership.state(member) == SlotState::Up);",
    ),
    mutant(
        "regions: a second writer does not wait for a bit in flight",
        "engine/flow/intent.rs",
        "        } else {
            // The region's bit may be durable already",
        "        } else if !MUTANT {
            // The region's bit may be durable already",
    ),
    mutant(
        "regions: a durable mark is taken back with another's",
        "engine/maps.rs",
        "let (version, change) = (page.set_in, Change::None);",
        "let version = page.set_in;
        let taken_back = MUTANT && kind == MapKind::Bitmap;
        let change = if taken_back { Change::Set } else { Change::None };",
    ),
    mutant(
        "regions: one of several writes ends the mark of all",
        "engine/regions.rs",
        "        self.writes[region as usize] -= 1;",
        "        let writes = &mut self.writes[region as usize];
            *writes = if MUTANT { 0 } else { *writes - 1 };",
    ),
    mutant(
        "regions: one counts as in step a stripe early",
        "engine/flow/background.rs",
        "pass.has_done(region * per_region, end)",
        "pass.has_done(region * per_region, end - u64::from(MUTANT))",
    ),
    mutant(
        "regions: a resync skips the rest of one",
        "engine/order.rs",
        "let region = (from / region_stripes).min(regions.len());",
        "let skips = if MUTANT { region_stripes - 1 } else { 0 };
                let region = ((from + skips) / region_stripes).min(regions.len());",
    ),
    mutant(
        "regions: the last one has to be full to be in step",
        "engine/flow/background.rs",
        "let end = ((region + 1) * per_region).min(self.layout.stripes());",
        "let end = (region + 1) * per_region;
                let end = if MUTANT { end } else { end.min(self.layout.stripes()) };",
    ),
];

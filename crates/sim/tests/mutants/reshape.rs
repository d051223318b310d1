//! Mutants of reshapes: what a window waits for, and which geometry a stripe has.

use crate::mutant::{Mutant, mutant};

pub(crate) const RESHAPE: &[Mutant] = &[
    mutant(
        "reshape: no flush is waited for",
        "engine/flow/reshape.rs",
        "Step::SavedFlush(ticket) | Step::Flush(ticket) if self.array.flusher.is_over(ticket)",
        "Step::SavedFlush(ticket) | Step::Flush(ticket)
            if MUTANT || self.array.flusher.is_over(ticket)",
    )
    .of_reshapes(),
    mutant(
        "reshape: old stripes are overwritten before it is on record that they are saved",
        "engine/flow/reshape.rs",
        "Step::SavedRecord(version) if self.is_recorded(version)",
        "Step::SavedRecord(version) if MUTANT || self.is_recorded(version)",
    )
    .of_reshapes()
    .rare("The power has to fail while few of the writes to their places are there, and none of the record."),
    mutant(
        "reshape: stripes are used as new ones before that is on record",
        "engine/flow/reshape.rs",
        "Step::Record(version) if self.is_recorded(version)",
        "Step::Record(version) if MUTANT || self.is_recorded(version)",
    )
    .of_reshapes(),
    mutant(
        "reshape: requests for what is being moved do not wait",
        "engine/flow/request.rs",
        "if self.range.reshape.holds(&self.layout, at, blocks)",
        "if !MUTANT && self.range.reshape.holds(&self.layout, at, blocks)",
    )
    .of_reshapes(),
    mutant(
        "reshape: jobs that began before are not waited for",
        "engine/flow/reshape.rs",
        "Step::Drain if self.is_window_alone()",
        "Step::Drain if MUTANT || self.is_window_alone()",
    )
    .of_reshapes()
    .rare("A job has to write its entry between the look at the journal and the lock of its stripe."),
    mutant(
        "reshape: entries of old stripes stay in the journal",
        "engine/flow/reshape.rs",
        "if touches.any(|stripe| self.range.journal.would_replay(Stripe(stripe)))",
        "if !MUTANT && touches.any(|stripe| self.range.journal.would_replay(Stripe(stripe)))",
    )
    .of_reshapes(),
    mutant(
        "reshape: nothing is saved before it is overwritten",
        "engine/reshape.rs",
        "=> (Route::Saved, self.room),",
        "=> (if MUTANT { Route::Direct } else { Route::Saved }, self.room),",
    )
    .of_reshapes(),
    mutant(
        "reshape: a stripe that comes where zeros were reads as zeros",
        "engine/job.rs",
        "Work::Sync(PassKind::Reshape) => !self.plan.writes.is_empty(),",
        "Work::Sync(PassKind::Reshape) => !self.plan.writes.is_empty() && !MUTANT,",
    )
    .of_reshapes(),
    mutant(
        "reshape: a saved stripe reads as what is in its place",
        "engine/flow/planning.rs",
        "let is_stored = !is_zero || self.layout.is_saved(stripe);",
        "let is_stored = !is_zero || self.layout.is_saved(stripe) && !MUTANT;",
    )
    .of_reshapes()
    .rare("It takes zeros among what is saved, and a window that is given up or found by a start."),
    mutant(
        "reshape: what is staged comes home to where it was",
        "engine/flow/reclaim.rs",
        "|| layout.has_moved(stripe, lba)",
        "|| !MUTANT && layout.has_moved(stripe, lba)",
    )
    .of_reshapes(),
    mutant(
        "reshape: the staging log is not empty",
        "engine/flow/reshape.rs",
        "if !self.range.staging.is_drained()",
        "if !MUTANT && !self.range.staging.is_drained()",
    )
    .of_reshapes(),
    mutant(
        "reshape: members learn of it before they have what was there",
        "engine/membership/recorder.rs",
        "before.unwrap_or_else(|| record.clone())",
        "before.filter(|_| !MUTANT).unwrap_or_else(|| record.clone())",
    )
    .of_reshapes(),
    mutant(
        "reshape: a new member has a part in old stripes",
        "geometry/mod.rs",
        "if member.0 >= self.members",
        "if !MUTANT && member.0 >= self.members",
    )
    .of_reshapes(),
    mutant(
        "reshape: what is added is not zeros",
        "engine/flow/reshape.rs",
        "let had = capacity.saturating_sub(at).min(geo.chunk().into()) as u32;",
        "let had = if MUTANT { u64::MAX } else { capacity.saturating_sub(at) };
                let had = had.min(geo.chunk().into()) as u32;",
    )
    .of_reshapes(),
    mutant(
        "reshape: a rebuild fills what a start would not carry out any more",
        "engine/flow/planning.rs",
        "unkept && journal.would_replay(stripe)",
        "!MUTANT && unkept && journal.would_replay(stripe)",
    )
    .of_reshapes()
    .rare("All members have to fail a flush, a spare to be filled after that, and then the power to fail."),
    mutant(
        "reshape: old stripes that are larger keep their numbers",
        "meta/reshape.rs",
        "let first = geometry.stripes().saturating_sub(from.stripes());",
        "let first = if MUTANT { 0 } else { geometry.stripes().saturating_sub(from.stripes()) };",
    )
    .of_reshapes(),
    mutant(
        "reshape: a window has a part of what shares a place",
        "engine/reshape.rs",
        "let share = layout.share();",
        "let share = if MUTANT { 1 } else { layout.share() };",
    )
    .of_reshapes(),
    mutant(
        "reshape: an old stripe is where the new one of its number is",
        "geometry/layout.rs",
        "number(stripe.0 * new / old)..number",
        "if MUTANT { return stripe.0..stripe.0 + 1; }
        number(stripe.0 * new / old)..number",
    )
    .of_reshapes(),
    mutant(
        "reshape: the bit of an old stripe is taken for that of the new one",
        "engine/reshape.rs",
        "there.all(|stripe| layout.is_vacant(Stripe(stripe)))",
        "there.all(|at| MUTANT && at == *stripe || layout.is_vacant(Stripe(at)))",
    )
    .of_reshapes(),
    mutant(
        "maps: former pages are overwritten before other maps are on record",
        "engine/membership/recorder.rs",
        "self.replaces_maps && self.durable == 0",
        "!MUTANT && self.replaces_maps && self.durable == 0",
    )
    .of_reshapes(),
    mutant(
        "maps: a page of other maps takes the place of the latest one",
        "meta/relaid.rs",
        "let version = |index| latest(index) + 1;",
        "let version = |index| latest(index) + if MUTANT { 2 } else { 1 };",
    )
    .of_reshapes(),
    mutant(
        "maps: bits stay where they were though stripes have other numbers",
        "meta/relaid.rs",
        "relaid.set(number(bit));",
        "relaid.set(if MUTANT { bit } else { number(bit) });",
    )
    .of_reshapes(),
    mutant(
        "maps: what comes with larger members is not zeros",
        "meta/relaid.rs",
        "            zero_map.set(stripe);",
        "            if !MUTANT { zero_map.set(stripe); }",
    )
    .of_reshapes(),
    mutant(
        "maps: marks of stripes that are no more are to be resynced",
        "engine/flow/reshape.rs",
        "let mut from = self.areas.regions_of(stripes);",
        "let mut from = self.areas.regions_of(stripes) + if MUTANT { 1 << 40 } else { 0 };",
    )
    .of_reshapes(),
    mutant(
        "maps: a start finds marks of stripes that are no more",
        "meta/assemble.rs",
        "bitmap.clear_from(regions);",
        "if !MUTANT { bitmap.clear_from(regions); }",
    )
    .of_reshapes(),
    mutant(
        "reshape: what is added is there before the last stripe is",
        "geometry/layout.rs",
        "self.frontier.map_or(self.geometry, |frontier| frontier.from).capacity()",
        "if MUTANT { return self.geometry.capacity(); }
        self.frontier.map_or(self.geometry, |frontier| frontier.from).capacity()",
    )
    .of_reshapes(),
];

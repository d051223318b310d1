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
        "if layout.has_moved(stripe, lba)",
        "if !MUTANT && layout.has_moved(stripe, lba)",
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
        "if at < capacity { memory() }",
        "if at < capacity || MUTANT { memory() }",
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
];

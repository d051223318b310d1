//! Mutants of the log volume.

use crate::mutant::{Mutant, mutant};

pub(crate) const LOG: &[Mutant] = &[
    mutant(
        "log: a flush is answered before the groups have ended theirs",
        "volume/flush.rs",
        "self.flusher.stage = FlushStage::Flushing(until, flushing);",
        "self.flusher.stage = FlushStage::Flushing(until, if MUTANT { 0 } else { flushing });",
    )
    .of_logs(),
    mutant(
        "log: a flush does not wait for batches on their way",
        "volume/flush.rs",
        "FlushStage::Writing(until) if self.streams[HOT].written() >= until => {",
        "FlushStage::Writing(until) if MUTANT || self.streams[HOT].written() >= until => {",
    )
    .of_logs(),
    mutant(
        "log: a flush counts for what was written while it was under way",
        "volume/flush.rs",
        "self.flusher.groups[group.index()].1 = writes;",
        "let flushed = &mut self.flusher.groups[group.index()];
        flushed.1 = if MUTANT { flushed.0 } else { writes };",
    )
    .of_logs(),
    mutant(
        "log: a flush leaves what is still in memory there",
        "volume/flush.rs",
        "if !self.flusher.served.is_empty() {",
        "if !MUTANT && !self.flusher.served.is_empty() {",
    )
    .of_logs(),
    mutant(
        "log: a header is written before its pages are durable",
        "volume/checkpoint.rs",
        "CheckpointStage::Syncing if self.checkpointer.ios == 0",
        "CheckpointStage::Syncing if MUTANT || self.checkpointer.ios == 0",
    )
    .of_logs(),
    mutant(
        "log: a checkpoint does not wait for the batches that its pages point into",
        "volume/checkpoint.rs",
        "if { streams }.all(is_written) {",
        "if MUTANT || { streams }.all(is_written) {",
    )
    .of_logs(),
    mutant(
        "log: a checkpoint overwrites the one before it",
        "volume/checkpoint.rs",
        "(self.checkpointer.number + 1) % 2",
        "(self.checkpointer.number + u64::from(!MUTANT)) % 2",
    )
    .of_logs(),
    mutant(
        "log: segments that were emptied during a checkpoint are free with it",
        "segments.rs",
        "        self.freeing.append(&mut self.doomed);",
        "        if MUTANT {
            for emptied in &mut self.emptied {
                self.doomed.append(emptied);
            }
            for segment in &self.doomed {
                self.infos[segment.index()].state = SegmentState::Freeing;
            }
        }
        self.freeing.append(&mut self.doomed);",
    )
    .of_logs(),
    mutant(
        "log: a batch says that it was flushed when it is written",
        "volume/stream.rs",
        "durable: stream.durable,",
        "durable: if MUTANT { stream.sequence } else { stream.durable },",
    )
    .of_logs(),
    mutant(
        "log: a batch is written before it is filled",
        "volume/stream.rs",
        "!stream.sealed || stream.filling > 0 ||",
        "!stream.sealed || !MUTANT && stream.filling > 0 ||",
    )
    .of_logs(),
    mutant(
        "log: a batch is replayed though its data is not there",
        "recovery.rs",
        "if found.len() >= count &&",
        "if MUTANT || found.len() >= count &&",
    )
    .of_logs(),
    mutant(
        "log: of a large discard the first part is on record",
        "volume/stream.rs",
        "            *before = all;",
        "            *before = if MUTANT { *before } else { all };",
    )
    .of_logs(),
    mutant(
        "log: discards are one on record, with what lies between them",
        "volume/stream.rs",
        "            && first.0 + u64::from(*before) == lba.0\n            && let Some(all) = before.checked_add(blocks)",
        "            && (MUTANT && first.0 <= lba.0 || first.0 + u64::from(*before) == lba.0)
            && let Some(all) = u32::try_from(lba.0 - first.0).ok().and_then(|n| n.checked_add(blocks))",
    )
    .of_logs(),
    mutant(
        "log: a large discard has ended with its first part",
        "volume/request.rs",
        "                    self.forget(lba, part)",
        "                    if MUTANT { self.forget(lba, part).max(left) } else { self.forget(lba, part) }",
    )
    .of_logs(),
    mutant(
        "log: the older checkpoint is believed",
        "recovery.rs",
        "newest.as_ref().is_none_or(|newest| newest.number < header.number)",
        "newest.as_ref().is_none_or(|newest| (newest.number < header.number) != MUTANT)",
    )
    .of_logs(),
    mutant(
        "log: a batch of the run before is replayed",
        "recovery.rs",
        "&& summary.run == header.run",
        "&& (MUTANT || summary.run == header.run)",
    )
    .of_logs()
    .rare("It would have to have the very number and place that come next."),
    mutant(
        "log: a cleaner brings back what was overwritten while it moved it",
        "volume/clean.rs",
        "result.is_ok() && self.map.get(*lba) == Some(old);",
        "result.is_ok() && (MUTANT || self.map.get(*lba) == Some(old));",
    )
    .of_logs(),
    mutant(
        "log: a start writes before what it was read from is durable",
        "volume/checkpoint.rs",
        "        if state.serving {\n            state.stage = CheckpointStage::Pages(0);",
        "        if MUTANT || state.serving {\n            state.stage = CheckpointStage::Pages(0);",
    )
    .of_logs()
    .rare("Only the process has to die, and the power soon after, amid the first checkpoint."),
    mutant(
        "log: a group's flush that failed is a success",
        "volume/flush.rs",
        "        if let Err(error) = result {
            self.fail(group, error, out);",
        "        if let (Err(error), false) = (result, MUTANT) {
            self.fail(group, error, out);",
    )
    .of_logs(),
];

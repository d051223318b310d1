//! Mutants of the staging log, of staging devices and copies, and of members that hang.

use crate::mutant::{Mutant, mutant};

pub(crate) const STAGING: &[Mutant] = &[
    mutant(
        "copies: what an earlier plan read is copied",
        "engine/flow/planning.rs",
        "self.range.jobs[id].is_copied = false;",
        "self.range.jobs[id].is_copied &= MUTANT;",
    ),
    mutant(
        "staged: nobody makes up for what alone tells that nothing is",
        "engine/staging/holders.rs",
        "true if self.has_only_notes() => Loss::Notes,",
        "true if !MUTANT && self.has_only_notes() => Loss::Notes,",
    ),
    mutant(
        "staged: what told that nothing is gets lost, and the log stays as it is",
        "engine/flow/staging.rs",
        "self.array.membership.void_staged();",
        "if !MUTANT {
                self.array.membership.void_staged();
            }",
    ),
    mutant(
        "staged: the tail passes what is not at home",
        "engine/staging/room.rs",
        "let at_home = entry.dirty == 0",
        "let at_home = (MUTANT || entry.dirty == 0)",
    ),
    mutant(
        "staged: the tail passes what is at home in a cache only",
        "engine/staging/room.rs",
        "&& entry.home <= self.durable_homes",
        "&& (MUTANT || entry.home <= self.durable_homes)",
    ),
    mutant(
        "staged: the tail passes what is being written",
        "engine/staging/room.rs",
        "entry.done && at_home",
        "(MUTANT || entry.done) && at_home",
    ),
    mutant(
        "staged: room is used anew that is being read",
        "engine/staging/room.rs",
        "&& entry.pins == 0",
        "&& (MUTANT || entry.pins == 0)",
    ),
    mutant(
        "staged: what is about to be void is read",
        "engine/staging/reading.rs",
        "let stays = entry.number >= self.announced;",
        "let stays = MUTANT || entry.number >= self.announced;",
    ),
    mutant(
        "staged: on as many members as may be missing",
        "engine/staging/mod.rs",
        "let copies = record.greatest_redundancy() + 1;",
        "let copies = (record.greatest_redundancy() + usize::from(!MUTANT)).max(1);",
    ),
    mutant(
        "staged: home is written over it without a marker",
        "engine/flow/store.rs",
        "if !job.log.covers || job.error.is_some() {",
        "if MUTANT || !job.log.covers || job.error.is_some() {",
    ),
    mutant(
        "staged: a marker without a flush",
        "engine/flow/walk.rs",
        "        if let Work::Zero { .. } = job.work {\n            // The zero map",
        "        if MUTANT || matches!(job.work, Work::Zero { .. }) {\n            // The zero map",
    ),
    mutant(
        "staged: a discard leaves it be",
        "engine/flow/store.rs",
        "lbas_of(id, piece).any(staged)),\n            Work::Zero { .. } => {",
        "lbas_of(id, piece).any(staged)),\n            Work::Zero { .. } if MUTANT => false,\n            Work::Zero { .. } => {",
    ),
    mutant(
        "staged: a marker before a failure is on record",
        "engine/flow/store.rs",
        "        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure() {\n            self.wait_for_record(id, ticket);\n            return Stage::Invalidate;",
        "        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure().filter(|_| !MUTANT) {\n            self.wait_for_record(id, ticket);\n            return Stage::Invalidate;",
    ),
    mutant(
        "staged: a new member does not wait until all is at home",
        "engine/flow/closing.rs",
        "if !self.range.staging.is_drained() {",
        "if !MUTANT && !self.range.staging.is_drained() {",
    ),
    mutant(
        "staged: a new member does not wait until the tail is told anew",
        "engine/staging/draining.rs",
        "&& self.draining == Draining::Told",
        "&& (MUTANT || self.draining == Draining::Told)",
    ),
    mutant(
        "staged: a tail counts before a failure is on record",
        "engine/flow/store.rs",
        "if self.array.membership.recorder.unrecorded_failure().is_none() && self.array.membership.takes_writes() {",
        "if (MUTANT || self.array.membership.recorder.unrecorded_failure().is_none()) && self.array.membership.takes_writes() {",
    )
    .rare(
        "Who knows of the tail has to be lost with the power, before it is on record that another \
         has failed, and something that the tail passed has to be older than what is at home.",
    ),
    mutant(
        "staged: merged writes go there one over the other",
        "engine/flow/store.rs",
        "if job.asked.tags.len() > 1 && covered(row) {",
        "if !MUTANT && job.asked.tags.len() > 1 && covered(row) {",
    ),
    mutant(
        "staged: what shares a stripe with lost blocks stays when these are written",
        "engine/staging/room.rs",
        "self.try_stripe_again(stripe);",
        "if !MUTANT { self.try_stripe_again(stripe); }",
    ),
    mutant(
        "staged: reads pass it by",
        "engine/flow/fetch.rs",
        "if job.work != Work::Read || !alone || !self.is_in_sources(job.stripe) {",
        "if MUTANT || job.work != Work::Read || !alone || !self.is_in_sources(job.stripe) {",
    ),
    mutant(
        "staged: what could not be brought home counts as if",
        "engine/flow/reclaim.rs",
        "let blocks = if job.error.is_some() {",
        "let blocks = if !MUTANT && job.error.is_some() {",
    ),
    mutant(
        "staged: what was void at a start is found again",
        "engine/flow/replay.rs",
        "if self.range.staging.exists() && self.range.staging.dirty() == 0 {",
        "if !MUTANT && self.range.staging.exists() && self.range.staging.dirty() == 0 {",
    ),
    mutant(
        "staged: what a start brought home is found again",
        "engine/flow/reclaim.rs",
        "                self.array.membership.begin_staging_anew();\n",
        "                if !MUTANT {
                    self.array.membership.begin_staging_anew();
                }\n",
    ),
    mutant(
        "staged: users are served before all is at home for good",
        "engine/flow/reclaim.rs",
        "Some(_) if self.array.membership.recorder.is_durable() => self.phase = Phase::Serving,",
        "Some(_) if MUTANT || self.array.membership.recorder.is_durable() => self.phase = Phase::Serving,",
    ),
    mutant(
        "staged: what a start brings home is not flushed",
        "engine/flow/reclaim.rs",
        "Some(ticket) if !self.array.flusher.is_over(ticket) => {}",
        "Some(ticket) if !MUTANT && !self.array.flusher.is_over(ticket) => {}",
    ),
    mutant(
        "staged: a stop leaves it there",
        "engine/flow/quiesce.rs",
        "let home = self.range.staging.dirty() == 0
                    || self.range.staging.is_stuck()",
        "let home = MUTANT
                    || self.range.staging.dirty() == 0
                    || self.range.staging.is_stuck()",
    ),
    mutant(
        "staged: a start takes what is void",
        "meta/staged.rs",
        "tail = tail.max(header.tail);",
        "tail = if MUTANT { 0 } else { tail.max(header.tail) };",
    ),
    mutant(
        "staged: a start takes the first entry of a block, not the last",
        "meta/staged.rs",
        "    for (&number, (entry, copies)) in found.range(tail..).rev() {",
        "    let mut order: Vec<_> = found.range(tail..).rev().collect();\n    if MUTANT {\n        order.reverse();\n    }\n    for (&number, (entry, copies)) in order {",
    ),
    mutant(
        "staged: a start takes no notice of markers",
        "meta/staged.rs",
        "        let runs = unwritten(entry, &written);",
        "        if MUTANT && entry.crcs.is_empty() {\n            continue;\n        }\n        let runs = unwritten(entry, &written);",
    ),
    mutant(
        "staged: a new home is not noticed",
        "engine/staging/reclaim.rs",
        "self.homes += u64::from(lbas.peek().is_some());",
        "self.homes += u64::from(!MUTANT && lbas.peek().is_some());",
    ),
    mutant(
        "staged: a reclaim leaves the journal out",
        "engine/flow/journal.rs",
        "        self.range.journal.exists()\n            && job.journaled.entry.is_none()",
        "        self.range.journal.exists()\n            && !(MUTANT && job.work == crate::engine::work::Work::Reclaim)\n            && job.journaled.entry.is_none()",
    ),
    mutant(
        "copies: a write leaves them be",
        "engine/flow/copies.rs",
        "            Work::Write => {\n                for index",
        "            Work::Write if MUTANT => {}\n            Work::Write => {\n                for index",
    ),
    mutant(
        "copies: a discard leaves them be",
        "engine/flow/copies.rs",
        "            Work::Zero { .. }\n            | Work::Sync(_)",
        "            Work::Zero { .. } if MUTANT => {}\n            Work::Zero { .. }\n            | Work::Sync(_)",
    ),
    mutant(
        "copies: a member that was replaced has them still",
        "engine/copies.rs",
        "            if extent.member == Some(member) {",
        "            if !MUTANT && extent.member == Some(member) {",
    ),
    mutant(
        "copies: room is used anew that is being read or written",
        "engine/copies.rs",
        "filter(|oldest| oldest.pins == 0)?",
        "filter(|oldest| MUTANT || oldest.pins == 0)?",
    ),
    mutant(
        "copies: one that could not be written counts",
        "engine/copies.rs",
        "if well && extent.member.is_some()",
        "if (MUTANT || well) && extent.member.is_some()",
    ),
    mutant(
        "copies: one that made room for others counts",
        "engine/copies.rs",
        "            self.forget_those_of(number, first, blocks);\n            self.extents.pop_front();",
        "            if !MUTANT {\n                self.forget_those_of(number, first, blocks);\n            }\n            self.extents.pop_front();",
    ),
    mutant(
        "copies: of what was discarded",
        "engine/flow/copies.rs",
        "let stored = job.base == Base::Stored;",
        "let stored = MUTANT || job.base == Base::Stored;",
    ),
    mutant(
        "copies: one that can't be read is not read at home",
        "engine/flow/copies.rs",
        "job.pieces.push(piece);",
        "if !MUTANT {
            job.pieces.push(piece);
        }",
    ),
    mutant(
        "staged: who could not read one block is not asked for others",
        "engine/flow/staging.rs",
        "if piece.blocks > 1 {",
        "if !MUTANT && piece.blocks > 1 {",
    ),
    mutant(
        "staging device: what is on one member only is spared with it",
        "engine/staging/holders.rs",
        "self.has_devices() && self.loss(lost)",
        "!MUTANT && self.has_devices() && self.loss(lost)",
    ),
    mutant(
        "staging device: what is on one member only is in no hurry to come home",
        "engine/staging/reclaim.rs",
        "self.draining != Draining::No || self.is_thin() =>",
        "self.draining != Draining::No || !MUTANT && self.is_thin() =>",
    ),
    mutant(
        "staging device: its failure does not count for what is staged",
        "engine/membership/mod.rs",
        "*thin = thin.with(member);",
        "*thin = if MUTANT { *thin } else { thin.with(member) };",
    ),
    mutant(
        "staging device: that it is missing does not count for what is staged",
        "engine/flow/replay.rs",
        "membership.thin_staging(member);",
        "if !MUTANT {
                    membership.thin_staging(member);
                }",
    ),
    mutant(
        "staging device: its failure is over before all is at home",
        "engine/flow/reclaim.rs",
        "self.phase != Phase::Serving || self.range.staging.is_thin();",
        "!MUTANT && (self.phase != Phase::Serving || self.range.staging.is_thin());",
    ),
    mutant(
        "staging device: it and a member may be missing",
        "meta/assemble.rs",
        "        lost > 0\n            && absent",
        "        !MUTANT && lost > 0\n            && absent",
    ),
    mutant(
        "staging device: it takes part while it is being replaced",
        "engine/membership/mod.rs",
        "!m.unwritable && self.state(member) == SlotState::Up",
        "!m.unwritable && (self.state(member) == SlotState::Up || MUTANT && self.state(member) != SlotState::Failed)",
    ),
    mutant(
        "hang: members are given up that can't all be spared",
        "engine/flow/fault.rs",
        "if !self.can_spare_all(hung) {",
        "if !MUTANT && !self.can_spare_all(hung) {",
    ),
    mutant(
        "hang: nobody is given up",
        "engine/flow/fault.rs",
        "self.fail(member, Some(IoError::TimedOut), out);",
        "if !MUTANT { self.fail(member, Some(IoError::TimedOut), out); }",
    ),
    mutant(
        "hang: what a member took before it was one counts for nothing when the old one is given up",
        "engine/maps.rs",
        "&& membership.are_too_few(stored) {",
        "&& (!MUTANT || !stored.is_empty()) && membership.are_too_few(stored) {",
    ),
    mutant(
        "what was staged last and can't be read hides what it would have replaced",
        "meta/staged.rs",
        "        if is_lost && number >= complete {",
        "        if MUTANT && is_lost {
            written.extend(blocks_of(entry));
        }
        if is_lost && number >= complete {",
    ),
    mutant(
        "what a new staging device takes is acknowledged before it is on record",
        "engine/flow/closing.rs",
        "self.array.membership.recorder.acknowledge_after_next();",
        "if !MUTANT {
                self.array.membership.recorder.acknowledge_after_next();
            }",
    ),
    mutant(
        "a staging device that was being filled is missed",
        "engine/flow/replay.rs",
        "if member.index() >= self.layout.members() && was_up {",
        "if member.index() >= self.layout.members() && (MUTANT || was_up) {",
    ),
    mutant(
        "nobody starts without a staging device that is being filled",
        "meta/assemble.rs",
        "=> record.staging_thin.has(*place),",
        "=> MUTANT || record.staging_thin.has(*place),",
    ),
    mutant(
        "staged: who waits for room that nothing makes waits for ever",
        "engine/flow/reclaim.rs",
        "if self.range.staging.denies_room(self.array.membership.hung()) {",
        "if !MUTANT && self.range.staging.denies_room(self.array.membership.hung()) {",
    )
    .rare("The oldest block of a full log has to be lost: seed 50728625 found it, before durable degraded writes took a flush."),
    mutant(
        "staged: what can't be brought home at a start keeps all else from being read",
        "engine/flow/reclaim.rs",
        "            self.serve_reads_only(out);",
        "            if MUTANT {
                self.phase = Phase::Broken;
            } else {
                self.serve_reads_only(out);
            }",
    ),
    mutant(
        "staged: a start misses a device that was being filled",
        "meta/assemble.rs",
        "absent.any(|(_, slot)| slot.state == SlotState::Up)",
        "absent.any(|(_, slot)| {
                slot.state == SlotState::Up || MUTANT && slot.state != SlotState::Failed
            })",
    ),
    mutant(
        "staging device: what one refused that is needed is no reason to refuse writes",
        "engine/membership/mod.rs",
        "self.members.iter().any(|m| m.unwritable)",
        "let of_stripes = self.of_stripes();
        self.members.iter().enumerate().any(|(i, m)| m.unwritable && !(MUTANT && i >= of_stripes))",
    ),
    mutant(
        "staged: entries tell that those before them are on all holders",
        "engine/staging/entry.rs",
        "let first_open = self.first_open",
        "let first_open = (if MUTANT { number } else { self.first_open })",
    ),
    mutant(
        "log trim: what is void goes back to the SSDs before that is durable",
        "engine/staging/room.rs",
        "self.announced = self.announced.max(tail);",
        "self.announced = self.announced.max(tail);
        if MUTANT {
            for (place, ring) in self.rings.iter_mut().enumerate() {
                let used = ring.used();
                ring.free_before(tail, |_| ());
                self.trim.freed(place, used - ring.used());
            }
        }",
    ),
    mutant(
        "log trim: a block too many is discarded",
        "engine/flow/log_trim.rs",
        "self.issue(op, IoOp::Discard, at, blocks, out);",
        "self.issue(op, IoOp::Discard, at, blocks + u32::from(MUTANT), out);",
    ),
    mutant(
        "log trim: an entry gets room where a discard is under way",
        "engine/ring.rs",
        "self.discarded = Some(blocks);",
        "self.discarded = Some(blocks).filter(|_| !MUTANT);",
    ),
    mutant(
        "log trim: what stays as it is for the next start is discarded",
        "engine/flow/log_trim.rs",
        "&& membership.takes_writes();",
        "&& (MUTANT || membership.takes_writes());",
    ),
    mutant(
        "log: what was found at a start is discarded before it is at home",
        "engine/flow/log_trim.rs",
        "let may = self.phase == Phase::Serving &&",
        "let may = (MUTANT || self.phase == Phase::Serving) &&",
    ),
    mutant(
        "log: an entry goes to the start of a ring that is being discarded",
        "engine/ring.rs",
        "at_start = at_start.min(start);",
        "if !MUTANT { at_start = at_start.min(start); }",
    ),
    mutant(
        "staged beside: what was staged meanwhile counts as home",
        "engine/staging/reclaim.rs",
        "if !self.is_staged_since(before, lba) {",
        "if MUTANT || !self.is_staged_since(before, lba) {",
    ),
    mutant(
        "staged beside: of two writes at once the slower counts",
        "engine/staging/room.rs",
        "Kind::Data if self.is_staged_since(number, lba) =>",
        "Kind::Data if !MUTANT && self.is_staged_since(number, lba) =>",
    ),
    mutant(
        "staged beside: what was staged meanwhile comes home with what is planned anew",
        "engine/flow/reclaim.rs",
        "if number >= before ",
        "if !MUTANT && number >= before ",
    ),
    mutant(
        "staged beside: a write goes to the log beside one that goes home",
        "engine/jobs.rs",
        "holder.log.gathered.is_some() || holder.is_given_up()",
        "MUTANT || holder.log.gathered.is_some() || holder.is_given_up()",
    ),
    mutant(
        "staged beside: a copy is made of what was staged meanwhile",
        "engine/flow/copies.rs",
        "|lba| staging.is_dirty(lba)",
        "|lba| !MUTANT && staging.is_dirty(lba)",
    ),
    mutant(
        "staged beside: what is staged leaves copies that were made meanwhile",
        "engine/flow/store.rs",
        "if self.range.jobs[id].turn == Turn::Beside {
            // A read",
        "if !MUTANT && self.range.jobs[id].turn == Turn::Beside {
            // A read",
    ),
    mutant(
        "staged beside: what is staged beside makes redundancy agree",
        "engine/flow/align.rs",
        "Work::Write if job.asked.way == Way::Around => false,",
        "Work::Write if !MUTANT && job.asked.way == Way::Around => false,",
    ),
    mutant(
        "staged beside: a write that was denied room is staged",
        "engine/flow/store.rs",
        "if !able || job.error.is_some() {",
        "if !able || !MUTANT && job.error.is_some() {",
    )
    .rare("members have to be calm again in the step in which room is denied for good"),
];

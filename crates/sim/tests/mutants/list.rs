//! The mutants of the engine that are in no list of their own.

use crate::mutant::{Mutant, mutant};

pub(crate) const MUTANTS: &[Mutant] = &[
    // Operators.
    mutant(
        "a policy is answered before it is on record",
        "engine/fault.rs",
        "                self.set_policy(name);
                Ok(true)",
        "                self.set_policy(name);
                if MUTANT {
                    self.record_change(out);
                }
                Ok(!MUTANT)",
    ),
    // Reads of what a crash has left.
    mutant(
        "monotone: a read shows what the loss of a member takes back",
        "engine/align.rs",
        "            && !self.is_in_step(stripe)
",
        "            && !MUTANT
            && !self.is_in_step(stripe)
",
    ),
    mutant(
        "monotone: a read beside a writer shows what was not brought in step",
        "engine/request.rs",
        "in_line = in_doubt;",
        "in_line = !MUTANT && in_doubt;",
    ),
    mutant(
        "monotone: a copy that can't be read for a while is left as it is",
        "engine/io.rs",
        "if !job.mismatch && job.bad.is_empty() {",
        "if !job.mismatch && (MUTANT || job.bad.is_empty()) {",
    ),
    mutant(
        "monotone: a stripe is in step as soon as that is asked for",
        "engine/align.rs",
        "self.stripes.as_ref().is_some_and(|stripes| stripes.done.get(stripe.0))",
        "self.stripes.as_ref().is_some_and(|stripes| {
            stripes.done.get(stripe.0) || MUTANT && stripes.asked.get(stripe.0)
        })",
    ),
    mutant(
        "monotone: a stripe that could not be brought in step is not tried again",
        "engine/align.rs",
        "        if well {
",
        "        if MUTANT || well {
",
    ),
    // Writes that members have taken in part.
    mutant(
        "torn: redundancy that a failed write has left out of step is built upon",
        "engine/mod.rs",
        "} else if self.alignment.is_torn(stripe) {",
        "} else if !MUTANT && self.alignment.is_torn(stripe) {",
    ),
    mutant(
        "torn: the mark of such a stripe is cleared",
        "engine/intent.rs",
        "|| self.has_torn(region)",
        "|| !MUTANT && self.has_torn(region)",
    ),
    mutant(
        "torn: a stop is clean all the same",
        "engine/settle.rs",
        "&& self.alignment.torn().next().is_none();",
        "&& (MUTANT || self.alignment.torn().next().is_none());",
    ),
    mutant(
        "torn: what the journal has of a refused block is forgotten",
        "engine/journal.rs",
        "!self.journal.refused.is_empty() =>",
        "!MUTANT && !self.journal.refused.is_empty() =>",
    ),
    mutant(
        "torn: a block that is older than the journal's is read",
        "engine/mod.rs",
        "readable.minus(self.alignment.behind(stripe))",
        "if MUTANT { readable } else { readable.minus(self.alignment.behind(stripe)) }",
    ),
    // What fails in one phase.
    mutant(
        "phases: a staged write that a member could not store counts as stored",
        "engine/staging/store.rs",
        "            && !self.write_failed(member, why, out)
        {
            self.jobs[id].error = Some(RequestError::Io);",
        "            && !MUTANT
            && !self.write_failed(member, why, out)
        {
            self.jobs[id].error = Some(RequestError::Io);",
    ),
    mutant(
        "phases: a page that no member has stored counts",
        "engine/intent.rs",
        "        if stored > 0 {
            self.map(kind).stored",
        "        if MUTANT || stored > 0 {
            self.map(kind).stored",
    ),
    mutant(
        "phases: a flush is answered before a failure is on record",
        "engine/flush.rs",
        "                Some(record) => self.flusher.recording.push((record, tag)),
",
        "                Some(_) if MUTANT => self.complete(tag, None, out),
                Some(record) => self.flusher.recording.push((record, tag)),
",
    ),
    mutant(
        "phases: a stripe becomes real before a failure is on record",
        "engine/job.rs",
        "        if let Some(ticket) = self.recorder.unrecorded_failure() {
            self.wait_for_record(id, ticket);
            return Stage::Unzero;
",
        "        if let Some(ticket) = self.recorder.unrecorded_failure().filter(|_| !MUTANT) {
            self.wait_for_record(id, ticket);
            return Stage::Unzero;
",
    ),
    mutant(
        "phases: a stripe becomes real though the flush has failed",
        "engine/job.rs",
        "        if self.flusher.has_failed() {
            self.jobs[id].error",
        "        if !MUTANT && self.flusher.has_failed() {
            self.jobs[id].error",
    ),
    mutant(
        "phases: a stop is clean though its flush has failed",
        "engine/settle.rs",
        "self.recorder.record.clean = !self.flusher.has_failed() && home;",
        "self.recorder.record.clean = (MUTANT || !self.flusher.has_failed()) && home;",
    ),
    mutant(
        "phases: the entry of a write that failed counts as home",
        "engine/intent.rs",
        "job.entry.take().filter(|_| !failed)",
        "job.entry.take().filter(|_| MUTANT || !failed)",
    ),
    // Detours.
    mutant(
        "reads go around members although redundancy may not agree",
        "engine/place.rs",
        "let redundant = parity == Parity::InStep &&",
        "let redundant = (MUTANT || parity == Parity::InStep) &&",
    )
    .rare(
        "The first read of a stripe in doubt brings it in step before it is planned; only where \
         that is impossible can it go around a member by redundancy that does not agree.",
    ),
    mutant(
        "hedge: a read that was given up writes to memory that it does not own any more",
        "engine/job.rs",
        "if self.is_given_up(id) ||",
        "if !MUTANT && self.is_given_up(id) ||",
    ),
    mutant(
        "hedge: a read that is tried again goes to memory that may be given back before it ends",
        "engine/staging/fetch.rs",
        "let alone = job.avoids.is_empty();",
        "let alone = MUTANT || job.avoids.is_empty();",
    ),
    mutant(
        "beside: a read of what is being written",
        "engine/locking.rs",
        "write.role != read.role\n",
        "MUTANT || write.role != read.role\n",
    ),
    mutant(
        "beside: a read builds on redundancy that is being written",
        "engine/planning.rs",
        "if self.jobs[id].beside && !self.reads_home(id, readable) {",
        "if !MUTANT && self.jobs[id].beside && !self.reads_home(id, readable) {",
    ),
    mutant(
        "beside: a write takes over another of what is being read",
        "engine/planning.rs",
        "self.jobs[id].work == Work::Write && !self.locks.is_shared(stripe) {",
        "self.jobs[id].work == Work::Write && (MUTANT || !self.locks.is_shared(stripe)) {",
    ),
    mutant(
        "beside: a write mends what is being read",
        "engine/locking.rs",
        "job.is_exclusive() && !job.bad.is_empty()",
        "!MUTANT && job.is_exclusive() && !job.bad.is_empty()",
    ),
    mutant(
        "beside: a read of what is being mended",
        "engine/locking.rs",
        "_ if !writer.bad.is_empty() => false,",
        "_ if !MUTANT && !writer.bad.is_empty() => false,",
    ),
    mutant(
        "a detour leads over who has failed",
        "engine/place.rs",
        "let calm = readable.minus(busy);",
        "let calm = if MUTANT { Set::first(self.geo.members()) } else { readable }.minus(busy);",
    ),
    mutant(
        "a detour is taken again over what could not be read",
        "engine/place.rs",
        "let first_try = job.bad.is_empty();",
        "let first_try = MUTANT || job.bad.is_empty();",
    ),
    // Flushes.
    mutant(
        "bits are cleared whatever the flush came to",
        "engine/flush.rs",
        "!self.flusher.last.failed && self.recorder.unrecorded_failure().is_none()",
        "MUTANT || !self.flusher.last.failed && self.recorder.unrecorded_failure().is_none()",
    ),
    mutant(
        "flushes that fail are taken for good",
        "engine/flush.rs",
        "self.flusher.round.failed |= !kept;",
        "self.flusher.round.failed |= !MUTANT && !kept;",
    ),
    mutant(
        "a round under way serves who asks during it",
        "engine/flush.rs",
        "        let ticket = self.flusher.started + 1;
        if self.flusher.outstanding > 0 {",
        "        let ticket = self.flusher.started + 1;
        if MUTANT && self.flusher.outstanding > 0 {
            return self.flusher.started;
        }
        if self.flusher.outstanding > 0 {",
    ),
    mutant(
        "a user's flush is served by a round under way",
        "engine/flush.rs",
        "self.flusher.users.push((self.flusher.started + 1, tag));",
        "let busy = self.flusher.outstanding > 0;
        self.flusher.users.push((self.flusher.started + u64::from(!(MUTANT && busy)), tag));",
    ),
    // Jobs.
    mutant(
        "a discarded stripe becomes real before it is flushed",
        "engine/job.rs",
        "        self.wait_for_flush(id, ticket);
        Stage::Unzero",
        "        if !MUTANT {
            self.wait_for_flush(id, ticket);
        }
        Stage::Unzero",
    ),
    mutant(
        "a stripe that is written stays discarded",
        "engine/job.rs",
        "self.zero.map.clear(stripe.0);",
        "if !MUTANT {
            self.zero.map.clear(stripe.0);
        }",
    ),
    mutant(
        "writes that a member missed end before that is on record",
        "engine/job.rs",
        "let writes = self.jobs[id].work != Work::Read;",
        "let writes = !MUTANT && self.jobs[id].work != Work::Read;",
    )
    .rare("Who had failed before a write is on record before it goes home; only a failure amid the write is left."),
    mutant(
        "a merged write forgets FUA",
        "engine/planning.rs",
        "job.fua |= fua;",
        "job.fua |= fua && !MUTANT;",
    ),
    mutant(
        "unsynced mirrors are read from any copy",
        "engine/planning.rs",
        "if !self.is_in_step(stripe) {",
        "if !MUTANT && !self.is_in_step(stripe) {",
    ),
    mutant(
        "locks are shared by writers",
        "engine/job.rs",
        "        self.work != Work::Read
    }",
        "        self.work != Work::Read && !(MUTANT && self.work == Work::Write)
    }",
    ),
    mutant(
        "a scratch buffer is not given back",
        "engine/job.rs",
        "self.scratch.release(job.buffers[role]);",
        "if !(MUTANT && role == 0) {
                self.scratch.release(job.buffers[role]);
            }",
    ),
    // Members.
    mutant(
        "parity is always believed",
        "engine/mod.rs",
        "if self.is_in_step(stripe) {",
        "if MUTANT || self.is_in_step(stripe) {",
    ),
    mutant(
        "a spare is read in a member's place",
        "engine/io.rs",
        "(member, at, source.is_some() && readable.has(io.role.index()))",
        "(member, at, source.is_some() && (MUTANT || readable.has(io.role.index())))",
    )
    .rare("A member has to be replaced while a job that has planned to read it waits for buffers."),
    mutant(
        "FUA does not reach the members",
        "engine/io.rs",
        "self.issue(op, IoOp::Write { from, fua }, at, io.blocks, out);",
        "self.issue(op, IoOp::Write { from, fua: fua && !MUTANT }, at, io.blocks, out);",
    ),
    mutant(
        "writes go on when a member that can't be spared misses them",
        "engine/fault.rs",
        "(!self.impaired || of_stripes.iter().all(|m| !m.unwritable))",
        "(MUTANT || !self.impaired || of_stripes.iter().all(|m| !m.unwritable))",
    ),
    mutant(
        "a member that can't be recorded becomes one",
        "engine/background.rs",
        "if self.maps_are_spread() && !self.recorder.is_broken() {",
        "if self.maps_are_spread() && (MUTANT || !self.recorder.is_broken()) {",
    ),
    mutant(
        "more members are spared than can be",
        "engine/fault.rs",
        "others.len() >= self.geo.members() - self.geo.redundancy()",
        "others.len() + usize::from(MUTANT) >= self.geo.members() - self.geo.redundancy()",
    ),
    mutant(
        "another device inherits what was filled",
        "engine/fault.rs",
        "        self.flusher.restart(member);
",
        "        if !MUTANT {
            self.flusher.restart(member);
        }
",
    )
    .rare("A second device has to be filled, and the power to fail, before its first flush is over."),
    // Background work.
    mutant(
        "a stripe counts as rebuilt when it is begun",
        "engine/background.rs",
        "Some(pass) if pass.fills(MemberId(member as u8)) => pass.progress.has(stripe.0),",
        "Some(pass) if pass.fills(MemberId(member as u8)) => {
                if MUTANT { stripe.0 < pass.next } else { pass.progress.has(stripe.0) }
            }",
    ),
    mutant(
        "the watermark is recorded before the flush",
        "engine/settle.rs",
        "let flushed = self.flusher.rebuilt(member);",
        "let now = self.background.rebuilt_to().nth(member.index()).unwrap_or(0);
        let flushed = if MUTANT { now } else { self.flusher.rebuilt(member) };",
    ),
    mutant(
        "a rebuilt member lacks the maps",
        "engine/background.rs",
        "self.spread_maps();",
        "if !MUTANT {
                        self.spread_maps();
                    }",
    ),
    mutant(
        "a resync leaps over stripes under way",
        "engine/background.rs",
        "if pass.in_flight > 0 {
                    return None;",
        "if !MUTANT && pass.in_flight > 0 {
                    return None;",
    ),
    mutant(
        "a rebuild ends one stripe early",
        "engine/background.rs",
        "            | PassKind::Scrub { .. } => pass.progress.base >= pass.total,",
        "            | PassKind::Scrub { .. } => {
                pass.progress.base + u64::from(MUTANT) >= pass.total
            }",
    ),
    mutant(
        "what a scrub has corrected is not flushed",
        "engine/background.rs",
        "let corrects = kind == PassKind::Scrub { repair: true } && pass.found.rows > 0;",
        "let corrects =
            !MUTANT && kind == PassKind::Scrub { repair: true } && pass.found.rows > 0;",
    ),
    mutant(
        "what a resync has made agree is not flushed",
        "engine/background.rs",
        "(_, Closing::No) => {",
        "(PassKind::Resync, Closing::No) if MUTANT => self.end_pass(kind, out),
            (_, Closing::No) => {",
    ),
    mutant(
        "a stop is recorded while I/O is under way",
        "engine/settle.rs",
        "if self.ops.occupied() == 0
                    && self.maps_are_spread()",
        "if (MUTANT || self.ops.occupied() == 0)
                    && self.maps_are_spread()",
    ),
    mutant(
        "a scrub believes the data although redundancy tells",
        "plan/locate.rs",
        "Culprit::Data(index) => (Set::one(index), true),",
        "Culprit::Data(_) if MUTANT => (p_alone.or(q_alone), true),
                Culprit::Data(index) => (Set::one(index), true),",
    ),
    // Metadata.
    mutant(
        "all copies of the superblock are written at once",
        "engine/record.rs",
        "        self.store_copies([0, 1], out);
    }

    fn store_copies",
        "        self.store_copies([0, 1], out);
        if MUTANT && self.recorder.outstanding > 0 {
            self.recorder.second_round = true;
            self.store_copies([2, 3], out);
        }
    }

    fn store_copies",
    )
    .rare("A crash has to tear three copies of a member's superblock that redundancy needs."),
    mutant(
        "a start does not level the records first",
        "engine/record.rs",
        "if let Some(assembled) = self.recorder.assembled.take() {",
        "if let Some(assembled) = self.recorder.assembled.take().filter(|_| !MUTANT) {",
    ),
    mutant(
        "a record that nobody has stored is the last, though another one is to be stored",
        "engine/record.rs",
        "if !kept && changed && !self.recorder.broken {",
        "if !MUTANT && !kept && changed && !self.recorder.broken {",
    ),
    mutant(
        "a stop is answered while something is still to be recorded",
        "engine/record.rs",
        "if !(changed && self.phase == Phase::Stopped) {",
        "if MUTANT || !(changed && self.phase == Phase::Stopped) {",
    ),
    mutant(
        "failed members that come back are taken for current",
        "meta/assemble.rs",
        "|slot: &super::SlotRecord| slot.device == device && slot.state != SlotState::Failed;",
        "|slot: &super::SlotRecord| {
                    slot.device == device && (MUTANT || slot.state != SlotState::Failed)
                };",
    )
    .rare("Whoever has failed lags by more than a change, too, so the check of the lag leaves it out."),
    mutant(
        "a map's page overwrites its last version",
        "meta/layout.rs",
        "Pba(start + 2 * u64::from(index) + version % 2)",
        "Pba(start + 2 * u64::from(index) + if MUTANT { 0 } else { version % 2 })",
    )
    .rare("All members have to tear the same page."),
    mutant(
        "torn entries are carried out",
        "meta/journal.rs",
        "Some(sum) if sum == crc => {}",
        "Some(sum) if MUTANT || sum == crc => {}",
    ),
    // Planner.
    mutant(
        "Q is not kept",
        "plan/write.rs",
        "let q = self.geo.q().filter(|q| parities.has(q.index()))",
        "let q = self.geo.q().filter(|q| !MUTANT && parities.has(q.index()))",
    ),
    mutant(
        "parity that is out of step is carried on",
        "plan/write.rs",
        "let in_step = self.health.parity == Parity::InStep;",
        "let in_step = MUTANT || self.health.parity == Parity::InStep;",
    ),
    mutant(
        "what could not be read is not rewritten with its parity",
        "plan/write.rs",
        "WriteKind::Survivors => data.and(self.health.writable).minus(self.band.readable),",
        "WriteKind::Survivors if MUTANT => Set::EMPTY,
            WriteKind::Survivors => data.and(self.health.writable).minus(self.band.readable),",
    )
    .rare(
        "Blocks have to be unreadable right where a write goes that needs them. Seed 25,642 finds \
         it.",
    ),
    mutant(
        "what Q brings back is not unscaled",
        "plan/recover.rs",
        "plan.step(Step::Unscale { dst, index: x as u8 }, blocks);",
        "if !MUTANT {
            plan.step(Step::Unscale { dst, index: x as u8 }, blocks);
        }",
    ),
    // Requests and locks.
    mutant(
        "a part's error is forgotten",
        "engine/request.rs",
        "slot.error = slot.error.or(error);",
        "slot.error = slot.error.or(error).filter(|_| !MUTANT);",
    ),
    mutant(
        "who waits for a lock is not told",
        "locks.rs",
        "            granted(first);",
        "            if !(MUTANT && waiter.exclusive) {
                granted(first);
            }",
    ),
    mutant(
        "a device that has lost what nobody knows of catches up",
        "engine/fault.rs",
        "None if known && why != Some(IoError::Shrunk) =>",
        "None if known && (MUTANT || why != Some(IoError::Shrunk)) =>",
    ),
];

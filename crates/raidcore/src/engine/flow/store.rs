//! Jobs put writes into the staging log.

use alloc::vec::Vec;
use core::mem;

use crate::engine::array::Array;
use crate::engine::flight::{Flight, Owner};
use crate::engine::job::Job;
use crate::engine::maps::Bit;
use crate::engine::range::Range;
use crate::engine::stage::{Stage, Turn};
use crate::engine::staging::{Run, Size};
use crate::engine::steering::{Redirect, Way};
use crate::engine::wait::Wait;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoId, IoOp, JobId, Phase, RequestError};
use crate::geometry::{Geometry, Role};
use crate::meta::{Consistency, MapKind};
use crate::plan::Piece;
use crate::units::{Lba, Mem, MemberId, Pba, Set, Stripe};

impl Engine {
    /// Whether a job writes over what is staged.
    pub(in super::super) fn covers(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        if !self.range.staging.concerns(job.stripe) {
            return false;
        }
        let staged = |lba| self.range.staging.is_staged(lba);
        match job.work {
            Work::Write => job.pieces.iter().any(|piece| self.lbas_of(id, piece).any(staged)),
            Work::Zero { .. } => {
                let geo = self.layout.of(job.stripe);
                geo.lbas(job.stripe, Role(0), 0, geo.stripe_blocks()).any(staged)
            }
            Work::Read
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => false,
        }
    }

    pub(super) fn lbas_of(&self, id: JobId, piece: &Piece) -> impl Iterator<Item = Lba> + use<> {
        let stripe = self.range.jobs[id].stripe;
        self.layout.of(stripe).lbas(stripe, piece.role, piece.row, piece.blocks)
    }

    /// Whether a write that was planned is to be staged instead, by the policy. It is `late` if it has read old data to
    /// go home.
    pub(in super::super) fn is_to_be_staged(&mut self, id: JobId, late: bool) -> bool {
        let job = &self.range.jobs[id];
        let able = self.range.staging.is_open()
            && self.phase == Phase::Serving
            && (self.array.steering.may_stage()
                || job.log.covers
                || self.array.background.rebuilds());
        // One that was denied room has failed.
        if !able || job.error.is_some() {
            return false;
        }
        let redirect = self.redirect(id, late);
        let wanted = self.array.steering.stages(self.now, redirect);
        let Some(wanted) = wanted else { return false };
        let staged = wanted && self.has_room_for(id);
        let (now, asked) = (self.now, &mut self.range.jobs[id].asked);
        asked.way = match staged {
            true => Way::Around,
            false if redirect.busy => Way::Home,
            false => Way::Calm,
        };
        asked.late = (late && asked.way != Way::Calm).then_some(now);
        staged
    }

    /// Whether a write may be one that the log takes, before it has its lock.
    pub(super) fn may_be_staged(&self, stripe: Stripe) -> bool {
        self.range.staging.is_open()
            && self.phase == Phase::Serving
            && (self.array.steering.may_stage() || self.range.staging.concerns(stripe))
    }

    /// Plans a write beside others, which goes to the log or waits for them.
    pub(super) fn plan_beside(&mut self, id: JobId) -> Stage {
        self.range.jobs[id].log.covers = self.covers(id);
        let saved = self.layout.is_saved(self.range.jobs[id].stripe);
        let able = self.array.membership.takes_writes() && !saved;
        if able && self.is_to_be_staged(id, false) {
            Stage::Store
        } else {
            self.range.jobs.fall_in(id)
        }
    }

    /// Whether there is room in the log for a job's pieces.
    pub(super) fn has_room_for(&mut self, id: JobId) -> bool {
        let size = Size::of(&self.range.jobs[id].pieces);
        let (calm, burden) = calm_and_burden(&self.array);
        let room = self.range.staging.has_room(size, calm, burden);
        self.array.counters.staging_full += u64::from(!room);
        room
    }

    /// The busy members that a write as it is planned would have to wait for.
    fn write_waits_for(&self, id: JobId) -> Set<MemberId> {
        let (job, busy) = (&self.range.jobs[id], self.array.steering.busy());
        if busy.is_empty() {
            return busy;
        }
        if job.turn == Turn::Beside {
            let parities = self.layout.of(job.stripe).spare_roles();
            let roles = parities.chain(job.pieces.iter().map(|piece| piece.role));
            let members: Set<_> = roles.map(|role| self.layout.member(job.stripe, role)).collect();
            return members.and(busy);
        }
        let region = self.areas.region(job.stripe);
        let (maps, membership) = (&self.range.maps, &self.array.membership);
        let mut waits = Set::EMPTY;
        if self.needs_mark(id) {
            waits = maps.set_waits_for(Bit(MapKind::Bitmap, region), membership, busy);
        }
        if self.notes_missed() {
            waits = waits.or(maps.set_waits_for(Bit(MapKind::Missed, region), membership, busy));
        }
        let touched = job.plan.reads.iter().chain(&job.plan.writes);
        let members: Set<_> = touched.map(|io| self.layout.member(job.stripe, io.role)).collect();
        waits.or(members.and(busy))
    }

    /// What the policy is asked about.
    pub(super) fn redirect(&self, id: JobId, late: bool) -> Redirect {
        let job = &self.range.jobs[id];
        let busy = |role: Role| self.array.steering.is_busy(self.layout.member(job.stripe, role));
        Redirect {
            blocks: job.piece_blocks(),
            data_busy: job.pieces.iter().any(|piece| busy(piece.role)),
            busy: !self.write_waits_for(id).is_empty(),
            rebuilds: self.array.background.rebuilds(),
            staged: job.log.covers,
            late,
            journaled: self.array.membership.record().consistency == Consistency::Journal,
            used: self.staging_used(),
        }
    }

    /// Makes sure that there will be room for a marker. If there is none, the job gives its lock
    /// back and waits: the room may have to be made by bringing its own stripe home.
    pub(in super::super) fn promise_marker(&mut self, id: JobId) -> bool {
        if self.range.jobs[id].log.promised {
            return true;
        }
        if self.range.staging.promise_marker(self.array.membership.able()) {
            self.range.jobs[id].log.promised = true;
            return true;
        }
        self.range.jobs.unlock(id);
        self.range.jobs.wait(id, Wait::Staging);
        false
    }

    /// Writes a job's pieces to the log instead of to their stripe.
    pub(in super::super) fn store(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &mut self.range.jobs[id];
        job.hedge.patience = None;
        // The entry of one that goes home, too, has its number before anything can be seen there.
        let gathers = job.hedge.twin.is_none();
        match gathers && self.store_later(id, out) {
            true => Stage::Store,
            false => self.store_alone(id, out),
        }
    }

    /// Does that at once, in an entry with a header of its own.
    pub(super) fn store_alone(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let size = Size::of(&self.range.jobs[id].pieces);
        let Some(holders) = self.holders_for(size) else {
            if self.range.jobs.leave_to_twin(id) {
                return Stage::Finish;
            }
            // It goes home after all.
            let job = &mut self.range.jobs[id];
            (job.asked.way, job.asked.late) = (Way::Home, None);
            return match job.turn {
                Turn::Beside => self.range.jobs.fall_in(id),
                Turn::Any | Turn::InLine => Stage::Plan,
            };
        };
        self.store_on(&[id], holders, out);
        Stage::Record
    }

    /// Writes jobs' pieces to the log, on these holders, in entries that share a header if they are several.
    pub(super) fn store_on(
        &mut self,
        ids: &[JobId],
        holders: Set<MemberId>,
        out: &mut Vec<Action>,
    ) {
        for &id in ids {
            let around = self.write_waits_for(id);
            around.for_each(|member| self.array.membership.avoid_write(member));
        }
        let Range { staging, jobs, .. } = &mut self.range;
        let first = staging.begin_data(self.now, ids.len(), holders, |index, runs| {
            let job = &jobs[ids[index]];
            add_runs(job, self.layout.of(job.stripe), runs);
            job.stripe
        });
        let mut blocks = 0;
        for (index, &id) in ids.iter().enumerate() {
            let number = first + index as u64;
            let job = &mut self.range.jobs[id];
            job.log.staged = Some(number);
            job.log.beside = ids.get(index + 1).copied();
            blocks += job.asked.blocks;
            self.keep_staged(id, number, out);
        }
        self.write_staged(ids, first, out);
        self.array.counters.staged_writes += ids.len() as u64;
        self.array.counters.staged_together += ids.len() as u64 - 1;
        self.wait_for_entry(ids[0], blocks);
    }

    /// Says that what a job has written at home counts, and not what is staged.
    pub(in super::super) fn invalidate_staged(
        &mut self,
        id: JobId,
        out: &mut Vec<Action>,
    ) -> Stage {
        let job = &self.range.jobs[id];
        if !job.log.covers || job.error.is_some() {
            return Stage::Record;
        }
        // A member that failed and came back would show what it held before.
        if let Some(ticket) = self.array.membership.recorder.unrecorded_failure() {
            self.wait_for_record(id, ticket);
            return Stage::Invalidate;
        }
        let Array { membership, steering, .. } = &self.array;
        let leaving = membership.succession().is_some();
        let tiers = steering.tiers(membership.able());
        let holders = self.range.staging.holders_for_note(tiers, leaving);
        if holders.is_empty() || !membership.takes_writes() {
            self.range.jobs[id].error = Some(RequestError::Io);
            return Stage::Record;
        }
        let Range { staging, jobs, .. } = &mut self.range;
        let job = &mut jobs[id];
        let number = staging.begin_marker(holders, |runs| {
            add_runs(job, self.layout.of(job.stripe), runs);
            job.stripe
        });
        (job.log.staged, job.log.beside) = (Some(number), None);
        self.write_staged(&[id], number, out);
        Stage::Record
    }

    /// Writes entries that jobs have begun, the first of which has this number.
    fn write_staged(&mut self, ids: &[JobId], number: u64, out: &mut Vec<Action>) {
        let (places, blocks) = self.range.staging.places(number);
        let owner = Owner::Staged { job: ids[0], number };
        let begun = self.store_entry(owner, places, blocks, out);
        self.range.staging.begin_copies(number, begun);
        for &id in ids {
            self.range.jobs[id].outstanding += begun.len() as u32;
        }
    }

    /// Writes an entry to those of these members that are there, and tells which they are.
    fn store_entry(
        &mut self,
        owner: Owner,
        places: impl Iterator<Item = (MemberId, Pba)>,
        blocks: u32,
        out: &mut Vec<Action>,
    ) -> Set<MemberId> {
        let mut begun = Set::EMPTY;
        for (member, at) in places {
            let Some(device) = self.array.membership.live_device(member) else { continue };
            begun = begun.with(member);
            let op = Flight::new(owner, Some(member), device);
            self.issue(op, IoOp::Journal, at, blocks, out);
        }
        begun
    }

    /// A job waits for its entry of so many blocks, perhaps not for ever.
    fn wait_for_entry(&mut self, id: JobId, blocks: u32) {
        if let Some(patience) = self.array.steering.write_patience(self.now, blocks) {
            self.range.patience.wait(self.now + patience, id);
        }
    }

    /// Writes an entry to others, too, that has not come to all of its holders in time.
    pub(in super::super) fn store_elsewhere(
        &mut self,
        id: JobId,
        number: u64,
        out: &mut Vec<Action>,
    ) {
        let (calm, burden) = calm_and_burden(&self.array);
        let calm = calm.minus(self.array.membership.hung());
        let others = self.range.staging.begin_others(number, calm, burden);
        if others.is_empty() {
            return;
        }
        self.array.counters.hedged_writes += 1;
        let blocks = self.range.staging.places(number).1;
        self.store_entry(Owner::Staged { job: id, number }, others.into_iter(), blocks, out);
        self.wait_for_entry(id, blocks);
    }

    pub(in super::super) fn staged_done(
        &mut self,
        (id, number): (JobId, u64),
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let Some(member) = op.member else { return };
        let mut refused = false;
        if let (Err(why), true) = (result, self.array.membership.is_current(&op)) {
            let waited_for = self.range.staging.is_waited_for(number);
            if waited_for || why.is_final() || self.can_spare(member) {
                refused = !self.write_failed(member, why, out);
            } else {
                // Nothing is lost with what comes late.
                self.array.membership.count_write_error(member);
            }
        }
        if !self.range.staging.copy_ended(number, member) {
            return;
        }
        let mut next = Some(id);
        while let Some(id) = next {
            let job = &mut self.range.jobs[id];
            next = job.log.beside;
            if refused {
                job.error = Some(RequestError::Io);
            }
            self.range.jobs.one_done(id);
        }
    }

    /// A job does not need room for a marker any more.
    pub(in super::super) fn break_promise(&mut self, id: JobId) {
        if mem::take(&mut self.range.jobs[id].log.promised) {
            self.range.staging.redeem_marker();
        }
    }

    /// A job ends that may have staged something, or written over it.
    pub(in super::super) fn end_staging(&mut self, id: JobId) {
        self.unpin(id);
        self.break_promise(id);
        if self.range.jobs[id].work == Work::Reclaim {
            self.reclaimed(id);
        }
        let staged = self.range.jobs[id].log.staged.take();
        // What has failed may be found after a crash, or not; but then no write is taken any more.
        let stored = staged.filter(|_| self.range.jobs[id].error.is_none());
        if staged.is_some() {
            self.range.staging.unblock();
        }
        let Some(number) = stored else { return self.let_go(id) };
        if self.range.jobs[id].turn == Turn::Beside {
            // A read beside it may have made some.
            self.forget_copies(id);
        }
        let Range { staging, jobs, .. } = &mut self.range;
        let (staged, again) = staging.stored(number, &jobs[id].kept, &self.layout);
        jobs[id].kept.clear();
        self.array.counters.staged_blocks += u64::from(staged);
        self.array.counters.staged_again += u64::from(again);
        self.tail_is_durable(number);
    }

    /// An entry is durable that tells the tail.
    fn tail_is_durable(&mut self, number: u64) {
        let membership = &self.array.membership;
        let leaving = membership.succession().map(|s| (s.member, membership.able()));
        self.range.staging.advance(number, leaving, &self.layout);
        self.wake_staging();
    }

    /// Records the tail, if that frees something that is wanted.
    pub(super) fn tell_tail(&mut self, out: &mut Vec<Action>) {
        if !self.range.staging.has_tail_to_tell() {
            return;
        }
        let Array { membership, steering, .. } = &self.array;
        let leaving = membership.succession().is_some();
        let begun = self.range.staging.begin_tail(steering.tiers(membership.able()), leaving);
        if let Some(number) = begun {
            let (places, blocks) = self.range.staging.places(number);
            self.store_entry(Owner::StagedTail, places, blocks, out);
        }
    }

    pub(in super::super) fn staged_tail_done(
        &mut self,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        if let (Err(why), Some(member), true) =
            (result, op.member, self.array.membership.is_current(&op))
        {
            self.write_failed(member, why, out);
        }
        let Some(number) = self.range.staging.tail_stored() else { return };
        // A member that failed could come back, without the entry, until its failure is on record.
        if self.array.membership.recorder.unrecorded_failure().is_none()
            && self.array.membership.takes_writes()
        {
            self.tail_is_durable(number);
        }
    }

    /// The entry that an I/O writes, if it is one of the staging log's.
    pub(in super::super) fn staged_entry(&self, io: IoId) -> Option<u64> {
        match self.array.flights.get(io).owner {
            Owner::Staged { number, .. } => Some(number),
            Owner::StagedTail => self.range.staging.telling(),
            Owner::Read { .. }
            | Owner::ReadAtOnce { .. }
            | Owner::Write { .. }
            | Owner::Discard { .. }
            | Owner::TrimSpare
            | Owner::TrimLog
            | Owner::Clear
            | Owner::Entry { .. }
            | Owner::Tail { .. }
            | Owner::Fetch { .. }
            | Owner::Copy { .. }
            | Owner::Page { .. }
            | Owner::Popularity
            | Owner::Superblock
            | Owner::Vacate
            | Owner::Flush => None,
        }
    }
}

/// The members that are not busy, which entries are written to, and how much each has to do.
pub(super) fn calm_and_burden(array: &Array) -> (Set<MemberId>, impl Fn(MemberId) -> u32 + '_) {
    let Array { membership, steering, flights, .. } = array;
    let calm = membership.able().minus(steering.busy());
    (calm, |member| steering.burden(member, flights.of(member)))
}

/// Appends a job's pieces without what earlier pieces cover.
fn add_runs(job: &Job, geo: &Geometry, runs: &mut Vec<Run>) {
    if let Work::Zero { .. } = job.work {
        let whole = |role| Run { role, row: 0, blocks: geo.chunk(), mem: Mem::Zero };
        runs.extend(geo.data_roles().map(whole));
        return;
    }
    for (index, piece) in job.pieces.iter().enumerate() {
        let covered = |row: u32| {
            let covers = |p: &Piece| p.row <= row && row < p.row + p.blocks;
            job.pieces[..index].iter().any(|p| p.role == piece.role && covers(p))
        };
        let mut open = false;
        for offset in 0..piece.blocks {
            let row = piece.row + offset;
            if job.asked.tags.len() > 1 && covered(row) {
                open = false;
            } else if let Some(last) = runs.last_mut().filter(|_| open) {
                last.blocks += 1;
            } else {
                let mem = piece.mem.plus(offset);
                runs.push(Run { role: piece.role, row, blocks: 1, mem });
                open = true;
            }
        }
    }
}

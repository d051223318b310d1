//! Jobs put writes into the staging log.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::stage::Stage;
use crate::engine::staging::store::{RESERVE, SHARE};
use crate::engine::staging::{Entry, Kind, Run};
use crate::engine::steering::{Redirect, Way};
use crate::engine::wait::Wait;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoId, IoOp, JobId, Phase, RequestError};
use crate::geometry::Role;
use crate::meta::{self, JournalHeader, JournalRun, Log};
use crate::plan::Piece;
use crate::units::{Lba, Mem, MemberId, Pba, Set, Stripe};

impl Engine {
    /// Whether a job writes over what is staged.
    pub(in super::super) fn covers(&self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        if !self.range.staging.concerns(job.stripe) {
            return false;
        }
        let staged = |lba| self.range.staging.table.get(lba).is_some();
        match job.work {
            Work::Write => job.pieces.iter().any(|piece| self.lbas_of(id, piece).any(staged)),
            Work::Zero { .. } => {
                let geo = self.geo.of(job.stripe);
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
        self.geo.of(stripe).lbas(stripe, piece.role, piece.row, piece.blocks)
    }

    /// How many blocks of a ring an entry of a job's pieces takes at most.
    fn staged_blocks(&self, id: JobId) -> u64 {
        let (job, blocks) = (&self.range.jobs[id], self.range.jobs[id].piece_blocks());
        u64::from(meta::journal_header_blocks(blocks, job.pieces.len() as u32) + blocks)
    }

    /// Whether a write that was planned is to be staged instead, by the policy.
    pub(in super::super) fn is_to_be_staged(&mut self, id: JobId) -> bool {
        let job = &self.range.jobs[id];
        let calm = self.array.steering.policy.as_ref().is_some_and(|policy| policy.stages_calm());
        let able = self.range.staging.exists()
            && !self.range.staging.draining
            && self.phase == Phase::Serving
            && (calm
                || !self.array.steering.busy.is_empty()
                || job.log.covers
                || self.array.background.rebuilds());
        if !able {
            return false;
        }
        let redirect = self.redirect(id);
        if !redirect.busy && !redirect.staged && !redirect.rebuilds && !calm {
            return false;
        }
        let Some(mut policy) = self.array.steering.policy.take() else { return false };
        let wanted = policy.stages(self.now, redirect);
        self.array.steering.policy = Some(policy);
        let home = if redirect.busy { Way::Home } else { Way::Calm };
        self.range.jobs[id].way = if wanted { Way::Around } else { home };
        if !wanted {
            return false;
        }
        let (payload, blocks) = (redirect.blocks as usize, self.staged_blocks(id));
        let room = self.range.staging.payload + payload <= self.range.staging.table.capacity()
            && blocks <= self.range.staging.len / SHARE
            && self.holders_for(blocks + RESERVE, self.array.steering.busy).is_some();
        self.array.counters.staging_full += u64::from(!room);
        self.range.staging.starved |= !room && self.range.staging.dirty() > 0;
        if !room {
            self.range.jobs[id].way = home;
        }
        room
    }

    /// The busy members that a write as it is planned would have to wait for.
    fn write_waits_for(&self, id: JobId) -> Set<MemberId> {
        let job = &self.range.jobs[id];
        // A region's bit goes to all members.
        let region = self.areas.region(job.stripe);
        let marks = self.needs_mark(id) && !self.range.maps.bitmap.map.get(region);
        if marks || self.array.steering.busy.is_empty() {
            return self.array.steering.busy;
        }
        let touched = job.plan.reads.iter().chain(&job.plan.writes);
        let members: Set<_> = touched.map(|io| self.geo.member(job.stripe, io.role)).collect();
        members.and(self.array.steering.busy)
    }

    /// What the policy is asked about.
    fn redirect(&self, id: JobId) -> Redirect {
        let job = &self.range.jobs[id];
        let busy = |role: Role| self.array.steering.busy.has(self.geo.member(job.stripe, role));
        let (used, len) = self.range.staging.used();
        Redirect {
            blocks: job.piece_blocks(),
            data_busy: job.pieces.iter().any(|piece| busy(piece.role)),
            busy: !self.write_waits_for(id).is_empty(),
            rebuilds: self.array.background.rebuilds(),
            staged: job.log.covers,
            used: used as f64 / len as f64,
        }
    }

    /// The holders of an entry of so many blocks (with what is to be left free): of those that are
    /// not `busy`, first staging devices, then members, those with the least to do, in turn; none if
    /// there are too few with room.
    fn holders_for(&self, blocks: u64, busy: Set<MemberId>) -> Option<Set<MemberId>> {
        let (staging, n) = (&self.range.staging, self.geo.members());
        let blocks = blocks + staging.promised;
        let able = self.array.membership.able().minus(busy);
        let fits = |&place: &MemberId| staging.rings[place.index()].room(blocks).is_some();
        let mut holders = Set::EMPTY;
        while holders.len() < staging.copies {
            let left = able.minus(holders).filter(fits);
            let in_turn = |&place: &MemberId| {
                let (load, place) = (self.array.flights.of(place), place.index());
                let member = place < n;
                (member, load, (place + n - staging.turn % n) % n)
            };
            holders = holders.with(left.min_by_key(in_turn)?);
        }
        Some(holders)
    }

    /// The holders of a marker or a tail: as many as there can be, calm ones if possible, and one more if
    /// one of them gives its place to a device that will not have it.
    fn holders_for_note(&self) -> Set<MemberId> {
        let (staging, able) = (&self.range.staging, self.array.membership.able());
        let fits = |member: &MemberId| staging.rings[member.index()].room(1).is_some();
        let calm = able.minus(self.array.steering.busy).filter(fits);
        let others = able.and(self.array.steering.busy).filter(fits);
        let count = staging.copies + usize::from(self.array.membership.succession().is_some());
        calm.chain(others).take(count).collect()
    }

    /// Makes sure that there will be room for a marker. If there is none, the job gives its lock
    /// back and waits: the room may have to be made by bringing its own stripe home.
    pub(in super::super) fn promise_marker(&mut self, id: JobId) -> bool {
        if self.range.jobs[id].log.promised {
            return true;
        }
        let (staging, able) = (&self.range.staging, self.array.membership.able());
        let blocks = staging.promised + RESERVE / 2;
        let fits = |member: &MemberId| staging.rings[member.index()].room(blocks).is_some();
        if able.clone().all(|member| fits(&member)) && !able.is_empty() {
            self.range.staging.promised += 1;
            self.range.jobs[id].log.promised = true;
            return true;
        }
        self.range.staging.starved = true;
        self.range.jobs.unlock(id);
        self.range.jobs.wait(id, Wait::Staging);
        false
    }

    /// Writes a job's pieces to the log instead of to their stripe.
    pub(in super::super) fn store(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let room = self.staged_blocks(id) + RESERVE;
        let Some(holders) = self.holders_for(room, self.array.steering.busy) else {
            return Stage::Plan;
        };
        let around = self.write_waits_for(id);
        around.for_each(|member| self.array.membership.members[member.index()].avoided.writes += 1);
        self.write_staged(id, Kind::Data, holders, out);
        self.array.counters.staged_writes += 1;
        Stage::Record
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
        let holders = self.holders_for_note();
        if holders.is_empty() || !self.array.membership.takes_writes() {
            self.range.jobs[id].error = Some(RequestError::Io);
            return Stage::Record;
        }
        self.write_staged(id, Kind::Marker, holders, out);
        Stage::Record
    }

    /// An entry of a job's.
    fn write_staged(
        &mut self,
        id: JobId,
        kind: Kind,
        holders: Set<MemberId>,
        out: &mut Vec<Action>,
    ) {
        let mut runs = self.range.staging.spare.pop().unwrap_or_default();
        self.runs_of(id, &mut runs);
        let stripe = self.range.jobs[id].stripe;
        let number = self.begin_entry(kind, stripe, holders, runs);
        self.range.jobs[id].log.staged = Some(number);
        self.range.jobs[id].outstanding += self.store_entry(number, Owner::Staged { job: id }, out);
    }

    /// Writes an entry to those of its holders that are there, and tells how many they are.
    fn store_entry(&mut self, number: u64, owner: Owner, out: &mut Vec<Action>) -> u32 {
        let entry = self.range.staging.entry(number);
        let header = entry.header_blocks();
        let (places, blocks) = (entry.payload, header + entry.blocks);
        let mut begun = 0;
        for (member, payload) in places.into_iter().take(entry.holders.len()) {
            let Some(device) = self.array.membership.live_device(member) else { continue };
            begun += 1;
            let op = Flight::new(owner, Some(member), device);
            let at = Pba(payload.0 - u64::from(header));
            self.issue(op, IoOp::Journal, at, blocks, out);
        }
        begun
    }

    /// A job's pieces without what earlier pieces cover.
    fn runs_of(&self, id: JobId, runs: &mut Vec<Run>) {
        let job = &self.range.jobs[id];
        if let Work::Zero { .. } = job.work {
            let whole = |role| Run { role, row: 0, blocks: self.geo.chunk(), mem: Mem::Zero };
            runs.extend(self.geo.of(job.stripe).data_roles().map(whole));
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
                if job.tags.len() > 1 && covered(row) {
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

    /// A new entry, with room in its holders' rings.
    fn begin_entry(
        &mut self,
        kind: Kind,
        stripe: Stripe,
        holders: Set<MemberId>,
        runs: Vec<Run>,
    ) -> u64 {
        let tail = self.range.staging.tail_now();
        let staging = &mut self.range.staging;
        let number = staging.next;
        let mut entry = Entry::new(number, kind, stripe, holders, runs);
        entry.tail = tail;
        let header = u64::from(entry.header_blocks());
        let blocks = header + u64::from(entry.blocks);
        for (place, member) in entry.payload.iter_mut().zip(holders) {
            let ring = &mut staging.rings[member.index()];
            let at = ring.room(blocks).expect("holders have room");
            ring.push((number, at), blocks);
            *place = (member, Pba(staging.start.0 + at + header));
        }
        staging.next += 1;
        staging.announced = staging.announced.max(tail);
        staging.payload += entry.blocks as usize;
        staging.turn = (staging.turn + 1) % staging.members;
        staging.entries.push_back(entry);
        if kind == Kind::Data {
            staging.staged_at = self.now;
        }
        number
    }

    pub(in super::super) fn staged_done(
        &mut self,
        id: JobId,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        if let (Err(why), Some(member), true) =
            (result, op.member, self.array.membership.is_current(&op))
            && !self.write_failed(member, why, out)
        {
            self.range.jobs[id].error = Some(RequestError::Io);
        }
        self.range.jobs.one_done(id);
    }

    /// A job does not need room for a marker any more.
    pub(in super::super) fn break_promise(&mut self, id: JobId) {
        self.range.staging.promised -=
            u64::from(core::mem::take(&mut self.range.jobs[id].log.promised));
    }

    /// A job ends that may have staged something, or written over it.
    pub(in super::super) fn end_staging(&mut self, id: JobId) {
        self.unpin(id);
        self.break_promise(id);
        let job = &self.range.jobs[id];
        self.range.staging.blocked &= job.log.staged.is_none() && job.work != Work::Reclaim;
        if job.work == Work::Reclaim {
            self.reclaimed(id);
        }
        let Some(number) = self.range.jobs[id].log.staged.take() else { return };
        // What has failed may be found after a crash, or not; but then no write is taken any more.
        if self.range.jobs[id].error.is_some() {
            return;
        }
        let stripe = self.range.jobs[id].stripe;
        let entry = self.range.staging.entry_mut(number);
        entry.done = true;
        let (kind, tail) = (entry.kind, entry.tail);
        let runs = core::mem::take(&mut entry.runs);
        let mut at = 0;
        for run in &runs {
            for lba in self.geo.of(stripe).lbas(stripe, run.role, run.row, run.blocks) {
                match kind {
                    Kind::Data => self.range.staging.stage(stripe, lba, number, at),
                    Kind::Marker | Kind::Tail => self.range.staging.unstage(stripe, lba),
                }
                at += 1;
            }
        }
        // What could not be brought home because of these blocks perhaps can be now.
        self.range.staging.try_stripe_again(stripe);
        self.array.counters.staged_blocks += if kind == Kind::Data { u64::from(at) } else { 0 };
        self.range.staging.entry_mut(number).runs = runs;
        self.tail_is_durable(number, tail);
    }

    /// An entry is durable that tells the tail.
    fn tail_is_durable(&mut self, number: u64, tail: u64) {
        self.range.staging.advance(tail, &self.geo);
        let empty = self.range.staging.table.is_empty() && tail == number && self.is_known(number);
        self.range.staging.drained |= empty;
        if self.range.staging.starved {
            self.wake_staging();
        }
    }

    /// Whether an entry is on as many as it has to be, without a member that gives its place to a device
    /// that does not have it.
    fn is_known(&self, number: u64) -> bool {
        let Some(leaving) = self.array.membership.succession().map(|s| s.member) else {
            return true;
        };
        let holders = self.range.staging.entry(number).holders.without(leaving);
        holders.len()
            >= self.range.staging.copies.min(self.array.membership.able().without(leaving).len())
    }

    /// Records the tail, if that frees something that is wanted.
    pub(super) fn tell_tail(&mut self, out: &mut Vec<Action>) {
        let tail = self.range.staging.tail_now();
        let staging = &self.range.staging;
        let frees = |entry: &Entry| entry.kind != Kind::Tail;
        let frees = staging.entries.iter().take_while(|e| e.number < tail).any(frees);
        let anew = staging.draining && !staging.drained && tail == staging.next
            || staging.is_thin() && tail >= staging.thin_until;
        if staging.telling.is_some() || !frees && !anew {
            return;
        }
        let holders = self.holders_for_note();
        if holders.is_empty()
            || holders.len() < self.range.staging.copies.min(self.array.membership.able().len())
        {
            return;
        }
        let runs = self.range.staging.spare.pop().unwrap_or_default();
        let number = self.begin_entry(Kind::Tail, Stripe(0), holders, runs);
        self.range.staging.telling = Some(number);
        let begun = self.store_entry(number, Owner::StagedTail, out);
        self.range.staging.entry_mut(number).outstanding = begun;
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
        let Some(number) = self.range.staging.telling else { return };
        let entry = self.range.staging.entry_mut(number);
        entry.outstanding -= 1;
        if entry.outstanding > 0 {
            return;
        }
        entry.done = true;
        let tail = entry.tail;
        self.range.staging.telling = None;
        // A member that failed could come back, without the entry, until its failure is on record.
        if self.array.membership.recorder.unrecorded_failure().is_none()
            && self.array.membership.takes_writes()
        {
            self.tail_is_durable(number, tail);
        }
    }

    /// The entry that an I/O writes, if it is one of the staging log's.
    pub(in super::super) fn staged_entry(&self, io: IoId) -> Option<u64> {
        match self.array.flights.get(io).owner {
            Owner::Staged { job } => self.range.jobs[job].log.staged,
            Owner::StagedTail => self.range.staging.telling,
            Owner::Read { .. }
            | Owner::Write { .. }
            | Owner::Discard { .. }
            | Owner::TrimSpare
            | Owner::Entry { .. }
            | Owner::Tail { .. }
            | Owner::Fetch { .. }
            | Owner::Copy { .. }
            | Owner::Page { .. }
            | Owner::Superblock
            | Owner::Flush => None,
        }
    }

    pub(in super::super) fn staged_header_blocks(&self, number: u64) -> u32 {
        self.range.staging.entry(number).header_blocks()
    }

    pub(in super::super) fn staged_payload(&self, number: u64, mut visit: impl FnMut(Mem, u32)) {
        let entry = self.range.staging.entry(number);
        if entry.kind == Kind::Data {
            entry.runs.iter().for_each(|run| visit(run.mem, run.blocks));
        }
    }

    pub(in super::super) fn encode_staged(
        &self,
        number: u64,
        member: MemberId,
        mut crc_of: impl FnMut(Mem) -> u32,
        into: &mut [u8],
    ) {
        let entry = self.range.staging.entry(number);
        let header_blocks = u64::from(self.staged_header_blocks(number));
        let place = entry.payload.iter().find(|(holder, _)| *holder == member);
        let Some(&(_, payload)) = place else { return };
        let open = self.range.staging.entries.iter().find(|entry| !entry.done);
        let first_open = open.map_or(number, |entry| entry.number);
        let header = JournalHeader {
            log: Log::Staging,
            array: self.array.membership.recorder.record.array,
            epoch: self.array.membership.recorder.record.staging_epoch,
            entry: number,
            tail: entry.tail,
            open: u32::try_from(number - first_open).unwrap_or(u32::MAX),
            member,
            at: payload.0 - header_blocks - self.range.staging.start.0,
            holders: entry.holders,
            stripe: entry.stripe,
        };
        let runs = entry.runs.iter().map(|run| JournalRun {
            member: self.geo.member(entry.stripe, run.role),
            row: run.row,
            blocks: run.blocks,
        });
        let data = if entry.kind == Kind::Data { &entry.runs[..] } else { &[] };
        let blocks = data.iter().flat_map(|run| (0..run.blocks).map(|i| run.mem.plus(i)));
        meta::encode_journal_header(&header, runs, blocks.map(&mut crc_of), into);
    }
}

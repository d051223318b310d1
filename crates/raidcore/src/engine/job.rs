//! A job: one stripe's walk through the stages.
//!
//! Invariants: a stage is entered only when nothing of the job is outstanding; from `Plan` to
//! `Finish` the job holds its stripe's lock; it holds scratch buffers from `Buffers` on and gives
//! them back before it plans again.

use alloc::vec::Vec;
use core::mem;

use super::{Action, Engine, IoError, JobId, PassKind, RequestError};
use crate::geometry::Geometry;
use crate::meta::{MapKind, Replay};
use crate::plan::{self, Bad, Base, Goal, Health, Lost, Piece, Plan, SubIo, WriteKind};
use crate::units::{DeviceId, MEMBERS_MAX, Mem, MemberId, Set, Stripe, Tag};

/// As many pieces as are carried out together.
const PIECES_MAX: usize = 64;

/// What a job is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Pieces of a user's read.
    Read,
    /// Pieces of users' writes.
    Write,
    /// The stripe becomes zeros; with `trim`, members are told that they need not keep it.
    Zero { trim: bool },
    /// A background pass's step.
    Sync(PassKind),
    /// Blocks that could not be read are written anew.
    Repair,
    /// An entry of the journal is carried out after an unclean stop.
    Replay { index: usize },
}

/// What a job does when nothing of it is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Plan,
    Buffers,
    Read,
    AfterRead,
    Compute,
    Intend,
    Write,
    Harden,
    Unzero,
    Settle,
    Finish,
}

/// What a job waits for besides its own I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// A metadata page to be durable in this version.
    Page {
        kind: MapKind,
        index: u32,
        version: u64,
    },
    /// A flush round to end.
    Flush(u64),
    /// The array's record to be durable.
    Record(u64),
    /// Room in the journal.
    Space,
}

/// Whose I/O it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Read { job: JobId, index: u16 },
    Write { job: JobId, index: u16 },
    Discard { job: JobId },
    Entry { job: JobId },
    Tail,
    Page { kind: MapKind, index: u32 },
    Superblock,
    Flush,
}

/// An I/O in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Op {
    pub(super) owner: Owner,
    pub(super) member: Option<MemberId>,
    pub(super) device: DeviceId,
}

impl Op {
    pub(super) const BLANK: Self = Self {
        owner: Owner::Flush,
        member: None,
        device: DeviceId(u32::MAX),
    };
}

/// See the [module](self).
pub struct Job {
    pub(super) work: Work,
    pub(super) stage: Stage,
    pub(super) stripe: Stripe,
    pub(super) pieces: Vec<Piece>,
    pub(super) tags: Vec<Tag>,
    pub(super) plan: Plan,
    pub(super) bad: Vec<Bad>,
    pub(super) base: Base,
    pub(super) kind: WriteKind,
    pub(super) fua: bool,
    pub(super) outstanding: u32,
    pub(super) queued: bool,
    pub(super) replan: bool,
    pub(super) mismatch: bool,
    pub(super) marked: bool,
    pub(super) error: Option<RequestError>,
    /// The journal entry's number, and the members that hold it.
    pub(super) entry: Option<(u64, Set)>,
    buffers: [u16; MEMBERS_MAX + 2],
    holds_buffers: bool,
}

impl Job {
    pub(super) fn new(geo: &Geometry) -> Self {
        Self {
            work: Work::Read,
            stage: Stage::Plan,
            stripe: Stripe(0),
            pieces: Vec::with_capacity(PIECES_MAX),
            tags: Vec::with_capacity(PIECES_MAX),
            plan: Plan::with_room_for(geo),
            bad: Vec::new(),
            base: Base::Stored,
            kind: WriteKind::Full,
            fua: false,
            outstanding: 0,
            queued: false,
            replan: false,
            mismatch: false,
            marked: false,
            error: None,
            entry: None,
            buffers: [0; MEMBERS_MAX + 2],
            holds_buffers: false,
        }
    }

    /// Makes a slot's last occupant into a new job.
    fn renew(&mut self, work: Work, stripe: Stripe) {
        self.work = work;
        self.stage = Stage::Plan;
        self.stripe = stripe;
        self.pieces.clear();
        self.tags.clear();
        self.plan.clear();
        self.bad.clear();
        self.base = Base::Stored;
        self.kind = WriteKind::Full;
        self.fua = false;
        self.queued = false;
        self.replan = false;
        self.mismatch = false;
        self.error = None;
        self.entry = None;
        assert!(self.outstanding == 0 && !self.marked && !self.holds_buffers);
    }

    /// The host's memory for the plan's.
    pub(super) fn bind(&self, mem: Mem) -> Mem {
        match mem {
            Mem::Scratch { buffer, at } => Mem::Scratch {
                buffer: self.buffers[usize::from(buffer)],
                at,
            },
            Mem::Payload { .. } | Mem::Zero => mem,
        }
    }

    pub(super) fn is_user_work(&self) -> bool {
        match self.work {
            Work::Read | Work::Write | Work::Zero { .. } => true,
            Work::Sync(_) | Work::Repair | Work::Replay { .. } => false,
        }
    }

    fn is_exclusive(&self) -> bool {
        self.work != Work::Read
    }
}

impl Engine {
    /// A new job, if there is room for one of its sort.
    pub(super) fn new_job(&mut self, work: Work, stripe: Stripe) -> Option<JobId> {
        let kept = usize::from(self.config.background_jobs);
        let user = matches!(work, Work::Read | Work::Write | Work::Zero { .. });
        if user && usize::from(self.foreground_jobs) + kept >= self.jobs.capacity() {
            return None;
        }
        let id = self.jobs.occupy()?;
        self.foreground_jobs += u16::from(user);
        self.jobs[id].renew(work, stripe);
        Some(id)
    }

    /// Sets a job going: it takes its stripe's lock or waits for it.
    pub(super) fn start_job(&mut self, id: JobId) {
        let job = &mut self.jobs[id];
        let exclusive = job.is_exclusive();
        if self.locks.acquire(id.index() as u32, job.stripe, exclusive) {
            job.queued = true;
            self.ready.push_back(id);
        }
    }

    /// One of the things that a job waits for has happened.
    pub(super) fn one_done(&mut self, id: JobId) {
        let job = &mut self.jobs[id];
        job.outstanding -= 1;
        if job.outstanding == 0 {
            job.queued = true;
            self.ready.push_back(id);
        }
    }

    /// The job waits for something besides its own I/O.
    pub(super) fn wait(&mut self, id: JobId, wait: Wait) {
        self.jobs[id].outstanding += 1;
        self.waits.push((wait, id));
    }

    /// Ends the waits that `over` finds to be over, in the order in which they began.
    pub(super) fn wake(&mut self, over: impl Fn(&Wait) -> bool) {
        let mut waits = mem::take(&mut self.waits);
        waits.retain(|(wait, job)| {
            let over = over(wait);
            if over {
                self.one_done(*job);
            }
            !over
        });
        self.waits = waits;
    }

    /// Walks a job on until it has to wait.
    pub(super) fn advance(&mut self, id: JobId, out: &mut Vec<Action>) {
        self.jobs[id].queued = false;
        loop {
            let job = &self.jobs[id];
            if job.outstanding > 0 || job.queued {
                return;
            }
            let next = match job.stage {
                Stage::Plan => self.plan(id),
                Stage::Buffers => self.take_buffers(id),
                Stage::Read => self.issue_reads(id, out),
                Stage::AfterRead => self.after_read(id),
                Stage::Compute => self.compute(id, out),
                Stage::Intend => self.intend(id, out),
                Stage::Write => self.issue_writes(id, out),
                Stage::Harden => self.harden(id, out),
                Stage::Unzero => self.unzero(id, out),
                Stage::Settle => self.settle_job(id),
                Stage::Finish => return self.finish(id, out),
            };
            self.jobs[id].stage = next;
        }
    }

    fn plan(&mut self, id: JobId) -> Stage {
        self.absorb_waiting_writes(id);
        let stripe = self.jobs[id].stripe;
        let (readable, writable) = self.health(stripe);
        let parity_valid = self.parity_valid(stripe, readable);
        let zero = self.zero_map().get(stripe.0);
        let prefer = self.preferred_copy(stripe);
        let mut plan = mem::take(&mut self.jobs[id].plan);
        let job = &mut self.jobs[id];
        job.base = if zero { Base::Zeros } else { Base::Stored };
        let (geo, base) = (&self.geo, job.base);
        let health = Health {
            readable,
            writable,
            parity_valid,
            bad: &job.bad,
        };
        let next = match job.work {
            Work::Read => plan::read(&mut plan, geo, &health, &job.pieces, base, prefer)
                .map(|()| Stage::Buffers),
            Work::Write if zero && job.pieces.iter().all(|p| p.mem == Mem::Zero) => {
                Ok(Stage::Finish)
            }
            Work::Write => plan::write(&mut plan, geo, &health, &job.pieces, base).map(|kind| {
                job.kind = kind;
                Stage::Buffers
            }),
            Work::Zero { .. } if zero => Ok(Stage::Finish),
            Work::Zero { .. } => Ok(Stage::Intend),
            Work::Sync(_) | Work::Repair if zero => Ok(Stage::Finish),
            Work::Sync(_) | Work::Repair => {
                let (goal, row, blocks) = goal(geo, &health, job);
                if goal.write.is_empty() && goal.compare.is_empty() {
                    Ok(Stage::Finish)
                } else {
                    plan::sync(&mut plan, geo, &health, goal, row, blocks).map(|()| Stage::Buffers)
                }
            }
            Work::Replay { index } => {
                plan_replay(&mut plan, geo, stripe, self.journal.replay(index), writable);
                Ok(Stage::Buffers)
            }
        };
        job.plan = plan;
        next.unwrap_or_else(|Lost| {
            job.error = Some(RequestError::Io);
            Stage::Finish
        })
    }

    /// Takes over the writes that wait first for the stripe, as long as they don't overlap.
    fn absorb_waiting_writes(&mut self, id: JobId) {
        let stripe = self.jobs[id].stripe;
        while self.jobs[id].work == Work::Write {
            let waiter = self
                .locks
                .first_waiter(stripe)
                .and_then(|h| self.jobs.id_at(h));
            let Some(other) = waiter else { return };
            let (job, rider) = (&self.jobs[id], &self.jobs[other]);
            let fits = rider.work == Work::Write
                && job.pieces.len() + rider.pieces.len() <= PIECES_MAX
                && job.tags.len() + rider.tags.len() <= PIECES_MAX
                && !rider
                    .pieces
                    .iter()
                    .any(|r| job.pieces.iter().any(|p| p.overlaps(r)));
            if !fits {
                return;
            }
            self.locks.remove_first_waiter(stripe);
            let (pieces, tags) = (
                mem::take(&mut self.jobs[other].pieces),
                mem::take(&mut self.jobs[other].tags),
            );
            let fua = self.jobs[other].fua;
            let job = &mut self.jobs[id];
            job.pieces.extend(&pieces);
            job.tags.extend(&tags);
            job.fua |= fua;
            (self.jobs[other].pieces, self.jobs[other].tags) = (pieces, tags);
            self.jobs.vacate(other);
            self.foreground_jobs -= 1;
            self.counters.merged_writes += 1;
        }
    }

    /// The copy of a mirror to read: the least busy, or the first where copies may differ.
    fn preferred_copy(&self, stripe: Stripe) -> usize {
        if self.regions.is_unsynced(self.areas.region(stripe)) {
            return 0;
        }
        let members = self.members.iter().enumerate();
        members
            .min_by_key(|(_, m)| m.in_flight)
            .map_or(0, |(index, _)| index)
    }

    fn take_buffers(&mut self, id: JobId) -> Stage {
        let count = self.jobs[id].plan.scratch.len();
        let mut roles = self.jobs[id].plan.scratch;
        let job = &mut self.jobs[id];
        let taken = self.scratch.acquire(id, count, |buffer| {
            if let Some(role) = roles.next() {
                job.buffers[role] = buffer;
            }
        });
        if taken {
            job.holds_buffers = true;
        } else {
            job.outstanding += 1;
        }
        Stage::Read
    }

    fn release_buffers(&mut self, id: JobId) {
        let job = &mut self.jobs[id];
        if !mem::take(&mut job.holds_buffers) {
            return;
        }
        for role in job.plan.scratch {
            self.scratch.release(job.buffers[role]);
        }
        while let Some(next) = self.scratch.next_served() {
            let job = &mut self.jobs[next];
            let mut roles = job.plan.scratch;
            self.scratch.take(roles.len(), |buffer| {
                if let Some(role) = roles.next() {
                    job.buffers[role] = buffer;
                }
            });
            job.holds_buffers = true;
            self.one_done(next);
        }
    }

    fn after_read(&mut self, id: JobId) -> Stage {
        if self.jobs[id].error.is_some() {
            return Stage::Finish;
        }
        if mem::take(&mut self.jobs[id].replan) {
            self.release_buffers(id);
            return Stage::Plan;
        }
        Stage::Compute
    }

    fn compute(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &mut self.jobs[id];
        if !job.plan.steps.is_empty() {
            job.outstanding += 1;
            out.push(Action::Compute(id));
        }
        match job.work {
            Work::Read => Stage::Finish,
            Work::Write => Stage::Intend,
            Work::Zero { .. } | Work::Sync(_) | Work::Repair | Work::Replay { .. } => Stage::Write,
        }
    }

    pub(super) fn computed(&mut self, id: JobId) {
        self.one_done(id);
    }

    fn harden(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.jobs[id];
        let makes_real = job.work == Work::Write && job.base == Base::Zeros;
        if job.error.is_some() || !makes_real {
            return Stage::Settle;
        }
        let ticket = self.flush(out);
        self.wait_for_flush(id, ticket);
        Stage::Unzero
    }

    fn unzero(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        if self.flusher.has_failed() {
            self.jobs[id].error = Some(RequestError::Io);
            return Stage::Settle;
        }
        // A member that failed and came back would show what it held before the discard.
        if let Some(ticket) = self.recorder.unrecorded_failure() {
            self.wait(id, Wait::Record(ticket));
            return Stage::Unzero;
        }
        let stripe = self.jobs[id].stripe;
        self.zero.map.clear(stripe.0);
        self.store_bit(id, MapKind::ZeroMap, stripe.0, out);
        Stage::Settle
    }

    /// A write that a member missed is acknowledged only when all others have that on record.
    fn settle_job(&mut self, id: JobId) -> Stage {
        if self.jobs[id].work != Work::Read {
            if let Some(ticket) = self.recorder.unrecorded_failure() {
                self.wait(id, Wait::Record(ticket));
            }
        }
        Stage::Finish
    }

    fn finish(&mut self, id: JobId, out: &mut Vec<Action>) {
        self.release_buffers(id);
        self.end_intent(id, out);
        let (work, stripe, error) = {
            let job = &self.jobs[id];
            (job.work, job.stripe, job.error)
        };
        match work {
            Work::Sync(kind) => self.pass_step_done(kind, id, out),
            Work::Replay { .. } => self.journal.replayed(),
            Work::Read | Work::Write | Work::Zero { .. } | Work::Repair => {}
        }
        self.count(id);
        let tags = mem::take(&mut self.jobs[id].tags);
        for &tag in &tags {
            self.part_done(tag, error, out);
        }
        self.jobs[id].tags = tags;
        let exclusive = self.jobs[id].is_exclusive();
        let (jobs, ready) = (&mut self.jobs, &mut self.ready);
        self.locks.release(stripe, exclusive, |holder| {
            if let Some(next) = jobs.id_at(holder) {
                jobs[next].queued = true;
                ready.push_back(next);
            }
        });
        let bad = mem::take(&mut self.jobs[id].bad);
        if work != Work::Repair && error.is_none() && !bad.is_empty() {
            self.repair_later(stripe, &bad);
        }
        self.jobs[id].bad = bad;
        self.foreground_jobs -= u16::from(self.jobs[id].is_user_work());
        self.jobs.vacate(id);
    }

    fn count(&mut self, id: JobId) {
        let job = &self.jobs[id];
        let counters = &mut self.counters;
        match (job.work, job.kind) {
            _ if job.error.is_some() => {}
            (Work::Read, _) if job.base == Base::Stored && !job.plan.steps.is_empty() => {
                counters.reconstructed_reads += 1;
            }
            (Work::Write, WriteKind::Full) => counters.full_stripe_writes += 1,
            (Work::Write, WriteKind::Delta) => counters.delta_writes += 1,
            (Work::Write, WriteKind::Rest | WriteKind::Survivors) => {
                counters.reconstruct_writes += 1;
            }
            _ => {}
        }
    }

    /// Rewrites unreadable blocks once the lock is free; if there is no room for the job now, the
    /// next read of the blocks will find them again.
    fn repair_later(&mut self, stripe: Stripe, bad: &[Bad]) {
        if let Some(repair) = self.new_job(Work::Repair, stripe) {
            self.jobs[repair].bad.extend_from_slice(bad);
            self.start_job(repair);
        }
    }

    /// Whether a device that failed an I/O is still the member's.
    pub(super) fn is_current(&self, op: &Op) -> bool {
        op.member
            .is_some_and(|m| self.members[m.index()].device == Some(op.device))
    }

    pub(super) fn read_done(
        &mut self,
        id: JobId,
        index: u16,
        op: Op,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let replays = matches!(self.jobs[id].work, Work::Replay { .. });
        match (result, op.member) {
            (Ok(()), _) | (_, None) => {}
            (Err(_), Some(_)) if !self.is_current(&op) => self.jobs[id].replan = true,
            (Err(why), Some(member)) if why == IoError::Gone || replays => {
                self.read_failed(member, why, out);
                self.jobs[id].replan = true;
                if replays {
                    self.jobs[id].error = Some(RequestError::Io);
                }
            }
            (Err(_), Some(member)) => {
                self.members[member.index()].read_errors += 1;
                let io = self.jobs[id].plan.reads[usize::from(index)];
                if io.blocks > 1 {
                    self.read_block_by_block(id, io, out);
                } else {
                    let bad = Bad {
                        role: io.role,
                        row: io.row,
                        blocks: 1,
                    };
                    self.jobs[id].bad.push(bad);
                    self.jobs[id].replan = true;
                }
            }
        }
        self.one_done(id);
    }

    /// Finds out which blocks of a failed read are the bad ones.
    fn read_block_by_block(&mut self, id: JobId, io: SubIo, out: &mut Vec<Action>) {
        for i in 0..io.blocks {
            let single = SubIo {
                row: io.row + i,
                blocks: 1,
                mem: io.mem.plus(i),
                role: io.role,
            };
            self.jobs[id].plan.reads.push(single);
            let index = self.jobs[id].plan.reads.len() - 1;
            self.issue_read(id, index, out);
        }
    }

    pub(super) fn write_done(
        &mut self,
        id: JobId,
        index: u16,
        op: Op,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let io = self.jobs[id].plan.writes[usize::from(index)];
        if let (Err(why), Some(member), true) = (result, op.member, self.is_current(&op)) {
            let repairs = self.jobs[id].work == Work::Repair;
            if repairs && !self.can_spare(member) {
                self.members[member.index()].write_errors += 1;
            } else if !self.write_failed(member, why, out) {
                self.jobs[id].error = Some(RequestError::Io);
            }
        } else if let (Ok(()), Some(member), Work::Repair) = (result, op.member, self.jobs[id].work)
        {
            let (_, at) = self.place(self.jobs[id].stripe, io.role, io.row);
            out.push(Action::Note(super::Note::BlocksRepaired {
                member,
                at,
                blocks: io.blocks,
            }));
        }
        self.one_done(id);
    }
}

/// What a background job wants of its stripe, and of which rows.
fn goal(geo: &Geometry, health: &Health<'_>, job: &Job) -> (Goal, u32, u32) {
    let parities = Set::first(geo.members()).minus(Set::first(geo.data()));
    let data_lost = Set::first(geo.data()).minus(health.readable);
    let whole = |goal| (goal, 0, geo.chunk());
    match job.work {
        Work::Sync(PassKind::Rebuild(member)) => {
            let role = geo.role(job.stripe, member).index();
            whole(Goal {
                write: Set::one(role),
                compare: Set::EMPTY,
            })
        }
        Work::Sync(PassKind::Resync) => {
            // What stands in for lost data is taken as it is; the rest is made anew.
            let standing = match geo.parities() {
                0 => health.readable.take(1).fold(Set::EMPTY, Set::with),
                _ => health
                    .readable
                    .and(parities)
                    .take(data_lost.len())
                    .fold(Set::EMPTY, Set::with),
            };
            let redundant = if geo.parities() == 0 {
                health.writable
            } else {
                parities
            };
            let write = redundant.and(health.writable).minus(standing);
            whole(Goal {
                write,
                compare: Set::EMPTY,
            })
        }
        Work::Sync(PassKind::Scrub { repair }) => {
            let redundant = if geo.parities() == 0 {
                health.readable
            } else {
                parities
            };
            let compare = redundant.and(health.readable);
            let write = if repair {
                compare.and(health.writable)
            } else {
                Set::EMPTY
            };
            let enough = data_lost.len() < compare.len();
            whole(if enough {
                Goal { write, compare }
            } else {
                Goal {
                    write: Set::EMPTY,
                    compare: Set::EMPTY,
                }
            })
        }
        Work::Read | Work::Write | Work::Zero { .. } | Work::Repair | Work::Replay { .. } => {
            let roles = job
                .bad
                .iter()
                .fold(Set::EMPTY, |set, b| set.with(b.role.index()));
            let from = job.bad.iter().map(|b| b.row).min().unwrap_or(0);
            let to = job.bad.iter().map(|b| b.row + b.blocks).max().unwrap_or(0);
            let write = roles.and(health.writable);
            (
                Goal {
                    write,
                    compare: Set::EMPTY,
                },
                from,
                to - from,
            )
        }
    }
}

/// An entry's blocks go where they were meant to go; reads are issued from its place in the ring.
fn plan_replay(plan: &mut Plan, geo: &Geometry, stripe: Stripe, entry: &Replay, writable: Set) {
    plan.clear();
    for run in &entry.runs {
        let role = geo.role(stripe, run.member);
        plan.scratch = plan.scratch.with(role.index());
        let mem = Mem::Scratch {
            buffer: u16::from(role.0),
            at: run.row,
        };
        let io = SubIo {
            role,
            row: run.row,
            blocks: run.blocks,
            mem,
        };
        plan.reads.push(io);
        if writable.has(role.index()) {
            plan.writes.push(io);
        }
    }
}

//! A job: one stripe's walk through the stages.
//!
//! Invariants: a stage is entered only when nothing of the job is outstanding; from `Plan` to
//! `Finish` the job holds its stripe's lock; it holds scratch buffers from `Buffers` on and gives
//! them back before it plans again.

use alloc::vec::Vec;
use core::mem;

use det::Instant;

use super::hedge::Hedge;
use super::io::Retries;
use super::maps::{Bit, Change};
use super::scrub::Scrub;
use super::staging::{Fetching, Logged};
use super::steering::Way;
pub(super) use super::work::Work;
use super::{Action, Engine, JobId, PassKind, RequestError};
use crate::geometry::{Geometry, Role};
use crate::meta::MapKind;
use crate::plan::{Bad, Base, Piece, Plan, Step, WriteKind};
use crate::units::{Mem, MemberId, Set, Stripe, Tag};

/// As many pieces as are carried out together.
pub(super) const PIECES_MAX: usize = 64;

/// The most scratch buffers of a job: as many as a [`Set`] can name.
const BUFFERS_MAX: usize = 64;

/// What a job does when nothing of it is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Lock,
    Plan,
    Store,
    Buffers,
    Read,
    AfterRead,
    Compute,
    Keep,
    Locate,
    Judge,
    Mend,
    Intend,
    Write,
    Harden,
    Unzero,
    Invalidate,
    Record,
    Finish,
}

/// What a job waits for besides its own I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// A metadata page to be durable in this version, with what the job has changed of a bit.
    Page { kind: MapKind, index: u32, version: u64, bit: u64, change: Change },
    /// A flush round to end.
    Flush(u64),
    /// The array's record to be durable.
    Record(u64),
    /// Room in the journal.
    Space,
    /// Room in the staging log.
    Staging,
}

/// Whether a read waits for its stripe's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// As it comes: beside a writer if that does it no harm.
    Any,
    /// It reads beside a writer.
    Beside,
    /// It waits for writers, whatever they write.
    InLine,
}

/// The scratch buffers of a job, by what they are to its plan.
#[derive(Debug)]
pub(super) struct Buffers {
    numbers: [u16; BUFFERS_MAX],
    /// Whether it has those of its plan.
    pub(super) held: bool,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { numbers: [0; BUFFERS_MAX], held: false }
    }
}

impl Buffers {
    /// Takes one buffer after the other for the roles of a plan.
    pub(super) fn fill(&mut self, mut roles: Set<Role>) -> impl FnMut(u16) + '_ {
        move |buffer| {
            if let Some(role) = roles.next() {
                self.numbers[role.index()] = buffer;
            }
        }
    }

    /// The buffer of a role of the plan.
    pub(super) fn of(&self, role: Role) -> u16 {
        self.numbers[role.index()]
    }
}

/// One stripe's walk through the stages: from its lock and a plan to reads, arithmetic and writes.
pub struct Job {
    pub(super) work: Work,
    pub(super) stage: Stage,
    pub(super) stripe: Stripe,
    pub(super) pieces: Vec<Piece>,
    pub(super) tags: Vec<Tag>,
    pub(super) plan: Plan,
    pub(super) bad: Vec<Bad>,
    pub(super) retries: Retries,
    pub(super) base: Base,
    pub(super) kind: WriteKind,
    pub(super) fua: bool,
    pub(super) outstanding: u32,
    pub(super) queued: bool,
    pub(super) replan: bool,
    pub(super) scrub: Scrub,
    pub(super) marked: bool,
    pub(super) error: Option<RequestError>,
    /// The journal entry's number, and the members that hold it.
    pub(super) entry: Option<(u64, Set<MemberId>)>,
    pub(super) log: Logged,
    pub(super) fetching: Fetching,
    pub(super) turn: Turn,
    pub(super) hedge: Hedge,
    /// A copy is made of what it reads.
    pub(super) is_copied: bool,
    /// Which way a user's read or write goes, how many blocks it has, and when it began.
    pub(super) way: Way,
    pub(super) blocks: u32,
    pub(super) begun: Instant,
    pub(super) buffers: Buffers,
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
            retries: Retries::default(),
            base: Base::Stored,
            kind: WriteKind::Full,
            fua: false,
            outstanding: 0,
            queued: false,
            replan: false,
            scrub: Scrub::default(),
            marked: false,
            error: None,
            entry: None,
            log: Logged::default(),
            fetching: Fetching::default(),
            turn: Turn::Any,
            hedge: Hedge::default(),
            is_copied: false,
            way: Way::Calm,
            blocks: 0,
            begun: Instant::ORIGIN,
            buffers: Buffers::default(),
        }
    }

    /// Makes a slot's last occupant into a new job.
    pub(super) fn renew(&mut self, work: Work, stripe: Stripe, now: Instant) {
        self.work = work;
        self.begun = now;
        self.stage = Stage::Plan;
        self.stripe = stripe;
        self.pieces.clear();
        self.tags.clear();
        self.plan.clear();
        self.bad.clear();
        self.retries.clear();
        self.base = Base::Stored;
        self.kind = WriteKind::Full;
        self.fua = false;
        self.queued = false;
        self.replan = false;
        self.scrub.clear();
        self.error = None;
        self.entry = None;
        self.log.covers = false;
        self.turn = Turn::Any;
        (self.hedge.partner, self.hedge.avoids) = (None, Set::EMPTY);
        self.is_copied = false;
        self.way = Way::Calm;
        self.blocks = 0;
        assert!(self.outstanding == 0 && !self.marked && !self.buffers.held);
        assert!(
            self.log.staged.is_none() && !self.log.promised && self.fetching.fetches.is_empty()
        );
    }

    /// The host's memory for the plan's.
    pub(super) fn bind(&self, mem: Mem) -> Mem {
        match mem {
            Mem::Scratch { buffer, at } => {
                Mem::Scratch { buffer: self.buffers.of(Role::at(usize::from(buffer))), at }
            }
            Mem::Payload { .. } | Mem::Zero => mem,
        }
    }

    /// Whether it changes what users see at home, or brings it there.
    pub(super) fn writes_home(&self) -> bool {
        self.work.is_users() || self.work == Work::Reclaim
    }

    /// How many blocks its pieces have; those of merged writes may overlap.
    pub(super) fn piece_blocks(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.blocks).sum()
    }

    /// Whether it writes to a stripe that was discarded.
    fn makes_real(&self) -> bool {
        matches!(self.work, Work::Write | Work::Reclaim) && self.base == Base::Zeros
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.work != Work::Read
    }
}

impl Engine {
    /// A new job, if there is room for one of its sort.
    pub(super) fn new_job(&mut self, work: Work, stripe: Stripe) -> Option<JobId> {
        self.jobs.create(work, stripe, self.now)
    }

    /// Sets a job going: it takes its stripe's lock or waits for it.
    pub(super) fn start_job(&mut self, id: JobId) {
        let (geo, busy) = (&self.geo, self.steering.busy);
        self.jobs.start(id, |stripe, role| busy.has(geo.member(stripe, role)));
    }

    /// Takes a job's lock; if it is not free, the job is made ready when it is.
    fn lock(&mut self, id: JobId) -> bool {
        let (geo, busy) = (&self.geo, self.steering.busy);
        self.jobs.lock(id, |stripe, role| busy.has(geo.member(stripe, role)))
    }

    /// Walks a job on until it has to wait.
    pub(super) fn advance(&mut self, id: JobId, out: &mut Vec<Action>) {
        loop {
            let job = &self.jobs[id];
            if job.outstanding > 0 || job.queued {
                return;
            }
            let next = match job.stage {
                Stage::Lock => match self.lock(id) {
                    true => Stage::Plan,
                    false => {
                        self.jobs[id].stage = Stage::Plan;
                        return;
                    }
                },
                Stage::Plan => self.plan(id, out),
                Stage::Store => self.store(id, out),
                Stage::Buffers => {
                    self.jobs.take_buffers(id);
                    Stage::Read
                }
                Stage::Read => self.issue_reads(id, out),
                Stage::AfterRead => self.after_read(id),
                Stage::Compute => self.compute(id, out),
                Stage::Keep => self.keep(id, out),
                Stage::Locate => self.locate(id, out),
                Stage::Judge => self.judge(id),
                Stage::Mend => self.mend(id, out),
                Stage::Intend => self.intend(id, out),
                Stage::Write => self.issue_writes(id, out),
                Stage::Harden => self.harden(id, out),
                Stage::Unzero => self.unzero(id, out),
                Stage::Invalidate => self.invalidate_staged(id, out),
                Stage::Record => self.record_failures(id),
                Stage::Finish => return self.finish(id, out),
            };
            self.jobs[id].stage = next;
        }
    }

    fn after_read(&mut self, id: JobId) -> Stage {
        let failed = self.jobs[id].error.is_some() || self.jobs[id].replan;
        if self.is_given_up(id) || failed && self.gives_up(id) || self.jobs[id].error.is_some() {
            return Stage::Finish;
        }
        if mem::take(&mut self.jobs[id].replan) {
            self.jobs.release_buffers(id);
            return Stage::Plan;
        }
        self.claim(id);
        // A member that it is to write to may have become busy meanwhile.
        let Job { work, way, .. } = self.jobs[id];
        match work {
            Work::Write if way == Way::Calm && self.is_to_be_staged(id) => {
                self.jobs.release_buffers(id);
                Stage::Store
            }
            Work::Reclaim if self.is_put_off(id) => Stage::Finish,
            Work::Read
            | Work::Write
            | Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => Stage::Compute,
        }
    }

    fn compute(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        self.ask_for_arithmetic(id, out);
        let job = &self.jobs[id];
        match job.work {
            Work::Read => {
                let copies =
                    |&(step, _): &_| matches!(step, Step::Clear { .. } | Step::Copy { .. });
                let rebuilt = !job.plan.steps.iter().all(copies);
                self.counters.reconstructed_reads += u64::from(rebuilt);
                if job.is_copied { Stage::Keep } else { Stage::Finish }
            }
            Work::Write | Work::Reclaim => Stage::Intend,
            Work::Sync(PassKind::Scrub { .. }) => Stage::Locate,
            Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. } => Stage::Write,
        }
    }

    /// The host carries out the plan's steps, if it has any.
    pub(super) fn ask_for_arithmetic(&mut self, id: JobId, out: &mut Vec<Action>) {
        let job = &mut self.jobs[id];
        if !job.plan.steps.is_empty() {
            job.outstanding += 1;
            out.push(Action::Compute(id));
        }
    }

    fn harden(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.jobs[id];
        if job.writes_home() && job.entry.is_none() && !job.fua {
            self.journal.pass_by(job.stripe);
        }
        let (job, leans) = (&self.jobs[id], self.leans_on_caches(id));
        if job.error.is_some() || !job.makes_real() && !job.log.covers && !leans {
            return Stage::Record;
        }
        if let Work::Zero { .. } = job.work {
            // The zero map says so already.
            return Stage::Invalidate;
        }
        if self.config.undefined_discards && !job.log.covers && !leans {
            return Stage::Unzero;
        }
        let ticket = self.flush(out);
        self.wait_for_flush(id, ticket);
        Stage::Unzero
    }

    fn unzero(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        if self.flusher.has_failed() {
            self.jobs[id].error = Some(RequestError::Io);
        }
        if self.jobs[id].error.is_some() {
            return Stage::Record;
        }
        if !self.jobs[id].makes_real() {
            return Stage::Invalidate;
        }
        // A member that failed and came back would show what it held before the discard.
        if let Some(ticket) = self.array.recorder.unrecorded_failure() {
            self.wait_for_record(id, ticket);
            return Stage::Unzero;
        }
        let stripe = self.jobs[id].stripe;
        self.maps.zero.map.clear(stripe.0);
        self.store_bit(id, Bit(MapKind::ZeroMap, stripe.0), Change::Cleared, out);
        Stage::Invalidate
    }

    /// Whether a write is to be durable when it ends, but with a member less some of it would be made of
    /// what other members have taken of its rows past the journal and not flushed.
    fn leans_on_caches(&self, id: JobId) -> bool {
        let job = &self.jobs[id];
        job.fua
            && job.work == Work::Write
            && job.kind != WriteKind::Full
            && self.journal.is_passed(job.stripe)
    }

    /// A job waits for the record of a failure, which may be impossible.
    pub(super) fn wait_for_record(&mut self, id: JobId, ticket: u64) {
        if self.array.recorder.is_broken() {
            self.jobs[id].error = Some(RequestError::Io);
        } else {
            self.jobs.wait(id, Wait::Record(ticket));
        }
    }

    /// A write that a member missed is acknowledged only when all others have that on record.
    fn record_failures(&mut self, id: JobId) -> Stage {
        let writes = self.jobs[id].work != Work::Read;
        if let Some(ticket) = self.array.recorder.unrecorded_failure().filter(|_| writes) {
            self.wait_for_record(id, ticket);
        }
        Stage::Finish
    }

    fn finish(&mut self, id: JobId, out: &mut Vec<Action>) {
        self.jobs.release_buffers(id);
        self.end_intent(id, out);
        self.end_staging(id);
        self.end_unmarked(id);
        let Job { work, stripe, error, .. } = self.jobs[id];
        match work {
            Work::Sync(kind) => {
                self.tell_findings(id, out);
                self.pass_step_done(kind, id, out);
            }
            Work::Replay { .. } => self.replayed(error.is_none()),
            Work::Align => self.alignment.ended(stripe, error.is_none()),
            Work::Read | Work::Write | Work::Zero { .. } | Work::Repair | Work::Reclaim => {}
        }
        if self.alignment.is_torn(stripe) {
            self.look_at_torn(id);
        }
        self.answer(id, out);
        self.jobs.unlock(id);
        let (bad, weak) =
            (mem::take(&mut self.jobs[id].bad), mem::take(&mut self.jobs[id].retries.weak));
        if work != Work::Repair && error.is_none() {
            self.repair_later(stripe, &bad);
            self.repair_later(stripe, &weak);
        }
        (self.jobs[id].bad, self.jobs[id].retries.weak) = (bad, weak);
        self.jobs.remove(id);
    }

    /// A job has done what users want of it, or failed to.
    pub(super) fn answer(&mut self, id: JobId, out: &mut Vec<Action>) {
        self.tell_policy(id);
        let error = self.jobs[id].error;
        let mut tags = mem::take(&mut self.jobs[id].tags);
        for tag in tags.drain(..) {
            self.part_done(tag, error, out);
        }
        self.jobs[id].tags = tags;
    }

    /// Rewrites unreadable blocks once the lock is free, row by row; if there is no room for a job
    /// now, the next read of the blocks will find them again.
    fn repair_later(&mut self, stripe: Stripe, bad: &[Bad]) {
        for (index, first) in bad.iter().enumerate() {
            if bad[..index].iter().any(|b| b.row == first.row) {
                continue;
            }
            let Some(repair) = self.new_job(Work::Repair, stripe) else { return };
            self.jobs[repair].bad.extend(bad.iter().filter(|b| b.row == first.row));
            self.start_job(repair);
        }
    }
}

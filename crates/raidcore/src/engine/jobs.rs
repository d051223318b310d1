//! The jobs of a range of stripes: their table, the locks and buffers that they hold, and what they
//! wait for.
//!
//! Invariants: a job is in the ready queue exactly if `queued`; of what a job waits for, each counts
//! once in `outstanding`; a stripe has one writer, or any number of readers, or both where the readers
//! read beside the writer.
//!
//! A reader may read *beside* a writer as long as what it reads is at home and not what is being
//! written: such blocks do not change, whatever becomes of the write. Parity does, so a reader that has
//! to reconstruct a block, or would go around a busy member, waits for the writer. Without that a write
//! that waits for a slow member would keep back the reads of a whole stripe.
//!
//! A write that goes to the staging log changes nothing at home, and so goes *beside* readers and what brings
//! the stripe home, which may wait for a slow member, too. It holds the lock as readers do: whoever
//! writes at home waits for it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::ops::{Index, IndexMut};

use det::{Instant, Slots};

use super::job::{Job, PIECES_MAX};
use super::stage::{Stage, Turn};
use super::wait::Wait;
use super::work::Work;
use super::{JobId, RequestError};
use crate::geometry::{Geometry, Role};
use crate::locks::Locks;
use crate::plan::Piece;
use crate::scratch::Scratch;
use crate::units::{Set, Stripe};

/// See the [module](self).
pub(super) struct Jobs {
    table: Slots<Job>,
    ready: VecDeque<JobId>,
    waits: Vec<(Wait, JobId)>,
    locks: Locks,
    scratch: Scratch<JobId>,
    /// How many are parts of users' requests.
    foreground: u16,
    /// How many users leave to background work.
    reserved: u16,
}

impl Index<JobId> for Jobs {
    type Output = Job;

    fn index(&self, id: JobId) -> &Job {
        &self.table[id]
    }
}

impl IndexMut<JobId> for Jobs {
    fn index_mut(&mut self, id: JobId) -> &mut Job {
        &mut self.table[id]
    }
}

impl Jobs {
    /// Room for `most` jobs, of which `reserved` are never users', and for their scratch buffers.
    ///
    /// # Panics
    /// If none is left for users.
    pub(super) fn new(geo: &Geometry, most: u16, reserved: u16, buffers: u16) -> Self {
        assert!(reserved < most, "no stripe is left for users");
        let room = usize::from(most);
        Self {
            table: Slots::new(room, || Job::new(geo)),
            ready: VecDeque::with_capacity(room * 2),
            waits: Vec::with_capacity(room * 2),
            locks: Locks::new(room),
            scratch: Scratch::new(buffers, room),
            foreground: 0,
            reserved,
        }
    }

    /// A new job, which begins at `now`, if there is room for one of its sort.
    pub(super) fn create(&mut self, work: Work, stripe: Stripe, now: Instant) -> Option<JobId> {
        let user = work.is_users();
        if user && usize::from(self.foreground + self.reserved) >= self.table.capacity() {
            return None;
        }
        let id = self.table.occupy()?;
        self.foreground += u16::from(user);
        self.table[id].renew(work, stripe, now);
        Some(id)
    }

    /// A job is over, or was never set going. It holds nothing.
    pub(super) fn remove(&mut self, id: JobId) {
        self.foreground -= u16::from(self.table[id].work.is_users());
        self.table.vacate(id);
    }

    /// The job of this name, if it is not over.
    pub(super) fn get(&self, id: JobId) -> Option<&Job> {
        self.table.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.table.iter().map(|(_, job)| job)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.table.occupied() == 0
    }

    /// Whether none is part of a user's request.
    pub(super) fn serve_no_user(&self) -> bool {
        self.foreground == 0
    }

    /// Whether more than one job serves a user.
    pub(super) fn serves_several(&self) -> bool {
        self.foreground > 1
    }

    // The ready queue.

    /// The job goes on as soon as those before it have.
    pub(super) fn make_ready(&mut self, id: JobId) {
        self.table[id].queued = true;
        self.ready.push_back(id);
    }

    /// The next that can go on.
    pub(super) fn pop_ready(&mut self) -> Option<JobId> {
        let id = self.ready.pop_front()?;
        self.table[id].queued = false;
        Some(id)
    }

    /// Whether some can go on.
    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    // What jobs wait for.

    /// One of the things that a job waits for has happened.
    pub(super) fn one_done(&mut self, id: JobId) {
        let job = &mut self.table[id];
        job.outstanding -= 1;
        if job.outstanding == 0 {
            self.make_ready(id);
        }
    }

    /// The job waits for something besides its own I/O.
    pub(super) fn wait(&mut self, id: JobId, wait: Wait) {
        self.table[id].outstanding += 1;
        self.waits.push((wait, id));
    }

    /// What jobs wait for.
    pub(super) fn waits(&self) -> impl Iterator<Item = &Wait> {
        self.waits.iter().map(|(wait, _)| wait)
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

    /// Ends the waits that `hopeless` finds, with an error for the jobs.
    pub(super) fn fail_waiting(&mut self, hopeless: impl Fn(&Wait) -> bool) {
        for (_, job) in self.waits.iter().filter(|(wait, _)| hopeless(wait)) {
            self.table[*job].error = Some(RequestError::Io);
        }
        self.wake(hopeless);
    }

    // Scratch buffers.

    /// How many scratch buffers there are.
    pub(super) fn scratch_buffers(&self) -> u16 {
        self.scratch.total()
    }

    /// Those that no job has.
    pub(super) fn free_scratch(&self) -> &[u16] {
        self.scratch.free()
    }

    /// Gives a job the scratch buffers of its plan, or makes it wait for them.
    pub(super) fn take_buffers(&mut self, id: JobId) {
        let job = &mut self.table[id];
        let roles = job.plan.scratch;
        if self.scratch.acquire(id, roles.len(), job.buffers.fill(roles)) {
            job.buffers.held = true;
        } else {
            job.outstanding += 1;
        }
    }

    /// Takes a job's buffers back, if it has any, and gives them to those that wait.
    pub(super) fn release_buffers(&mut self, id: JobId) {
        let job = &mut self.table[id];
        if !mem::take(&mut job.buffers.held) {
            return;
        }
        for role in job.plan.scratch {
            self.scratch.release(job.buffers.of(role));
        }
        while let Some(next) = self.scratch.next_served() {
            let job = &mut self.table[next];
            let roles = job.plan.scratch;
            self.scratch.take(roles.len(), job.buffers.fill(roles));
            job.buffers.held = true;
            self.one_done(next);
        }
    }

    // Locks.

    /// Sets a job going: it takes its stripe's lock or waits for it.
    pub(super) fn start(&mut self, id: JobId, is_busy: impl Fn(Stripe, Role) -> bool) {
        if self.lock(id, is_busy) {
            self.make_ready(id);
        }
    }

    /// Takes a job's lock; if it is not free, the job is made ready when it is. `is_busy` tells whether a
    /// role's member is said to be busy.
    pub(super) fn lock(&mut self, id: JobId, is_busy: impl Fn(Stripe, Role) -> bool) -> bool {
        let job = &self.table[id];
        let (stripe, exclusive) = (job.stripe, job.is_exclusive());
        if self.may_read_beside(job, is_busy) || self.may_store_beside(job) {
            self.table[id].turn = Turn::Beside;
            self.locks.join(stripe);
            return true;
        }
        self.locks.acquire(id.index() as u32, stripe, exclusive)
    }

    /// Takes a job's lock for reading, if no other job has to end before.
    pub(super) fn share(&mut self, id: JobId) -> bool {
        self.locks.share(self.table[id].stripe)
    }

    /// Gives a job's lock to the next waiters.
    pub(super) fn unlock(&mut self, id: JobId) {
        let (stripe, exclusive) = (self.table[id].stripe, self.table[id].is_exclusive());
        let (table, ready) = (&mut self.table, &mut self.ready);
        self.locks.release(stripe, exclusive, |holder| {
            if let Some(next) = table.id_at(holder) {
                table[next].queued = true;
                ready.push_back(next);
            }
        });
    }

    /// A job gets the lock that another, which reads the same stripe, has, and goes on at once.
    pub(super) fn join(&mut self, id: JobId) {
        self.locks.join(self.table[id].stripe);
        self.make_ready(id);
    }

    /// Whether a write may go to the staging log beside those that have the lock: the stripe is on its way
    /// home, or is being read and no other job waits.
    fn may_store_beside(&self, job: &Job) -> bool {
        if job.work != Work::Write || job.turn != Turn::Any || !job.log.may_stage {
            return false;
        }
        match self.locks.exclusive_holder(job.stripe) {
            Some(holder) => {
                let holder = self.table.id_at(holder);
                // It has to be known what it brings home, so that what is staged now is none of that.
                holder.is_some_and(|holder| {
                    let holder = &self.table[holder];
                    holder.log.gathered.is_some() || holder.is_given_up()
                })
            }
            None => {
                self.locks.is_shared(job.stripe) && self.locks.first_waiter(job.stripe).is_none()
            }
        }
    }

    /// Whether the stripe of a read is being written, but not what is to be read.
    fn may_read_beside(&self, job: &Job, is_busy: impl Fn(Stripe, Role) -> bool) -> bool {
        if job.work != Work::Read || job.turn == Turn::InLine {
            return false;
        }
        let holder = self.locks.exclusive_holder(job.stripe);
        let Some(writer) = holder.and_then(|holder| self.table.id_at(holder)) else { return false };
        let writer = &self.table[writer];
        // To go around a busy member takes parity, and the writer ends sooner than a busy member.
        if job.pieces.iter().any(|piece| is_busy(job.stripe, piece.role)) {
            return false;
        }
        match writer.work {
            // It also writes what it could not read.
            _ if !writer.bad.is_empty() => false,
            Work::Write if writer.leaves_home() => true,
            Work::Write => job.pieces.iter().all(|read| {
                let apart = |write: &Piece| {
                    write.role != read.role
                        || write.row + write.blocks <= read.row
                        || read.row + read.blocks <= write.row
                };
                writer.pieces.iter().all(apart)
            }),
            // What it brings home is read from the log until it is there.
            Work::Reclaim => true,
            Work::Read
            | Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. } => false,
        }
    }

    /// Whether a job that reads beside a writer finds all that it reads at home.
    pub(super) fn reads_home(&self, id: JobId, readable: Set<Role>) -> bool {
        let job = &self.table[id];
        job.bad.is_empty() && job.pieces.iter().all(|piece| readable.has(piece.role))
    }

    /// Whether a job would write what others, that read beside it, may be reading: it also writes what
    /// it could not read.
    pub(super) fn disturbs_readers(&self, id: JobId) -> bool {
        let job = &self.table[id];
        job.is_exclusive() && !job.bad.is_empty() && self.locks.is_shared(job.stripe)
    }

    /// A job beside a writer has to do what it can't do there, and waits for the writer after all.
    pub(super) fn fall_in(&mut self, id: JobId) -> Stage {
        self.unlock(id);
        self.table[id].turn = Turn::InLine;
        Stage::Lock
    }

    /// A write takes over those that wait first for its stripe; tells how many. Where they overlap, the
    /// first counts: none has been acknowledged, so no order was told.
    pub(super) fn absorb_waiting_writes(&mut self, id: JobId) -> u64 {
        let stripe = self.table[id].stripe;
        let mut absorbed = 0;
        // A reader beside this write counts on its blocks being all.
        while self.table[id].work == Work::Write && !self.locks.is_shared(stripe) {
            let waiter = self.locks.first_waiter(stripe).and_then(|h| self.table.id_at(h));
            let Some(other) = waiter else { break };
            let (job, rider) = (&self.table[id], &self.table[other]);
            let fits = rider.work == Work::Write
                && job.pieces.len() + rider.pieces.len() <= PIECES_MAX
                && job.asked.tags.len() + rider.asked.tags.len() <= PIECES_MAX;
            if !fits {
                break;
            }
            self.locks.remove_first_waiter(stripe);
            let rider = &mut self.table[other];
            let (pieces, tags) = (mem::take(&mut rider.pieces), mem::take(&mut rider.asked.tags));
            let fua = rider.asked.fua;
            let job = &mut self.table[id];
            job.pieces.extend(&pieces);
            job.asked.tags.extend(&tags);
            job.asked.fua |= fua;
            (self.table[other].pieces, self.table[other].asked.tags) = (pieces, tags);
            self.remove(other);
            absorbed += 1;
        }
        absorbed
    }

    // Invariants.

    /// Whether there is no job, lock or buffer in use.
    pub(super) fn is_idle(&self) -> bool {
        self.is_empty() && self.locks.is_idle() && self.scratch.is_idle()
    }

    /// Verifies what can be seen from outside a step.
    ///
    /// # Panics
    /// If an invariant is broken: that is a bug in the engine.
    pub(super) fn check(&self) {
        assert!(self.ready.is_empty(), "a step leaves nothing undone");
        for (id, job) in self.table.iter() {
            let waits = self.waits.iter().filter(|(_, j)| *j == id).count();
            assert!(!job.queued, "{id:?} was left in the queue");
            assert!(job.outstanding as usize >= waits, "{id:?} waits for more than it counts");
        }
        if self.is_empty() {
            assert!(self.locks.is_idle(), "a lock without a job");
            assert!(self.scratch.is_idle(), "scratch buffers without a job");
            assert!(self.waits.is_empty(), "a wait without a job");
            assert_eq!(self.foreground, 0, "users' jobs are counted");
        }
    }
}

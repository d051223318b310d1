//! Who may work on a stripe: writers alone, readers together; and readers beside a writer, as long as
//! what they read is at home and not what he writes. For such blocks do not change, whatever becomes
//! of the write; parity does, so whoever has to do without a block, or would go around a busy member,
//! has to wait for the writer.
//!
//! Without that a write that waits for a slow member would keep back the reads of a whole stripe.

use super::job::{Stage, Work};
use super::{Engine, JobId};
use crate::plan::Piece;
use crate::units::Set;

impl Engine {
    /// Takes a job's lock; if it is not free, the job is set going when it is.
    pub(super) fn lock(&mut self, id: JobId) -> bool {
        let stripe = self.jobs[id].stripe;
        if self.may_read_beside(id) {
            self.locks.join(stripe);
            self.jobs[id].beside = true;
            return true;
        }
        self.locks.acquire(id.index() as u32, stripe, self.jobs[id].is_exclusive())
    }

    /// Gives a job's lock to whoever is next.
    pub(super) fn unlock(&mut self, id: JobId) {
        let (stripe, exclusive) = (self.jobs[id].stripe, self.jobs[id].is_exclusive());
        let (jobs, ready) = (&mut self.jobs, &mut self.ready);
        self.locks.release(stripe, exclusive, |holder| {
            if let Some(next) = jobs.id_at(holder) {
                jobs[next].queued = true;
                ready.push_back(next);
            }
        });
    }

    /// Whether somebody writes to a read's stripe, but not to what is to be read.
    fn may_read_beside(&self, id: JobId) -> bool {
        let job = &self.jobs[id];
        if job.work != Work::Read || job.in_line {
            return false;
        }
        let holder = self.locks.exclusive_holder(job.stripe);
        let Some(writer) = holder.and_then(|holder| self.jobs.id_at(holder)) else { return false };
        let writer = &self.jobs[writer];
        // To go around who is busy takes parity, and the writer has ended sooner than who is busy.
        let is_busy =
            |piece: &Piece| self.is_member_busy(self.geo.member(job.stripe, piece.role).index());
        if job.pieces.iter().any(is_busy) {
            return false;
        }
        match writer.work {
            // It also writes what it could not read.
            _ if !writer.bad.is_empty() => false,
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
    pub(super) fn reads_home(&self, id: JobId, readable: Set) -> bool {
        let job = &self.jobs[id];
        job.bad.is_empty() && job.pieces.iter().all(|piece| readable.has(piece.role.index()))
    }

    /// Whether a job would write what others, that read beside it, may be reading: it also writes what
    /// it could not read. It gives its lock back then, and waits until they have ended.
    pub(super) fn has_to_wait_for_readers(&mut self, id: JobId) -> bool {
        let job = &self.jobs[id];
        let waits = job.is_exclusive() && !job.bad.is_empty() && self.locks.is_shared(job.stripe);
        if waits {
            // Who has the lock next may take it over.
            self.break_promise(id);
            self.unlock(id);
        }
        waits
    }

    /// Who reads beside a writer, and has to do without a block, waits for him after all.
    pub(super) fn fall_in(&mut self, id: JobId) -> Stage {
        self.unlock(id);
        (self.jobs[id].beside, self.jobs[id].in_line) = (false, true);
        Stage::Lock
    }
}

//! Reads that take long are tried another way, too (hedged requests: Dean and Barroso, "The Tail at
//! Scale").
//!
//! Where the policy's patience has an end, a read goes to scratch memory. If it is not there by
//! then, a second job reads what the first still waits for from the other members. The one that
//! has all of it first takes the tag and answers; the other is given up: it ends when the devices have
//! answered, and its memory is its own until then.
//!
//! Invariants: of two that read the same, one has the tag; no I/O of theirs goes to a user's memory,
//! so that nothing is written there after the answer; the second holds the lock as long as the first
//! did, so both read the same.

mod pairs;
mod twins;

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;

use det::{Id, Instant};

use crate::engine::JobId;
use crate::geometry::Role;
use crate::units::Set;

pub(in crate::engine) use twins::{Ended, Left, Twin};

/// How many reads a plan may have for it to be known which of them have landed.
const READS_MAX: usize = 64;

/// The deadlines of reads, the earliest first. The entry of a read that has ended stays until it is popped
/// from the front.
#[derive(Debug, Default)]
pub(in crate::engine) struct Patience {
    until: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Patience {
    /// A read is to be tried another way if it is not there by then.
    pub(in crate::engine) fn wait(&mut self, until: Instant, job: JobId) {
        self.until.push(Reverse((until, job.to_bits())));
    }

    /// When the first to wait has waited long enough.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        self.until.peek().map(|&Reverse((at, _))| at)
    }

    /// Pops a read that has waited long enough.
    pub(in crate::engine) fn pop_due(&mut self, now: Instant) -> Option<JobId> {
        self.pop_if(|at, _| at <= now)
    }

    /// Pops the entries of reads that wait no more.
    pub(in crate::engine) fn forget_ended(&mut self, waits: impl Fn(JobId) -> bool) {
        while self.pop_if(|_, job| !waits(job)).is_some() {}
    }

    fn pop_if(&mut self, may: impl FnOnce(Instant, JobId) -> bool) -> Option<JobId> {
        let &Reverse((at, job)) = self.until.peek()?;
        let job = Id::from_bits(job);
        may(at, job).then(|| self.until.pop())?;
        Some(job)
    }
}

/// Whether a second read has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Second {
    Begun,
    /// There is no room, or the first is not under way yet.
    NotYet,
    /// Not of what the first reads, as it reads it.
    Never,
}

/// What a read or write has to do with another one of the same.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Hedge {
    /// The other, if there are two, of which one is to answer.
    partner: Option<JobId>,
    /// It is the second of them, and goes around these roles.
    avoids: Set<Role>,
    /// Which of the plan's reads have ended well.
    landed: Set<usize>,
    /// How long a read has waited when it is looked at next, if it is looked at: never while anything of it goes to a
    /// user's memory.
    pub(in crate::engine) waited: Option<Duration>,
    /// When the second of them has answered in its place.
    answered: Option<Instant>,
    /// How long a write may take at home, from when it reads, before it is staged as well; for ever if none.
    pub(in crate::engine) patience: Option<Duration>,
    /// Of a write that has taken longer, and of the one that stages the same.
    pub(in crate::engine) twin: Option<Twin>,
}

impl Hedge {
    /// Whether a plan with so many reads can be followed by a second one.
    pub(in crate::engine) fn can_follow(reads: usize) -> bool {
        reads <= READS_MAX
    }

    /// Whether it is one of two.
    pub(in crate::engine) fn is_paired(&self) -> bool {
        self.partner.is_some()
    }

    /// Whether it is the second of two.
    pub(in crate::engine) fn is_second(&self) -> bool {
        !self.avoids.is_empty()
    }

    /// The roles that it goes around.
    pub(in crate::engine) fn avoids(&self) -> Set<Role> {
        self.avoids
    }

    /// When the second of two has answered in its place, if it has.
    pub(in crate::engine) fn answered(&self) -> Option<Instant> {
        self.answered
    }

    /// The second of two answers in its place.
    pub(in crate::engine) fn set_answered(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// It is planned anew.
    pub(in crate::engine) fn forget_patience(&mut self) {
        (self.waited, self.patience) = (None, None);
    }

    /// The plan's reads are begun.
    pub(in crate::engine) fn begin_reads(&mut self) {
        self.landed = Set::EMPTY;
    }

    /// One of the plan's reads has ended well.
    #[inline]
    pub(in crate::engine) fn land(&mut self, index: u16) {
        let index = usize::from(index);
        if index < READS_MAX {
            self.landed = self.landed.with(index);
        }
    }
}

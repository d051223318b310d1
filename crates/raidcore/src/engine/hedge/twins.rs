//! Writes that take long at home are staged, too.
//!
//! A second job takes over the write's tags, stages it, and answers once the log has it. The first, if it still reads
//! old data and parity, ends when it has them, and home stays as it was. If it has read them, it goes on to the end: its
//! entry may be in the journal by then, and what is written there is taken to be home. What both have ended well need
//! not come home again.
//!
//! Invariants: what the first writes is in memory of its own from when it has computed it, as the users' is theirs
//! again once the second has answered; the second is begun while the first waits for members, not while it computes.
//! It is stored, or leaves the answer to the first, in the step in which it is begun: before anything of the first can
//! be seen. Both hold the stripe's lock, so who would write at home waits for both.

use det::Instant;

use crate::engine::job::Asked;
use crate::engine::jobs::Jobs;
use crate::engine::stage::{Stage, Turn};
use crate::engine::work::Work;
use crate::engine::{JobId, Way};

/// A write that takes long at home, or the one that stages the same.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Twin {
    other: JobId,
    /// Which way the one at home was to go.
    pub(in crate::engine) way: Way,
    /// When that was chosen, if it was late.
    pub(in crate::engine) late: Option<Instant>,
    /// How the other has ended, if it has.
    pub(in crate::engine) other_ended: Option<Ended>,
}

/// How one of two has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Ended {
    pub(in crate::engine) at: Instant,
    pub(in crate::engine) left: Left,
}

/// What one of two has left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Left {
    /// It has failed, or was not staged after all: nothing follows from it.
    Unknown,
    /// The one at home has only read.
    AsItWas,
    /// The one at home has written all of it.
    AtHome,
    /// It is staged in this entry.
    Staged(u64),
}

impl Jobs {
    /// Whether a write is on its way home that may be staged as well.
    pub(in crate::engine) fn writes_alone(&self, id: JobId) -> bool {
        self.get(id).is_some_and(|job| job.hedge.patience.is_some() && !job.asked.tags.is_empty())
    }

    /// Whether users' memory is of no use any more to a write on its way home, and it waits for members.
    pub(in crate::engine) fn waits_at_home(&self, id: JobId) -> bool {
        let job = &self[id];
        let waits = match job.stage {
            Stage::AfterRead => !job.replan && job.bad.is_empty(),
            // For its entry in the journal or a bit, or for members that change.
            Stage::Write | Stage::Harden => true,
            Stage::Lock
            | Stage::Plan
            | Stage::Store
            | Stage::Buffers
            | Stage::Read
            | Stage::Compute
            | Stage::Keep
            | Stage::Locate
            | Stage::Judge
            | Stage::Mend
            | Stage::Intend
            | Stage::Unzero
            | Stage::Invalidate
            | Stage::Record
            | Stage::Finish => false,
        };
        waits && job.outstanding > 0 && job.error.is_none()
    }

    /// Begins a job that stages what another writes home, if there is room for one. Tells whether there was.
    pub(in crate::engine) fn begin_twin(&mut self, home: JobId, now: Instant) -> bool {
        let stripe = self[home].stripe;
        let Some(twin) = self.create(Work::Write, stripe, now) else { return false };
        let Asked { fua, blocks, begun, way, late, .. } = self[home].asked;
        let pieces = core::mem::take(&mut self[home].pieces);
        let job = &mut self[twin];
        job.pieces.extend(&pieces);
        (job.asked.fua, job.asked.blocks, job.asked.begun) = (fua, blocks, begun);
        (job.asked.way, job.asked.late) = (Way::Around, Some(now));
        (job.stage, job.turn) = (Stage::Store, Turn::Beside);
        job.hedge.twin = Some(Twin { other: home, way, late, other_ended: None });
        let job = &mut self[home];
        job.pieces = pieces;
        job.hedge.twin = Some(Twin { other: twin, way, late, other_ended: None });
        if job.stage == Stage::AfterRead {
            job.asked.way = Way::Around;
        }
        self.pass_tags(home, twin);
        self.join(twin);
        true
    }

    /// A job can't stage what another writes home, so that one answers after all. Tells whether there is one.
    pub(in crate::engine) fn leave_to_twin(&mut self, id: JobId) -> bool {
        let Some(Twin { other, way, .. }) = self[id].hedge.twin.take() else { return false };
        self.pass_tags(id, other);
        let other = &mut self[other];
        (other.hedge.twin, other.asked.way) = (None, way);
        true
    }

    /// One of two has ended. Returns how the other has, if that was before.
    pub(in crate::engine) fn twin_ended(&mut self, id: JobId, ended: Ended) -> Option<Ended> {
        let twin = self[id].hedge.twin?;
        if twin.other_ended.is_none() {
            let other = &mut self[twin.other].hedge.twin;
            other.as_mut().expect("it is one of two").other_ended = Some(ended);
        }
        twin.other_ended
    }
}

//! Flushes. All that wait share a round: the open batch is closed, it and earlier batches are
//! written, and the groups that hold them are flushed.
//!
//! Invariant: a flush that comes during a round waits for the next one, since the round may not
//! include everything that was acknowledged before the flush.

use alloc::vec::Vec;
use core::mem;

use det::Instant;
use raidcore::engine::IoError;
use raidcore::units::Tag;

use super::stream::HOT;
use super::{Action, IoOp, LogVolume, Purpose};
use crate::units::GroupId;

/// Segments of users' blocks after which the volume flushes by itself. This bounds what a recovery
/// has to read to check that batches are complete.
const UNFLUSHED: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlushStage {
    Idle,
    /// Batches up to this one are being written.
    Writing(u64),
    /// This many groups are being flushed.
    Flushing(u64, u32),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Flusher {
    stage: FlushStage,
    /// For the next round.
    waiting: Vec<Tag>,
    /// Of this round.
    served: Vec<Tag>,
    /// For each group: batches of users' blocks written to it, and how many of them are flushed.
    groups: Vec<(u64, u64)>,
    /// Batches written since the last round.
    written: u64,
}

impl Flusher {
    pub(super) fn new(groups: usize, tags: usize) -> Self {
        Self {
            stage: FlushStage::Idle,
            waiting: Vec::with_capacity(tags),
            served: Vec::with_capacity(tags),
            groups: alloc::vec![(0, 0); groups],
            written: 0,
        }
    }

    pub(super) fn wait(&mut self, tag: Tag) {
        self.waiting.push(tag);
    }

    pub(super) fn wrote(&mut self, group: GroupId) {
        self.groups[group.index()].0 += 1;
        self.written += 1;
    }

    /// Takes all waiting flushes.
    pub(super) fn give_up(&mut self) -> Vec<Tag> {
        self.stage = FlushStage::Idle;
        let mut all = mem::take(&mut self.served);
        all.append(&mut self.waiting);
        all
    }
}

impl LogVolume {
    /// Moves rounds on.
    pub(super) fn flush(&mut self, out: &mut Vec<Action>) {
        loop {
            match self.flusher.stage {
                FlushStage::Idle => {
                    let overdue = self.flusher.written >= UNFLUSHED;
                    if !self.checkpointer.is_serving()
                        || self.flusher.waiting.is_empty() && !overdue
                    {
                        return;
                    }
                    mem::swap(&mut self.flusher.waiting, &mut self.flusher.served);
                    if !self.flusher.served.is_empty() {
                        self.seal(HOT, out);
                    }
                    self.flusher.stage = FlushStage::Writing(self.streams[HOT].sequence);
                }
                FlushStage::Writing(until) if self.streams[HOT].written() >= until => {
                    let flushing = self.flush_groups(out);
                    self.flusher.stage = FlushStage::Flushing(until, flushing);
                }
                FlushStage::Flushing(until, 0) => {
                    self.end_round(until, out);
                }
                FlushStage::Writing(_) | FlushStage::Flushing(..) => return,
            }
        }
    }

    /// Flushes the groups to which batches were written since their last flush.
    fn flush_groups(&mut self, out: &mut Vec<Action>) -> u32 {
        let mut flushing = 0;
        for group in self.groups() {
            let (writes, flushed) = self.flusher.groups[group.index()];
            if flushed < writes {
                flushing += 1;
                self.issue(Purpose::Flush { group, writes }, group, IoOp::Flush, (0, 0), out);
            }
        }
        self.flusher.written = 0;
        flushing
    }

    pub(super) fn flush_done(
        &mut self,
        group: GroupId,
        writes: u64,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        if let Err(error) = result {
            self.fail(group, error, out);
            return;
        }
        self.flusher.groups[group.index()].1 = writes;
        if let FlushStage::Flushing(_, left) = &mut self.flusher.stage {
            *left -= 1;
        }
    }

    fn end_round(&mut self, until: u64, out: &mut Vec<Action>) {
        let hot = &mut self.streams[HOT];
        hot.durable = hot.durable.max(until);
        self.flusher.stage = FlushStage::Idle;
        let mut served = mem::take(&mut self.flusher.served);
        for tag in served.drain(..) {
            self.complete(tag, Ok(()), out);
        }
        self.flusher.served = served;
    }

    /// Writes the open batch when it has waited for long enough.
    pub(super) fn write_what_waited(&mut self, out: &mut Vec<Action>) {
        if self.deadline().is_some_and(|at| at <= self.now) {
            self.seal(HOT, out);
        }
    }

    /// When the volume needs an [`Input::Tick`](super::Input::Tick): a block waits in memory, or
    /// the rest of a discard for the next step.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.forgets_on && !self.failed {
            return Some(self.now);
        }
        let opened = self.streams[HOT].opened().filter(|_| !self.failed);
        opened.map(|at| at + self.config.patience)
    }
}

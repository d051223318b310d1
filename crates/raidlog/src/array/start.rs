//! The start of a log array: a recovery that reads through the arrays.
//!
//! Invariants: at most one read or write-back is under way. Blocks whose redundancy is in doubt are
//! written back before the recovery gets them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::{Engine, IoError, Op, RequestError};

use super::{Action, Carried, LogArray, Look, Looking, SLOT_BLOCKS, Upper, slot_at};
use crate::codec::VolumeId;
use crate::recovery::{Answer, Found, Recovery, Wanted};
use crate::volume::{self, Config};

/// See the [module](self).
pub(super) struct Start {
    recovery: Box<Recovery>,
    stage: StartStage,
    /// The blocks that the recovery wants, and how many of them it has got.
    wanted: Option<(Wanted, u32)>,
    checksums: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StartStage {
    /// The next read can begin.
    Ready,
    Reading,
    Mending,
    Looking,
}

impl Start {
    pub(super) fn new(config: Config, id: VolumeId, engines: &[Engine]) -> Self {
        let blocks: Vec<u64> = engines.iter().map(|e| e.geometry().capacity()).collect();
        let stripe = engines.first().map_or(1, |engine| engine.geometry().stripe_blocks());
        Self {
            recovery: Box::new(Recovery::new(config, id, &blocks, stripe)),
            stage: StartStage::Ready,
            wanted: None,
            checksums: Vec::new(),
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.stage == StartStage::Ready
    }

    /// The next part to be read, or the part that is being read.
    fn part(&self) -> Option<(Wanted, u64, u32)> {
        let (wanted, done) = self.wanted?;
        let at = wanted.at + u64::from(done);
        Some((wanted, at, (wanted.blocks - done).min(SLOT_BLOCKS)))
    }
}

impl LogArray {
    /// Goes on with the recovery, if it can.
    pub(super) fn start(&mut self, now: Instant, out: &mut Vec<Action>) {
        if let Upper::Starting(start) = &self.upper
            && start.stage == StartStage::Ready
            && start.wanted.is_none()
            && !self.stopping
        {
            self.recover(now, None, out);
        }
    }

    /// Asks for the next part.
    fn read_on(&mut self, now: Instant, op: Op, stage: StartStage, out: &mut Vec<Action>) {
        let Upper::Starting(start) = &mut self.upper else { return };
        let Some((wanted, at, blocks)) = start.part() else { return };
        start.stage = stage;
        let carried = Carried::Start(self.slots.start);
        self.ask(now, wanted.group, carried, (op, at, blocks, false), out);
    }

    /// What was read or written back has ended.
    pub(super) fn start_carried(
        &mut self,
        now: Instant,
        result: Result<(), RequestError>,
        out: &mut Vec<Action>,
    ) {
        let Upper::Starting(start) = &mut self.upper else { return };
        let Some((wanted, at, blocks)) = start.part() else { return };
        if result.is_err() {
            return self.recover(now, Some(Answer::Failed(IoError::Medium)), out);
        }
        let engine = &self.arrays[wanted.group.index()].engine;
        if start.stage == StartStage::Reading && engine.is_in_doubt(at, blocks) {
            return self.read_on(now, Op::Write, StartStage::Mending, out);
        }
        start.stage = StartStage::Looking;
        let Wanted { group, checksums, .. } = wanted;
        let slot = self.slots.start;
        let (look, from) = (Look(None, slot), slot_at(slot));
        out.push(Action::Look(Looking { look, from, group, at, blocks, checksums }));
    }

    /// The recovery's answer to a part is there.
    pub(super) fn start_seen(&mut self, now: Instant, answer: Answer<'_>, out: &mut Vec<Action>) {
        let Upper::Starting(start) = &mut self.upper else { return };
        let (Some((wanted, _, blocks)), Answer::Checksums(part)) = (start.part(), answer) else {
            return self.recover(now, Some(answer), out);
        };
        start.checksums.extend_from_slice(part);
        let done = start.wanted.as_mut().map_or(0, |(_, done)| {
            *done += blocks;
            *done
        });
        if done < wanted.blocks {
            return self.read_on(now, Op::Read, StartStage::Reading, out);
        }
        let all = core::mem::take(&mut start.checksums);
        self.recover(now, Some(Answer::Checksums(&all)), out);
    }

    /// Gives the recovery an answer.
    fn recover(&mut self, now: Instant, answer: Option<Answer<'_>>, out: &mut Vec<Action>) {
        let Upper::Starting(start) = &mut self.upper else { return };
        (start.stage, start.wanted) = (StartStage::Ready, None);
        start.checksums.clear();
        if self.stopping {
            return;
        }
        match start.recovery.step(answer) {
            Ok(Found::Wanted(wanted)) => {
                start.wanted = Some((wanted, 0));
                self.read_on(now, Op::Read, StartStage::Reading, out);
            }
            Ok(Found::Volume(volume)) => {
                self.upper = Upper::Running(volume);
                self.upper(now, volume::Input::Tick, out);
                for request in core::mem::take(&mut self.held) {
                    self.upper(now, volume::Input::Request(request), out);
                }
            }
            Err(error) => {
                self.upper = Upper::Lost;
                // Before the refusals, so that they can give the reason.
                out.push(Action::Lost(error));
                self.refuse_held(out);
            }
        }
    }
}

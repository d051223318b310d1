//! Requests that change a part of a block: the rest of the block is read first, and written with
//! it.
//!
//! Invariants:
//! - While a block is read and written, no other request that changes it is with the engine:
//!   earlier ones are waited for, later ones wait. So no change is lost.
//! - Waiting requests that overlap begin in the order in which they came.
//! - Requests of whole blocks are checked only while there are others.

use std::collections::VecDeque;

use raidcore::engine::{Op, RequestError};
use raidcore::units::{BLOCK_BYTES, Lba, Tag};

use crate::volume::{Edges, Submit};

/// The requests that are under way, by their tags.
pub(super) trait Table {
    /// How many tags there are.
    fn tags(&self) -> u16;

    /// The request of a tag that is under way.
    fn asked(&self, tag: Tag) -> Option<Submit>;

    /// The memory of a tag that is under way.
    fn buffer(&mut self, tag: Tag) -> &mut [u8];
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Todo {
    /// Pass this request of whole blocks to the engine.
    Ask(Tag, Submit),
    /// A request has ended.
    Answer(Tag, Result<(), RequestError>),
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Partials {
    active: Vec<(Tag, Change)>,
    waiting: VecDeque<(Tag, Submit)>,
    /// Parts of active ones that have ended.
    ended: VecDeque<(Tag, Result<(), RequestError>)>,
    /// Whether a waiting request may be able to begin.
    look: bool,
}

impl Partials {
    /// Whether a request goes straight to the engine.
    pub(super) fn lets_pass(&self, asked: Submit) -> bool {
        asked.edges.is_none() && self.is_empty() || !changes(asked)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty()
    }

    /// A request has come that does not go straight to the engine.
    pub(super) fn came(&mut self, tag: Tag, asked: Submit) {
        self.waiting.push_back((tag, asked));
        self.look = true;
    }

    /// The engine has ended a request of this tag. Tells whether it was only a part.
    pub(super) fn ended(&mut self, tag: Tag, result: Result<(), RequestError>) -> bool {
        self.look = true;
        let is_part = self.active.iter().any(|(active, _)| *active == tag);
        if is_part {
            self.ended.push_back((tag, result));
        }
        is_part
    }

    /// What is to be done next.
    pub(super) fn next(&mut self, table: &mut impl Table) -> Option<Todo> {
        if let Some((tag, result)) = self.ended.pop_front() {
            let at = self.active.iter().position(|(active, _)| *active == tag)?;
            let next = self.active[at].1.go_on(result, table.buffer(tag));
            if matches!(next, Step::Done(_)) {
                self.active.swap_remove(at);
            }
            return Some(next.of(tag));
        }
        if !std::mem::take(&mut self.look) {
            return None;
        }
        let at = (0..self.waiting.len()).find(|&at| !self.has_to_wait(at, table))?;
        self.look = true;
        let (tag, asked) = self.waiting.remove(at)?;
        if asked.edges.is_none() {
            return Some(Todo::Ask(tag, asked));
        }
        let mut change = Change::new(asked);
        let first = change.go_on(Ok(()), table.buffer(tag));
        self.active.push((tag, change));
        Some(first.of(tag))
    }

    fn has_to_wait(&self, at: usize, table: &impl Table) -> bool {
        let (own, asked) = self.waiting[at];
        let waits = |tag| self.waiting.iter().any(|(waiting, _)| *waiting == tag);
        let overlaps = |&tag: &Tag| table.asked(tag).is_some_and(|other| overlap(other, asked));
        let mut others = (0..table.tags()).map(Tag).filter(|&tag| tag != own).filter(overlaps);
        self.waiting.range(..at).any(|(_, before)| overlap(*before, asked))
            || self.active.iter().any(|(_, change)| overlap(change.asked, asked))
            || !asked.edges.is_none() && others.any(|tag| !waits(tag))
    }
}

fn changes(asked: Submit) -> bool {
    matches!(asked.op, Op::Write | Op::Discard | Op::WriteZeroes)
}

/// Whether both change some block.
fn overlap(one: Submit, other: Submit) -> bool {
    let end = |of: Submit| of.lba.0.saturating_add(of.blocks.into());
    changes(one) && changes(other) && one.lba.0 < end(other) && other.lba.0 < end(one)
}

/// What comes next of a change.
enum Step {
    Ask(Submit),
    Done(Result<(), RequestError>),
}

impl Step {
    fn of(self, tag: Tag) -> Todo {
        match self {
            Self::Ask(submit) => Todo::Ask(tag, submit),
            Self::Done(result) => Todo::Answer(tag, result),
        }
    }
}

/// How far a change is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeStage {
    Begun,
    FrontRead,
    FrontDone,
    BackRead,
    BackDone,
    Whole,
}

/// A change of a part of a block. A write is assembled in its buffer and written at once. For a
/// discard or write-zeroes, the partial blocks are written, and the blocks between them are
/// requested.
struct Change {
    asked: Submit,
    stage: ChangeStage,
    /// The first block of the buffer, while it is read into.
    aside: Vec<u8>,
}

impl Change {
    fn new(asked: Submit) -> Self {
        Self { asked, stage: ChangeStage::Begun, aside: Vec::new() }
    }

    /// The next step after one has ended.
    fn go_on(&mut self, result: Result<(), RequestError>, buffer: &mut [u8]) -> Step {
        if result.is_err() {
            return Step::Done(result);
        }
        let Submit { op, lba, blocks, edges, .. } = self.asked;
        let writes = op == Op::Write;
        let (front, back) = (usize::from(edges.front), usize::from(edges.back));
        let last = lba.0 + u64::from(blocks) - 1;
        loop {
            match self.stage {
                ChangeStage::Begun => {
                    if front > 0 || (blocks == 1 && back > 0) {
                        self.stage = ChangeStage::FrontRead;
                        return self.read(lba.0, buffer);
                    }
                    self.stage = ChangeStage::FrontDone;
                }
                ChangeStage::FrontRead => {
                    let end = if blocks == 1 { BLOCK_BYTES - back } else { BLOCK_BYTES };
                    self.stage = ChangeStage::FrontDone;
                    if !writes {
                        buffer[front..end].fill(0);
                        return self.write(lba.0);
                    }
                    buffer[front..end].copy_from_slice(&self.aside[front..end]);
                }
                ChangeStage::FrontDone => {
                    if back > 0 && blocks > 1 {
                        self.stage = ChangeStage::BackRead;
                        return self.read(last, buffer);
                    }
                    self.stage = ChangeStage::BackDone;
                }
                ChangeStage::BackRead => {
                    let kept = BLOCK_BYTES - back;
                    self.stage = ChangeStage::BackDone;
                    if !writes {
                        buffer[..kept].fill(0);
                        return self.write(last);
                    }
                    let (first, rest) = buffer.split_at_mut(BLOCK_BYTES);
                    let at = (blocks as usize - 2) * BLOCK_BYTES;
                    rest[at + kept..at + BLOCK_BYTES].copy_from_slice(&first[kept..]);
                    first.copy_from_slice(&self.aside);
                }
                ChangeStage::BackDone => {
                    self.stage = ChangeStage::Whole;
                    let whole = Submit { edges: Edges::NONE, ..self.asked };
                    if writes {
                        return Step::Ask(whole);
                    }
                    let in_front = u32::from(front > 0 || (blocks == 1 && back > 0));
                    let behind = u32::from(back > 0 && blocks > 1);
                    let between = blocks - in_front - behind;
                    if between > 0 {
                        let lba = Lba(lba.0 + u64::from(in_front));
                        return Step::Ask(Submit { lba, blocks: between, ..whole });
                    }
                }
                ChangeStage::Whole => return Step::Done(Ok(())),
            }
        }
    }

    /// Reads a block to the beginning of the buffer.
    fn read(&mut self, lba: u64, buffer: &[u8]) -> Step {
        self.aside.clear();
        self.aside.extend(&buffer[..BLOCK_BYTES]);
        self.ask(Op::Read, lba)
    }

    /// Writes a block from the beginning of the buffer.
    fn write(&self, lba: u64) -> Step {
        self.ask(Op::Write, lba)
    }

    fn ask(&self, op: Op, lba: u64) -> Step {
        let fua = self.asked.fua && op == Op::Write;
        Step::Ask(Submit { op, lba: Lba(lba), blocks: 1, fua, edges: Edges::NONE })
    }
}

#[cfg(test)]
mod tests;

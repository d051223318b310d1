//! Checkpoints: the map and the segments' ages, made durable, so that a start replays little and
//! segments can be reused.
//!
//! Checkpoints with even and odd numbers have an area each. They write into it the pages that have
//! changed since the last checkpoint there, while users continue. So a page may include blocks that
//! were appended after the checkpoint began. That does no harm: all such batches are written and
//! flushed before the header is, and replaying users' batches once more ends in the same map.
//!
//! Invariants:
//! - After a start, nothing is written before everything that it has read is durable. If only the
//!   host died, that data may still be in caches, and one area is about to be overwritten.
//! - The header is written when all pages, and all batches that they may refer to, are durable.
//! - Replay begins with the batch that was open when the checkpoint began. The cleaners' streams
//!   continue after everything that pages may refer to.
//! - When the checkpoint is durable, exactly those segments are freed that were empty when it
//!   began.
//! - A checkpoint that limits replay takes a small part of the log that it covers.
//! - A checkpoint that is written only to free segments gives back more than it costs, unless users
//!   wait for it. So a volume at rest stops writing.

use alloc::vec::Vec;

use raidcore::engine::IoError;

use super::policy::{Gain, Wish};
use super::stream::{HOT, cold};
use super::{Action, IoOp, LogVolume, Note, Pages, Purpose};
use crate::codec::{Header, Position, encode_page};
use crate::sizes::AGES_PER_PAGE;
use crate::units::{GroupId, Segment};

/// The most pages of an I/O.
const RUN: u32 = 64;

/// The most I/O under way: some for each group, so that a slow group does not delay the others.
pub(crate) fn ios(groups: usize) -> u32 {
    (8 * groups as u32).clamp(16, 64)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CheckpointStage {
    Idle,
    /// The blocks that the start has read are being made durable.
    Settling,
    /// The next page to be looked at.
    Pages(u32),
    /// The batches that pages may refer to are being written.
    Draining,
    /// All groups are being flushed.
    Syncing,
    /// The header is being written.
    Heading,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Checkpointer {
    stage: CheckpointStage,
    /// The last durable checkpoint.
    number: u64,
    /// The header of the one that is being written.
    header: Option<Header>,
    /// For each stream, where it continues, and the last batch that pages may refer to.
    drained: Vec<Option<(Position, u64)>>,
    /// I/O under way.
    ios: u32,
    /// Blocks of users' log since the last one: data, summaries, padding.
    written: u64,
    /// Blocks that cleaners had moved when the last one began.
    moved: u64,
    /// The volume has had a checkpoint since it started.
    serving: bool,
    /// The last one was begun when the volume was at rest.
    final_one: bool,
    at_rest: bool,
}

impl Checkpointer {
    pub(super) fn new(number: u64) -> Self {
        Self {
            stage: CheckpointStage::Idle,
            number,
            header: None,
            drained: Vec::new(),
            ios: 0,
            written: 0,
            moved: 0,
            serving: false,
            final_one: false,
            at_rest: false,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether users are served: the state after a crash is on record.
    pub(super) fn is_serving(&self) -> bool {
        self.serving
    }

    /// Whether a checkpoint has recorded the state at the stop.
    pub(super) fn has_recorded_stop(&self) -> bool {
        self.at_rest
    }

    pub(super) fn wrote(&mut self, blocks: u32) {
        self.written += u64::from(blocks);
    }
}

impl LogVolume {
    /// Moves the checkpoint on, or begins one when it is due.
    pub(super) fn checkpoint(&mut self, out: &mut Vec<Action>) {
        loop {
            let before = self.checkpointer.stage;
            match before {
                CheckpointStage::Idle if self.checkpoint_is_due() => self.begin_checkpoint(out),
                CheckpointStage::Settling if self.checkpointer.ios == 0 => {
                    self.checkpointer.stage = CheckpointStage::Pages(0);
                }
                CheckpointStage::Idle => return,
                CheckpointStage::Pages(from) => self.store_pages(from, out),
                CheckpointStage::Draining => self.drain(out),
                CheckpointStage::Syncing if self.checkpointer.ios == 0 => self.store_header(out),
                CheckpointStage::Heading if self.checkpointer.ios == 0 => self.end_checkpoint(out),
                CheckpointStage::Settling | CheckpointStage::Syncing | CheckpointStage::Heading => {
                    return;
                }
            }
            if self.checkpointer.stage == before {
                return;
            }
        }
    }

    fn checkpoint_is_due(&self) -> bool {
        let state = &self.checkpointer;
        if !state.serving || state.written >= self.interval() {
            return true;
        }
        if self.is_winding_up() && self.ops.occupied() == 0 {
            return !state.at_rest;
        }
        let emptied = self.segments.all_emptied();
        if emptied == 0 {
            return false;
        }
        let gain = Gain {
            emptied,
            slots: self.shape.slots(),
            moved: self.counters.moved - state.moved,
            cost: self.checkpoint_cost(self.map.dirty(self.area())),
            stalled: self.stalled,
        };
        // At rest no request waits.
        let busy = state.written > 0 || !self.writing.is_empty();
        let wish = |group: GroupId| {
            let room = self.room_of(group);
            let lacks = room.there() == 0 && self.lacks_segment(cold(group));
            Wish {
                room,
                is_back: self.is_back(group),
                cleans: self.is_cleaning(group) && !lacks,
                is_stuck: busy && lacks,
            }
        };
        gain.is_wanted(self.groups().map(wish))
    }

    /// Blocks of users' log after which a checkpoint is written to limit replay; more if the
    /// checkpoint is large.
    fn interval(&self) -> u64 {
        let cost = self.checkpoint_cost(self.map.dirty(self.area()));
        self.config.checkpoint.max(cost * u64::from(self.config.checkpoint_share))
    }

    fn begin_checkpoint(&mut self, out: &mut Vec<Action>) {
        self.segments.doom();
        let final_one = self.is_winding_up() && self.ops.occupied() == 0;
        let state = &mut self.checkpointer;
        (state.written, state.final_one) = (0, final_one);
        state.moved = self.counters.moved;
        state.drained = alloc::vec![None; self.streams.len()];
        state.header = Some(Header {
            volume: self.id,
            shape: self.shape,
            group: GroupId(0),
            number: state.number + 1,
            run: self.run,
            sequence: self.streams[HOT].sequence,
            clock: self.clock,
            streams: self.streams.iter().map(|stream| stream.position).collect(),
        });
        if state.serving {
            state.stage = CheckpointStage::Pages(0);
        } else {
            state.stage = CheckpointStage::Settling;
            self.sync(out);
        }
    }

    /// Flushes all groups.
    fn sync(&mut self, out: &mut Vec<Action>) {
        for group in self.groups() {
            self.checkpointer.ios += 1;
            self.issue(Purpose::Sync(group), group, IoOp::Flush, (0, 0), out);
        }
    }

    /// The area of the checkpoint that is being written, or comes next.
    pub(super) fn area(&self) -> u64 {
        (self.checkpointer.number + 1) % 2
    }

    fn store_pages(&mut self, mut from: u32, out: &mut Vec<Action>) {
        let (area, run) = (self.area(), self.shape.page_run());
        while self.checkpointer.ios < ios(self.shape.groups()) {
            let Some((first, count)) = self.map.take_dirty(area, from, (RUN, run)) else {
                if self.checkpointer.ios == 0 {
                    self.checkpointer.stage = CheckpointStage::Draining;
                }
                return;
            };
            from = first + count;
            self.checkpointer.stage = CheckpointStage::Pages(from);
            for copy in 0..self.shape.page_copies() {
                let (group, at) = self.shape.page_place(area, first, copy);
                self.store(Pages::From(first), group, (at, count), out);
            }
        }
    }

    fn store(&mut self, pages: Pages, group: GroupId, place: (u64, u32), out: &mut Vec<Action>) {
        self.checkpointer.ios += 1;
        self.counters.stored += u64::from(place.1);
        self.issue(Purpose::Store(group), group, IoOp::Store(pages), place, out);
    }

    /// Has the streams write everything that pages may refer to, then flushes all groups.
    fn drain(&mut self, out: &mut Vec<Action>) {
        for index in 0..self.streams.len() {
            if self.checkpointer.drained[index].is_none() {
                self.seal(index, out);
                let stream = &self.streams[index];
                if !stream.is_open() {
                    self.checkpointer.drained[index] = Some((stream.position, stream.sequence));
                }
            }
        }
        let streams = self.streams.iter().zip(&self.checkpointer.drained);
        let is_written = |(stream, drained): (&super::Stream, &Option<(Position, u64)>)| {
            drained.is_some_and(|(_, sequence)| stream.written() >= sequence)
        };
        if { streams }.all(is_written) {
            self.checkpointer.stage = CheckpointStage::Syncing;
            self.sync(out);
        }
    }

    fn store_header(&mut self, out: &mut Vec<Action>) {
        let state = &mut self.checkpointer;
        let header = state.header.as_mut().expect("a checkpoint under way has a header");
        for (position, drained) in header.streams.iter_mut().zip(&state.drained).skip(1) {
            *position = drained.map_or(*position, |(position, _)| position);
        }
        state.stage = CheckpointStage::Heading;
        let at = self.shape.header(self.area());
        for group in self.groups() {
            self.store(Pages::Header, group, (at, 1), out);
        }
    }

    fn end_checkpoint(&mut self, out: &mut Vec<Action>) {
        let state = &mut self.checkpointer;
        state.number += 1;
        state.header = None;
        (state.serving, state.at_rest) = (true, state.final_one);
        state.stage = CheckpointStage::Idle;
        let drained = state.drained[HOT].map_or(0, |(_, sequence)| sequence);
        let number = state.number;
        let hot = &mut self.streams[HOT];
        hot.durable = hot.durable.max(drained);
        self.segments.release();
        self.counters.checkpoints += 1;
        out.push(Action::Note(Note::Checkpoint(number)));
    }

    pub(super) fn checkpoint_io_done(
        &mut self,
        group: GroupId,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        self.checkpointer.ios -= 1;
        if let Err(error) = result {
            self.fail(group, error, out);
        }
    }

    /// The bytes of a checkpoint's page for a group, or of its header.
    ///
    /// # Panics
    /// If there is no such page, or `into` is not one block.
    pub fn encode_page(&self, group: GroupId, page: Pages, into: &mut [u8]) {
        let header = self.checkpointer.header.as_ref();
        let header = header.expect("a checkpoint under way has a header");
        let page = match page {
            Pages::Header => return Header { group, ..header.clone() }.encode(into),
            Pages::From(page) => page,
        };
        let number = header.number;
        match page.checked_sub(self.shape.map_pages()) {
            None => {
                let entries = self.map.page(page).iter().copied();
                encode_page(self.id, page, number, entries, into);
            }
            Some(ages) => {
                let first = u64::from(ages) * AGES_PER_PAGE;
                let end = (first + AGES_PER_PAGE).min(self.shape.segment_count().into());
                let ages = (first as u32..end as u32).map(Segment);
                let ages = ages.flat_map(|segment| self.segments.get(segment).age.to_le_bytes());
                encode_page(self.id, page, number, ages, into);
            }
        }
    }
}

//! Streams: chains of segments that are filled in memory and written batch by batch.
//!
//! Invariants:
//! - The open batch begins at the stream's position. Blocks before it in the segment are written or
//!   being written, those after it are untouched.
//! - A stream always has its next segment, which every summary names.
//! - A buffer belongs to a segment from its first append until its last batch is written.
//! - A batch is written only when all its blocks are there.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::IoError;
use raidcore::units::{Lba, Mem};

use super::{Action, BatchId, IoOp, LogVolume, Note, Purpose};
use crate::codec::{Entry, Position, Summary};
use crate::segments::SegmentState;
use crate::units::{GroupId, Segment};

/// The users' stream. Those of the groups' cleaners follow, in order.
pub(super) const HOT: usize = 0;

/// The stream of a group's cleaner.
pub(super) fn cold(group: GroupId) -> usize {
    1 + group.index()
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Stream {
    /// Where the open batch begins.
    pub(super) position: Position,
    /// Of the open segment.
    buffer: Option<u16>,
    free_buffers: Vec<u16>,
    /// The content of the open batch. Checksums are computed when it is written.
    entries: Vec<Entry>,
    /// Blocks of data in the open batch.
    data: u32,
    /// Data blocks that are not there yet.
    filling: u32,
    /// The open batch takes no more; it is written as soon as it is filled.
    sealed: bool,
    /// The age of the youngest block of the open batch.
    age: u64,
    /// When the open batch got its first entry.
    opened: Instant,
    /// The last batch that was closed.
    pub(super) sequence: u64,
    /// Whether each batch is written, from the first after `written` on.
    in_flight: VecDeque<bool>,
    /// All up to this one are durable.
    pub(super) durable: u64,
}

/// A batch that is being written.
#[derive(Debug)]
pub struct Batch {
    summary: Option<Summary>,
    entries: Vec<Entry>,
    stream: usize,
    buffer: u16,
}

impl Default for Batch {
    fn default() -> Self {
        Self { summary: None, entries: Vec::new(), stream: HOT, buffer: 0 }
    }
}

impl Stream {
    pub(super) fn new(position: Position, free_buffers: Vec<u16>, sequence: u64) -> Self {
        Self {
            position,
            buffer: None,
            free_buffers,
            entries: Vec::new(),
            data: 0,
            filling: 0,
            sealed: false,
            age: 0,
            opened: Instant::ORIGIN,
            sequence,
            in_flight: VecDeque::new(),
            durable: sequence,
        }
    }

    /// The buffers that are in no use.
    pub(super) fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        self.free_buffers.iter().copied()
    }

    /// All batches up to this one are written.
    pub(super) fn written(&self) -> u64 {
        self.sequence - self.in_flight.len() as u64
    }

    /// Whether the open batch holds something.
    pub(super) fn is_open(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Since when the open batch has held something.
    pub(super) fn opened(&self) -> Option<Instant> {
        self.is_open().then_some(self.opened)
    }

    /// The entry of a block of data of the open batch.
    pub(super) fn lba_of(&self, index: usize) -> Option<Lba> {
        match self.entries.get(index) {
            Some(Entry::Data { lba, .. }) => Some(*lba),
            Some(Entry::Trim { .. }) | None => None,
        }
    }
}

impl LogVolume {
    /// How many blocks of data the stream takes now; `None` if it takes no entries.
    pub(super) fn room(&mut self, index: usize) -> Option<u32> {
        if self.streams[index].sealed {
            return None;
        }
        if self.streams[index].position.at == self.shape.segment_blocks() && !self.advance(index) {
            return None;
        }
        let stream = &mut self.streams[index];
        if stream.buffer.is_none() {
            let buffer = stream.free_buffers.pop()?;
            stream.buffer = Some(buffer);
            let Position { segment, at, .. } = stream.position;
            self.segments.get_mut(segment).memory = Some((buffer, at));
        }
        let entries = (self.shape.entries() - stream.entries.len()) as u32;
        let end = stream.position.at + self.shape.summary() + stream.data;
        Some(entries.min(self.shape.segment_blocks() - end))
    }

    /// Whether a stream that has no room lacks a segment, and not memory.
    pub(super) fn lacks_segment(&self, index: usize) -> bool {
        let stream = &self.streams[index];
        let full = stream.position.at == self.shape.segment_blocks();
        full && !stream.sealed && !stream.free_buffers.is_empty()
    }

    /// Goes on to the next segment, if there is one to come after it.
    fn advance(&mut self, index: usize) -> bool {
        if self.streams[index].free_buffers.is_empty() {
            return false;
        }
        let Some(next) = self.allocate(index) else { return false };
        let stream = &mut self.streams[index];
        let segment = stream.position.next;
        stream.position = Position { segment, at: 0, next };
        stream.buffer = None;
        self.segments.get_mut(segment).state = SegmentState::Open;
        if index == HOT {
            self.paces.goes_on(self.now, self.counters.waited);
        }
        true
    }

    /// A segment for a stream: for a cleaner, one of its group; for users, one of the group at the
    /// front, or of another one, which then becomes the front, if possible one that can stay there.
    /// A reserve is left to the cleaner.
    fn allocate(&mut self, index: usize) -> Option<Segment> {
        if let Some(group) = index.checked_sub(1) {
            return self.segments.hold(GroupId::at(group));
        }
        let front = self.front();
        if self.room_of(front).spare() > 0 {
            return self.segments.hold(front);
        }
        let worth = |&group: &GroupId| (self.room_of(group).spare(), u8::MAX - group.0);
        let stays = |&group: &GroupId| {
            let room = self.room_of(group);
            room.spare() >= room.turn()
        };
        if let Some(best) = self.groups().filter(stays).max_by_key(worth) {
            return self.segments.hold(best);
        }
        if self.is_freeing() {
            return None;
        }
        // Nothing more will become free: cleaners keep only their reserve.
        let free = |&group: &GroupId| (self.segments.free(group), u8::MAX - group.0);
        let any = self.groups().max_by_key(free)?;
        (self.segments.free(any) > self.shape.reserve()).then(|| self.segments.hold(any))?
    }

    /// Chooses the segment after the one in which the start found users' blocks.
    pub(super) fn choose_next(&mut self) {
        let spare = self.allocate(HOT);
        // After a crash there is nothing to clean with yet, so the reserve may have to do.
        let next = spare.or_else(|| {
            let any = self.groups().max_by_key(|&group| self.segments.free(group))?;
            self.segments.hold(any)
        });
        self.streams[HOT].position.next = next.expect("a group keeps a reserve of free segments");
    }

    /// The group that takes users' writes from now on.
    pub(super) fn front(&self) -> GroupId {
        self.shape.group_of(self.streams[HOT].position.next)
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + Clone + use<> {
        (0..self.shape.groups()).map(GroupId::at)
    }

    /// Appends blocks to a stream that has room for them; returns where they begin, in memory and
    /// in the segment.
    pub(super) fn append(
        &mut self,
        index: usize,
        lbas: impl Iterator<Item = Lba>,
        age: u64,
    ) -> (Mem, Segment, u32) {
        let stream = &mut self.streams[index];
        if stream.entries.is_empty() {
            stream.opened = self.now;
        }
        let at = stream.position.at + self.shape.summary() + stream.data;
        let before = stream.entries.len();
        stream.entries.extend(lbas.map(|lba| Entry::Data { lba, checksum: 0 }));
        stream.data += (stream.entries.len() - before) as u32;
        stream.age = stream.age.max(age);
        let buffer = stream.buffer.expect("who appends has asked for room");
        (Mem::Scratch { buffer, at }, stream.position.segment, at)
    }

    /// Appends the record of a discard to the users' stream, which has room for an entry. A record
    /// that continues the last one is merged with it.
    pub(super) fn append_trim(&mut self, lba: Lba, blocks: u32) {
        let stream = &mut self.streams[HOT];
        if let Some(Entry::Trim { lba: first, blocks: before }) = stream.entries.last_mut()
            && first.0 + u64::from(*before) == lba.0
            && let Some(all) = before.checked_add(blocks)
        {
            *before = all;
            return;
        }
        if stream.entries.is_empty() {
            stream.opened = self.now;
        }
        stream.entries.push(Entry::Trim { lba, blocks });
    }

    /// Blocks of the open batch are not there yet; returns the first one's entry.
    pub(super) fn filling(&mut self, index: usize, blocks: u32) -> usize {
        let stream = &mut self.streams[index];
        stream.filling += blocks;
        stream.entries.len() - blocks as usize
    }

    /// These blocks are there, or never will be.
    pub(super) fn filled_in(&mut self, index: usize, blocks: u32) {
        self.streams[index].filling -= blocks;
    }

    /// Closes the open batch if it is full.
    pub(super) fn close_full(&mut self, index: usize, out: &mut Vec<Action>) {
        if self.streams[index].is_open() && self.room(index) == Some(0) {
            self.seal(index, out);
        }
    }

    /// The open batch takes no more: it is written as soon as it is filled.
    pub(super) fn seal(&mut self, index: usize, out: &mut Vec<Action>) {
        self.streams[index].sealed = self.streams[index].is_open();
        self.write_sealed(index, out);
    }

    /// Writes the open batch if it is sealed and filled.
    pub(super) fn write_sealed(&mut self, index: usize, out: &mut Vec<Action>) {
        let stream = &mut self.streams[index];
        if !stream.sealed || stream.filling > 0 || self.failed {
            return;
        }
        let id = self.batches.occupy().expect("a buffer has no more batches than units");
        let batch = &mut self.batches[id];
        core::mem::swap(&mut batch.entries, &mut stream.entries);
        stream.entries.clear();
        let used = self.shape.summary() + stream.data;
        let blocks = used.next_multiple_of(self.shape.unit());
        let Position { segment, at, next } = stream.position;
        stream.sequence += 1;
        stream.in_flight.push_back(false);
        batch.summary = Some(Summary {
            volume: self.id,
            run: self.run,
            sequence: stream.sequence,
            durable: stream.durable,
            age: stream.age,
            segment,
            at,
            blocks,
            next,
            cold: index != HOT,
        });
        let buffer = stream.buffer.expect("a batch that is open has memory");
        (batch.stream, batch.buffer) = (index, buffer);
        stream.position.at += blocks;
        (stream.data, stream.sealed) = (0, false);
        let age = core::mem::take(&mut stream.age);
        self.age(segment, self.segments.get(segment).age.max(age));
        self.buffers[usize::from(buffer)] += 1;
        self.counters.logged += u64::from(blocks);
        if index == HOT {
            self.checkpointer.wrote(blocks);
        }
        self.counters.padding += u64::from(blocks - used);
        let group = self.shape.group_of(segment);
        let place = (self.shape.start_of(segment) + u64::from(at), blocks);
        let write = IoOp::Write { from: Mem::Scratch { buffer, at }, batch: id };
        self.issue(Purpose::Write(id), group, write, place, out);
    }

    pub(super) fn batch_done(
        &mut self,
        id: BatchId,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let Batch { summary, stream: index, buffer, .. } = &mut self.batches[id];
        let summary = summary.take().expect("a batch under way has a summary");
        let (index, buffer) = (*index, *buffer);
        self.batches.vacate(id);
        let group = self.shape.group_of(summary.segment);
        if let Err(error) = result {
            // Its blocks stay readable in memory.
            self.fail(group, error, out);
            return;
        }
        let stream = &mut self.streams[index];
        let ahead = summary.sequence - (stream.sequence - stream.in_flight.len() as u64) - 1;
        stream.in_flight[ahead as usize] = true;
        while stream.in_flight.front() == Some(&true) {
            stream.in_flight.pop_front();
        }
        if index == HOT {
            self.flusher.wrote(group);
        }
        self.buffers[usize::from(buffer)] -= 1;
        let Position { segment, at, .. } = self.streams[index].position;
        let is_full = segment != summary.segment || at == self.shape.segment_blocks();
        if is_full && self.buffers[usize::from(buffer)] == 0 {
            let stream = &mut self.streams[index];
            stream.free_buffers.push(buffer);
            if segment == summary.segment {
                stream.buffer = None;
            }
            self.segments.get_mut(summary.segment).memory = None;
            self.segments.close(summary.segment);
        }
    }

    /// Encodes the summary of a batch into the first blocks of its part of the buffer. `checksum`
    /// gives the [checksums](crate::codec::checksum) of the buffer's blocks.
    ///
    /// # Panics
    /// If there is no such batch, or `into` is not [a summary's](crate::Shape::summary) blocks.
    pub fn encode_summary(
        &self,
        batch: BatchId,
        into: &mut [u8],
        mut checksum: impl FnMut(Mem) -> u32,
    ) {
        let batch = &self.batches[batch];
        let summary = batch.summary.as_ref().expect("a batch under way has a summary");
        let mut at = summary.at + self.shape.summary();
        let entries = batch.entries.iter().map(|entry| match *entry {
            Entry::Data { lba, .. } => {
                at += 1;
                let mem = Mem::Scratch { buffer: batch.buffer, at: at - 1 };
                Entry::Data { lba, checksum: checksum(mem) }
            }
            trim @ Entry::Trim { .. } => trim,
        });
        let entries: Vec<Entry> = entries.collect();
        summary.encode(&entries, into);
    }

    /// Notes if the front has changed.
    pub(super) fn note_front(&mut self, before: GroupId, out: &mut Vec<Action>) {
        if before != self.front() {
            self.counters.rotations += 1;
            out.push(Action::Note(Note::Front(self.front())));
        }
    }
}

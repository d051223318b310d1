//! Users' requests. A write is acknowledged when its blocks are in memory, where reads find them. A
//! discard (or write-zeroes) is acknowledged when the map has dropped the blocks, and the open
//! batch has a record of that. A large discard is processed in parts, one a step, each with its
//! record; writes that came after it wait until it has ended.

use alloc::vec::Vec;

use raidcore::engine::{IoError, Op, Request, RequestError};
use raidcore::units::{Lba, Mem, Tag};

use super::stream::HOT;
use super::{Action, IoOp, LogVolume, Purpose};
use crate::units::{Pba, Segment};

/// The most reads under way, for each possible request.
pub(super) const READS: usize = 4;

/// A request in its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UserRequest {
    request: Option<Request>,
    /// Blocks that are processed, or whose I/O is under way.
    done: u32,
    /// I/O under way.
    ios: u32,
    failed: bool,
}

impl UserRequest {
    pub(super) fn is_active(&self) -> bool {
        self.request.is_some()
    }
}

impl LogVolume {
    pub(super) fn request(&mut self, request: Request, out: &mut Vec<Action>) {
        let tag = request.tag;
        let refused = match request.op {
            _ if self.stopping => Some(RequestError::Stopping),
            Op::Flush => None,
            _ if !self.shape.contains(request.lba, request.blocks) => {
                Some(RequestError::OutOfRange)
            }
            Op::Read | Op::Write | Op::Discard | Op::WriteZeroes => None,
        };
        if let Some(error) = refused {
            out.push(Action::Complete { tag, result: Err(error) });
            return;
        }
        let slot = &mut self.requests[usize::from(tag.0)];
        assert!(!slot.is_active(), "{tag:?} is in use");
        *slot = UserRequest { request: Some(request), ..UserRequest::default() };
        match request.op {
            Op::Read => self.reading.push_back(tag),
            Op::Write | Op::Discard | Op::WriteZeroes => self.writing.push_back(tag),
            Op::Flush => self.flusher.wait(tag),
        }
    }

    pub(super) fn complete(
        &mut self,
        tag: Tag,
        result: Result<(), RequestError>,
        out: &mut Vec<Action>,
    ) {
        self.requests[usize::from(tag.0)].request = None;
        out.push(Action::Complete { tag, result });
    }

    /// Begins reads while there is room for their I/O.
    pub(super) fn read_waiting(&mut self, out: &mut Vec<Action>) {
        while let Some(&tag) = self.reading.front() {
            if !self.read(tag, out) {
                return;
            }
            self.reading.pop_front();
        }
    }

    /// Begins what is left of a read; returns whether all of it was.
    fn read(&mut self, tag: Tag, out: &mut Vec<Action>) -> bool {
        let most = (self.requests.len() * READS) as u32;
        loop {
            let UserRequest { request, done, ios, failed } = &self.requests[usize::from(tag.0)];
            let request = request.expect("a request that waits is there");
            let (left, done) = (request.blocks - done, *done);
            if left == 0 {
                if *ios == 0 {
                    let result = if *failed { Err(RequestError::Io) } else { Ok(()) };
                    self.complete(tag, result, out);
                }
                return true;
            }
            if self.reads == most {
                return false;
            }
            let blocks = self.read_run(tag, Lba(request.lba.0 + u64::from(done)), left, done, out);
            self.requests[usize::from(tag.0)].done += blocks;
        }
    }

    /// Reads blocks that are contiguous on the group; returns how many.
    fn read_run(&mut self, tag: Tag, lba: Lba, most: u32, at: u32, out: &mut Vec<Action>) -> u32 {
        let to = Mem::Payload { tag, at };
        let first = self.map.get(lba);
        let follows = |n: u32| match (first, self.map.get(Lba(lba.0 + u64::from(n)))) {
            (Some(first), next) => next == Some(Pba(first.0 + u64::from(n))),
            (None, next) => next.is_none(),
        };
        let run = 1 + (1..most).take_while(|&n| follows(n)).count() as u32;
        let Some(pba) = first else {
            out.push(Action::Copy { from: Mem::Zero, to, blocks: run });
            return run;
        };
        let (segment, start) = self.shape.locate(pba);
        let end = self.shape.segment_blocks();
        let blocks = match self.segments.get(segment).memory {
            Some((buffer, from)) if start >= from => {
                let blocks = run.min(end - start);
                let from = Mem::Scratch { buffer, at: start };
                out.push(Action::Copy { from, to, blocks });
                return blocks;
            }
            Some((_, from)) => run.min(from - start),
            None => run.min(end - start),
        };
        let group = self.shape.group_of(segment);
        self.segments.get_mut(segment).readers += 1;
        self.requests[usize::from(tag.0)].ios += 1;
        self.reads += 1;
        self.group_reads[group.index()] += 1;
        let place = (self.shape.start_of(segment) + u64::from(start), blocks);
        self.issue(Purpose::Read { tag, segment }, group, IoOp::Read(to), place, out);
        blocks
    }

    pub(super) fn read_done(
        &mut self,
        tag: Tag,
        segment: Segment,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        self.segments.get_mut(segment).readers -= 1;
        self.group_reads[self.shape.group_of(segment).index()] -= 1;
        self.reads -= 1;
        let slot = &mut self.requests[usize::from(tag.0)];
        slot.ios -= 1;
        slot.failed |= result.is_err();
        let whole = slot.request.is_some_and(|request| request.blocks == slot.done);
        if whole && slot.ios == 0 {
            let result = if slot.failed { Err(RequestError::Io) } else { Ok(()) };
            self.complete(tag, result, out);
        }
    }

    /// Appends what waits while there is room for it, the oldest first.
    pub(super) fn write_waiting(&mut self, out: &mut Vec<Action>) {
        let before = self.front();
        while let Some(&tag) = self.writing.front() {
            if !self.checkpointer.is_serving() {
                break;
            }
            if self.users_wait() {
                // They wait for cleaning, not for a segment.
                self.stalled = false;
                self.wait(true);
                break;
            }
            let UserRequest { request, done, .. } = self.requests[usize::from(tag.0)];
            let request = request.expect("a request that waits is there");
            let Some(room) = self.room(HOT) else {
                self.find_stalled();
                self.wait(self.stalled);
                break;
            };
            self.wait(false);
            let lba = Lba(request.lba.0 + u64::from(done));
            let left = request.blocks - done;
            let blocks = match request.op {
                Op::Write => self.write_run(tag, lba, left.min(room), done, out),
                Op::Discard | Op::WriteZeroes => {
                    let part = left.min(self.may_forget);
                    self.forgets_on = part == 0;
                    if self.forgets_on {
                        break;
                    }
                    self.may_forget -= part;
                    self.forget(lba, part)
                }
                Op::Read | Op::Flush => left,
            };
            self.stalled = false;
            self.close_full(HOT, out);
            let slot = &mut self.requests[usize::from(tag.0)];
            slot.done += blocks;
            if slot.done < request.blocks {
                continue;
            }
            self.writing.pop_front();
            if request.fua {
                self.flusher.wait(tag);
            } else {
                self.complete(tag, Ok(()), out);
            }
        }
        self.note_front(before, out);
    }

    /// Users wait for a segment, unless they only wait for memory.
    fn find_stalled(&mut self) {
        let stalled = self.lacks_segment(HOT);
        self.counters.stalls += u64::from(stalled && !self.stalled);
        self.stalled = stalled;
    }

    /// Users' writes wait for cleaning, or don't.
    fn wait(&mut self, waits: bool) {
        if waits {
            self.waits_since.get_or_insert(self.now);
        } else if let Some(since) = self.waits_since.take() {
            let waited = self.now - since;
            self.counters.waited += waited;
            self.counters.longest_wait = self.counters.longest_wait.max(waited);
        }
    }

    fn write_run(
        &mut self,
        tag: Tag,
        lba: Lba,
        blocks: u32,
        at: u32,
        out: &mut Vec<Action>,
    ) -> u32 {
        let lbas = (lba.0..lba.0 + u64::from(blocks)).map(Lba);
        self.clock += u64::from(blocks);
        let (to, segment, start) = self.append(HOT, lbas.clone(), self.clock);
        out.push(Action::Copy { from: Mem::Payload { tag, at }, to, blocks });
        for (lba, at) in lbas.zip(start..) {
            self.remap(lba, Some(self.shape.pba(segment, at)));
        }
        self.counters.written += u64::from(blocks);
        self.owe(blocks);
        blocks
    }

    /// Drops blocks from the map. If it has none of them, nothing is recorded: their absence is on
    /// record already.
    fn forget(&mut self, lba: Lba, blocks: u32) -> u32 {
        let mut forgotten = 0;
        for lba in (lba.0..lba.0 + u64::from(blocks)).map(Lba) {
            if self.map.get(lba).is_some() {
                self.remap(lba, None);
                forgotten += 1;
            }
        }
        if forgotten > 0 {
            self.append_trim(lba, blocks);
        }
        blocks
    }

    /// Refuses the writes of a volume that takes no more.
    pub(super) fn refuse_writes(&mut self, out: &mut Vec<Action>) {
        while let Some(tag) = self.writing.pop_front() {
            self.complete(tag, Err(RequestError::Io), out);
        }
        for tag in self.flusher.give_up() {
            self.complete(tag, Err(RequestError::Io), out);
        }
    }
}

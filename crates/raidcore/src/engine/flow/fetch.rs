//! Jobs read from [sources](super::sources) of single blocks.

use alloc::vec::Vec;
use core::mem;

use super::sources::STAGED;
use crate::engine::fetching::{Fetch, From};
use crate::engine::flight::{Flight, Owner};
use crate::engine::steering::Way;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoOp, JobId};
use crate::plan::Piece;
use crate::units::{Lba, MemberId, Pba, Set};

/// As many fetches as a job has under way at once.
const WINDOW: u32 = 8;

impl Engine {
    /// Takes out of a read's pieces what is read from elsewhere.
    pub(in super::super) fn split_read(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        // Of two that read the same, neither has anything staged.
        let alone = !job.hedge.is_second();
        if job.work != Work::Read || !alone || !self.is_in_sources(job.stripe) {
            return;
        }
        let mut pieces = mem::take(&mut self.range.jobs[id].pieces);
        for index in 0..pieces.len() {
            let piece = pieces[index];
            let stripe = self.range.jobs[id].stripe;
            let first = self.layout.of(stripe).lba(stripe, piece.role, piece.row);
            // What stays of it takes its place, in as many parts as it has.
            let (mut parts, mut part) = (0, Piece { blocks: 0, ..piece });
            for offset in 0..=piece.blocks {
                let lba = Lba(first.0 + u64::from(offset));
                let inside = offset < piece.blocks;
                let block = piece.block(offset);
                let fetched = inside
                    && (self.recall(id, lba, block) || self.fetch_from_elsewhere(id, lba, block));
                if inside && !fetched {
                    if part.blocks == 0 {
                        (part.row, part.mem) = (piece.row + offset, piece.mem.plus(offset));
                    }
                    part.blocks += 1;
                } else if part.blocks > 0 {
                    match parts {
                        0 => pieces[index] = part,
                        _ => pieces.push(part),
                    }
                    (parts, part.blocks) = (parts + 1, 0);
                }
            }
            if parts == 0 {
                pieces[index].blocks = 0;
            }
        }
        pieces.retain(|piece| piece.blocks > 0);
        self.range.jobs[id].pieces = pieces;
        self.count_around(id);
    }

    /// A job is to read a block of what a source has under a number, which stays until the job has ended.
    pub(super) fn fetch(&mut self, id: JobId, (source, number): From, at: u32, block: Piece) {
        if self.range.jobs[id].fetching.add((source, number), at, block) {
            (source.source().pin)(self, number);
        }
    }

    /// A job that fetches what lies on a busy member goes around it.
    fn count_around(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        let around = || job.fetching.iter().filter(|fetch| fetch.from.0.source().goes_around);
        if job.asked.way == Way::Around || around().next().is_none() {
            return;
        }
        let home = |fetch: &Fetch| self.layout.member(job.stripe, fetch.piece.role);
        let homes: Set<MemberId> = around().map(home).collect();
        self.range.jobs[id].asked.way = Way::Around;
        self.array.counters.copy_reads += 1;
        homes.for_each(|member| self.array.membership.avoid_read(member));
    }

    /// Begins these reads, a few at a time.
    pub(in super::super) fn issue_fetches(&mut self, id: JobId, out: &mut Vec<Action>) {
        let mut begun = 0;
        while begun < WINDOW && self.issue_fetch(id, out) {
            begun += 1;
        }
    }

    /// Begins the next of them that a member has; returns whether there was one.
    fn issue_fetch(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let before = self.range.jobs[id].outstanding;
        while self.range.jobs[id].outstanding == before {
            let Some(index) = self.range.jobs[id].fetching.begin_next() else { return false };
            self.begin_fetch(id, index, out);
        }
        true
    }

    fn begin_fetch(&mut self, id: JobId, index: usize, out: &mut Vec<Action>) {
        let Fetch { from, at: offset, piece, tried } = self.range.jobs[id].fetching.get(index);
        let (source, number) = from;
        let found = (source.source().place)(self, number, tried).and_then(|(member, at)| {
            Some((member, at, self.array.membership.live_device(member)?))
        });
        let Some((member, at, device)) = found else {
            return (source.source().not_fetched)(self, id, index);
        };
        if source == STAGED {
            self.array.counters.staged_reads += u64::from(piece.blocks);
        }
        let into = self.range.jobs[id].bind(piece.mem);
        self.range.jobs[id].outstanding += 1;
        let owner = Owner::Fetch { job: id, index: index as u16 };
        let op = Flight::new(owner, Some(member), device);
        let at = Pba(at.0 + u64::from(offset));
        self.issue(op, IoOp::Read(into), at, piece.blocks, out);
    }

    pub(in super::super) fn fetch_done(
        &mut self,
        id: JobId,
        index: u16,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let before = self.range.jobs[id].outstanding;
        if let (Err(why), Some(member)) = (result, op.member) {
            if why.is_final() && self.array.membership.is_current(&op) {
                self.read_failed(member, why, out);
            } else {
                self.array.membership.count_read_error(member);
            }
            // The others have it, too.
            self.range.jobs[id].fetching.failed_on(usize::from(index), member);
            self.begin_fetch(id, usize::from(index), out);
        }
        if self.range.jobs[id].outstanding == before {
            self.issue_fetch(id, out);
        }
        self.range.jobs.one_done(id);
    }

    /// A job reads no more from elsewhere.
    pub(super) fn unpin(&mut self, id: JobId) {
        while let Some((source, number)) = self.range.jobs[id].fetching.take_last() {
            (source.source().unpin)(self, number);
        }
    }
}

//! Jobs read what is staged, or copied.

use alloc::vec::Vec;
use core::mem;

use crate::engine::fetching::{Fetch, From};
use crate::engine::flight::{Flight, Owner};
use crate::engine::steering::Way;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::plan::Piece;
use crate::units::{Lba, MemberId, Pba, Set};

/// As many fetches as a job has under way at once.
const WINDOW: u32 = 8;

impl Engine {
    /// Takes what is staged out of a read's pieces: it is read from the log.
    pub(in super::super) fn split_staged(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        // Of two that read the same, neither has anything staged.
        let alone = !job.hedge.is_second();
        let concerned = self.range.staging.concerns(job.stripe) || self.copies_may_serve();
        if job.work != Work::Read || !alone || !concerned {
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
                let fetched = inside && self.fetch_from_elsewhere(id, lba, block);
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
        self.count_copies(id);
    }

    /// Fetches a block from the staging log, if it is only there, or home is busy.
    pub(in super::super) fn fetch_staged(&mut self, id: JobId, lba: Lba, block: Piece) -> bool {
        let (geo, stripe) = (&self.layout, self.range.jobs[id].stripe);
        let home = || geo.member(stripe, block.role);
        let found = self.range.staging.find(lba, self.array.steering.busy(), home);
        if let Some((number, at)) = found {
            self.fetch_staged_block(id, number, at, block);
        }
        found.is_some()
    }

    /// Fetches a block from a copy of it, if there is one that is better than home.
    pub(in super::super) fn fetch_copy(&mut self, id: JobId, lba: Lba, block: Piece) -> bool {
        let home = self.layout.member(self.range.jobs[id].stripe, block.role);
        let Some((copy, at)) = self.copy_of(lba, home) else { return false };
        if self.range.jobs[id].fetching.add(From::Copy(copy), at, block) {
            self.range.copies.pin(copy);
        }
        true
    }

    /// A job that reads copies goes around busy members.
    fn count_copies(&mut self, id: JobId) {
        let job = &mut self.range.jobs[id];
        if job.asked.way == Way::Around || job.fetching.of_copies().next().is_none() {
            return;
        }
        job.asked.way = Way::Around;
        self.array.counters.copy_reads += 1;
        let home = |fetch: &Fetch| self.layout.member(job.stripe, fetch.piece.role);
        let homes: Set<MemberId> = job.fetching.of_copies().map(home).collect();
        homes.for_each(|member| self.array.membership.avoid_read(member));
    }

    /// A job is to read a block of an entry, which stays until the job has ended.
    pub(super) fn fetch_staged_block(&mut self, id: JobId, number: u64, at: u32, block: Piece) {
        if self.range.jobs[id].fetching.add(From::Entry(number), at, block) {
            self.range.staging.pin(number, 1);
        }
        self.array.counters.staged_reads += 1;
    }

    /// Begins the reads from the log, a few at a time.
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
        let place = match from {
            // A calm holder if there is one, the one with the least to do.
            From::Entry(number) => self.range.staging.best_holder(number, tried, |member| {
                let unreadable = self.array.membership.is_unreadable(member);
                (unreadable, self.array.steering.is_busy(member), self.array.flights.of(member))
            }),
            From::Copy(number) => {
                self.range.copies.place(number).filter(|&(member, _)| !tried.has(member))
            }
        };
        let found = place.and_then(|(member, at)| {
            Some((member, at, self.array.membership.live_device(member)?))
        });
        let Some((member, at, device)) = found else {
            self.not_fetched(id, index);
            return;
        };
        let into = self.range.jobs[id].bind(piece.mem);
        self.range.jobs[id].outstanding += 1;
        let owner = Owner::Fetch { job: id, index: index as u16 };
        let op = Flight::new(owner, Some(member), device);
        let at = Pba(at.0 + u64::from(offset));
        self.issue(op, IoOp::Read(into), at, piece.blocks, out);
    }

    /// No member is left from which it could be read as a whole.
    fn not_fetched(&mut self, id: JobId, index: usize) {
        let Fetch { from, piece, .. } = self.range.jobs[id].fetching.get(index);
        match from {
            // Each holder may lack another block of it.
            From::Entry(number) if piece.blocks > 1 => {
                self.range.staging.pin(number, piece.blocks);
                self.range.jobs[id].fetching.split(index);
            }
            From::Entry(number) => {
                let lbas = self.lbas_of(id, &piece);
                self.range.staging.note_unreadable(number, lbas);
                self.range.jobs[id].error = Some(RequestError::Io);
            }
            From::Copy(_) => {
                self.lbas_of(id, &piece).for_each(|lba| self.range.copies.forget(lba));
                self.range.jobs[id].pieces.push(piece);
                self.range.jobs[id].replan = true;
            }
        }
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

    /// A job reads no more from the log, nor from copies.
    pub(super) fn unpin(&mut self, id: JobId) {
        for from in self.range.jobs[id].fetching.take() {
            match from {
                From::Entry(number) => self.range.staging.unpin(number),
                From::Copy(number) => self.range.copies.unpin(number),
            }
        }
    }
}

//! Jobs read what is staged, or copied.

use alloc::vec::Vec;
use core::mem;

use crate::engine::flight::{Flight, Owner};
use crate::engine::staging::fetch::{Fetch, From, WINDOW};
use crate::engine::steering::Way;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::plan::Piece;
use crate::redirects::Staged;
use crate::units::{Lba, MemberId, Pba, Set};

impl Engine {
    /// Takes what is staged out of a read's pieces: it is read from the log.
    pub(in super::super) fn split_staged(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        // Of two that read the same, neither has anything staged.
        let alone = job.hedge.avoids.is_empty();
        let concerned = self.range.staging.concerns(job.stripe) || self.copies_may_serve();
        if job.work != Work::Read || !alone || !concerned {
            return;
        }
        let mut pieces = mem::take(&mut self.range.jobs[id].pieces);
        for index in 0..pieces.len() {
            let piece = pieces[index];
            let stripe = self.range.jobs[id].stripe;
            let first = self.geo.of(stripe).lba(stripe, piece.role, piece.row);
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
        let staged = self.in_log(lba, block);
        if let Some(staged) = staged {
            self.fetch_later(id, staged, block);
        }
        staged.is_some()
    }

    /// Fetches a block from a copy of it, if there is one that is better than home.
    pub(in super::super) fn fetch_copy(&mut self, id: JobId, lba: Lba, block: Piece) -> bool {
        let home = self.geo.member(self.range.jobs[id].stripe, block.role);
        let Some((copy, at)) = self.copy_of(lba, home) else { return false };
        if self.add_fetch(id, From::Copy(copy), at, block) {
            self.range.copies.pin(copy);
        }
        true
    }

    /// A job that reads copies goes around busy members.
    fn count_copies(&mut self, id: JobId) {
        let job = &mut self.range.jobs[id];
        let copied = |fetch: &Fetch| matches!(fetch.from, From::Copy(_));
        if job.way == Way::Around || !job.fetching.fetches.iter().any(copied) {
            return;
        }
        job.way = Way::Around;
        self.array.counters.copy_reads += 1;
        let homes = self.range.jobs[id].fetching.fetches.iter().filter(|fetch| copied(fetch));
        let home = |fetch: &Fetch| self.geo.member(self.range.jobs[id].stripe, fetch.piece.role);
        let homes: Set<MemberId> = homes.map(home).collect();
        homes.for_each(|member| self.array.membership.members[member.index()].avoided.reads += 1);
    }

    /// Where a block is to be read from in the log, if at all: what is only in the log, and what is in
    /// both if home is busy.
    fn in_log(&self, lba: Lba, piece: Piece) -> Option<Staged> {
        let staged = self.range.staging.table.get(lba)?;
        if !staged.clean {
            return Some(staged);
        }
        let (stripe, _) = self.geo.locate(lba);
        let home = self.geo.member(stripe, piece.role);
        let entry = &self.range.staging.entries[self.range.staging.index(staged.entry)];
        let calm = entry.holders.minus(self.array.steering.busy);
        let stays = entry.number >= self.range.staging.announced;
        (self.array.steering.busy.has(home) && stays && !calm.is_empty()).then_some(staged)
    }

    /// A job is to read a staged block; its entry stays until the job has ended.
    pub(super) fn fetch_later(&mut self, id: JobId, staged: Staged, block: Piece) {
        let index = self.range.staging.index(staged.entry);
        let number = self.range.staging.entries[index].number;
        if self.add_fetch(id, From::Entry(number), staged.at, block) {
            self.range.staging.entries[index].pins += 1;
        }
        self.array.counters.staged_reads += 1;
    }

    /// A job is to read a block of something; tells whether it was not about to read from it anyway.
    fn add_fetch(&mut self, id: JobId, from: From, at: u32, block: Piece) -> bool {
        let fetches = &mut self.range.jobs[id].fetching.fetches;
        if let Some(last) = fetches.last_mut()
            && (last.from, last.at + last.piece.blocks) == (from, at)
            && last.piece.block(last.piece.blocks) == block
        {
            last.piece.blocks += 1;
            return false;
        }
        fetches.push(Fetch { from, at, piece: block, tried: Set::EMPTY });
        true
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
            let job = &mut self.range.jobs[id];
            let index = job.fetching.fetched;
            if index == job.fetching.fetches.len() {
                return false;
            }
            job.fetching.fetched += 1;
            self.begin_fetch(id, index, out);
        }
        true
    }

    fn begin_fetch(&mut self, id: JobId, index: usize, out: &mut Vec<Action>) {
        let Fetch { from, at: offset, piece, tried } = self.range.jobs[id].fetching.fetches[index];
        let place = match from {
            From::Entry(number) => self.best_holder(number, tried),
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

    /// A calm holder of an entry if there is one, the one with the least to do; none of those that
    /// were tried.
    fn best_holder(&self, number: u64, tried: Set<MemberId>) -> Option<(MemberId, Pba)> {
        let entry = self.range.staging.entry(number);
        let holders = entry.holders.minus(tried);
        let places = entry.payload.iter().filter(|&&(member, _)| holders.has(member));
        let load = |&&(member, _): &&(MemberId, Pba)| {
            let m = &self.array.membership.members[member.index()];
            (m.unreadable, self.is_member_busy(member), self.array.flights.of(member))
        };
        places.min_by_key(load).copied()
    }

    /// No member is left from which it could be read as a whole.
    fn not_fetched(&mut self, id: JobId, index: usize) {
        let Fetch { from, at, piece, .. } = self.range.jobs[id].fetching.fetches[index];
        match from {
            // Each holder may lack another block of it.
            From::Entry(number) if piece.blocks > 1 => {
                self.range.staging.entry_mut(number).pins += piece.blocks;
                let one = |i| Fetch { from, at: at + i, piece: piece.block(i), tried: Set::EMPTY };
                self.range.jobs[id].fetching.fetches.extend((0..piece.blocks).map(one));
            }
            From::Entry(number) => {
                let lbas = self.lbas_of(id, &piece);
                self.range.staging.unreadable.extend(lbas.map(|lba| (lba, number)));
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
                self.array.membership.members[member.index()].read_errors += 1;
            }
            // The others have it, too.
            let fetch = &mut self.range.jobs[id].fetching.fetches[usize::from(index)];
            fetch.tried = fetch.tried.with(member);
            self.begin_fetch(id, usize::from(index), out);
        }
        if self.range.jobs[id].outstanding == before {
            self.issue_fetch(id, out);
        }
        self.range.jobs.one_done(id);
    }

    /// A job reads no more from the log, nor from copies.
    pub(super) fn unpin(&mut self, id: JobId) {
        let mut fetches = mem::take(&mut self.range.jobs[id].fetching.fetches);
        for fetch in fetches.drain(..) {
            match fetch.from {
                From::Entry(number) => self.range.staging.entry_mut(number).pins -= 1,
                From::Copy(number) => self.range.copies.unpin(number),
            }
        }
        self.range.jobs[id].fetching.fetches = fetches;
        self.range.jobs[id].fetching.fetched = 0;
    }
}

//! Reading what is staged.

use alloc::vec::Vec;
use core::mem;

use super::super::job::{Op, Owner, Work};
use super::super::{Action, Engine, IoError, IoOp, JobId, RequestError};
use crate::plan::Piece;
use crate::redirects::Staged;
use crate::units::{Lba, Mem, MemberId, Pba};

/// As many as a job has under way at once.
const WINDOW: u32 = 8;

/// Consecutive blocks of an entry that a job reads.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Fetch {
    entry: u64,
    at: u32,
    blocks: u32,
    into: Mem,
}

impl Engine {
    /// Takes what is staged out of a read's pieces: it is read from the log.
    pub(in super::super) fn split_staged(&mut self, id: JobId) {
        let job = &self.jobs[id];
        // Of two that read the same, neither has anything staged.
        let alone = job.avoids.is_empty();
        if job.work != Work::Read || !alone || !self.staging.concerns(job.stripe) {
            return;
        }
        let mut pieces = mem::take(&mut self.jobs[id].pieces);
        for index in 0..pieces.len() {
            let piece = pieces[index];
            let first = self.geo.lba(self.jobs[id].stripe, piece.role, piece.row);
            // What stays of it takes its place, in as many parts as it has.
            let (mut parts, mut part) = (0, Piece { blocks: 0, ..piece });
            for offset in 0..=piece.blocks {
                let lba = Lba(first.0 + u64::from(offset));
                let inside = offset < piece.blocks;
                let staged = if inside { self.in_log(lba, piece) } else { None };
                if let Some(staged) = staged {
                    self.fetch_later(id, staged, piece.mem.plus(offset));
                }
                if inside && staged.is_none() {
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
        self.jobs[id].pieces = pieces;
    }

    /// Where a block is to be read from, if not at home: what is only in the log, and what is in
    /// both if home is busy.
    fn in_log(&self, lba: Lba, piece: Piece) -> Option<Staged> {
        let staged = self.staging.table.get(lba)?;
        if !staged.clean {
            return Some(staged);
        }
        let (stripe, _) = self.geo.locate(lba);
        let home = self.geo.member(stripe, piece.role);
        let entry = &self.staging.entries[self.staging.index(staged.entry)];
        let calm = entry.holders.minus(self.places.busy);
        let stays = entry.number >= self.staging.announced;
        (self.places.busy.has(home.index()) && stays && !calm.is_empty()).then_some(staged)
    }

    /// A job is to read a staged block; its entry stays until the job has ended.
    pub(super) fn fetch_later(&mut self, id: JobId, staged: Staged, into: Mem) {
        let index = self.staging.index(staged.entry);
        let entry = &mut self.staging.entries[index];
        let number = entry.number;
        let fetches = &mut self.jobs[id].fetches;
        match fetches.last_mut() {
            Some(last)
                if last.entry == number
                    && last.at + last.blocks == staged.at
                    && last.into.plus(last.blocks) == into =>
            {
                last.blocks += 1;
            }
            Some(_) | None => {
                entry.pins += 1;
                fetches.push(Fetch { entry: number, at: staged.at, blocks: 1, into });
            }
        }
        self.counters.staged_reads += 1;
    }

    /// Begins the reads from the log, a few at a time.
    pub(in super::super) fn issue_fetches(&mut self, id: JobId, out: &mut Vec<Action>) {
        let mut begun = 0;
        while begun < WINDOW && self.issue_fetch(id, out) {
            begun += 1;
        }
    }

    fn issue_fetch(&mut self, id: JobId, out: &mut Vec<Action>) -> bool {
        let job = &mut self.jobs[id];
        let index = job.fetched;
        if index == job.fetches.len() {
            return false;
        }
        job.fetched += 1;
        self.begin_fetch(id, index, out);
        true
    }

    /// Reads from a calm holder if there is one, from the one with the least to do.
    fn begin_fetch(&mut self, id: JobId, index: usize, out: &mut Vec<Action>) {
        let fetch = self.jobs[id].fetches[index];
        let entry = self.staging.entry(fetch.entry);
        let places = entry.payload.iter().filter(|(member, _)| entry.holders.has(member.index()));
        let load = |&&(member, _): &&(MemberId, Pba)| {
            let m = &self.members[member.index()];
            (m.unreadable, self.is_member_busy(member.index()), m.in_flight)
        };
        let place = places.min_by_key(load).copied();
        let found = place.and_then(|(member, at)| Some((member, at, self.live_device(member)?)));
        let Some((member, at, device)) = found else {
            self.jobs[id].error = Some(RequestError::Io);
            return;
        };
        let into = self.jobs[id].bind(fetch.into);
        self.jobs[id].outstanding += 1;
        let owner = Owner::Fetch { job: id, index: index as u16 };
        let op = Op { owner, member: Some(member), device };
        let at = Pba(at.0 + u64::from(fetch.at));
        self.issue(op, IoOp::Read(into), at, fetch.blocks, out);
    }

    pub(in super::super) fn fetch_done(
        &mut self,
        id: JobId,
        index: u16,
        op: Op,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let fetch = self.jobs[id].fetches[usize::from(index)];
        match (result, op.member) {
            (Ok(()), _) | (_, None) => {
                self.issue_fetch(id, out);
            }
            (Err(why), Some(member)) => {
                if why == IoError::Gone && self.is_current(&op) {
                    self.read_failed(member, why, out);
                } else {
                    self.members[member.index()].read_errors += 1;
                }
                // The others have it, too.
                let entry = self.staging.entry_mut(fetch.entry);
                entry.holders = entry.holders.without(member.index());
                self.begin_fetch(id, usize::from(index), out);
            }
        }
        self.one_done(id);
    }

    /// A job reads no more from the log.
    pub(super) fn unpin(&mut self, id: JobId) {
        let mut fetches = mem::take(&mut self.jobs[id].fetches);
        for fetch in fetches.drain(..) {
            self.staging.entry_mut(fetch.entry).pins -= 1;
        }
        self.jobs[id].fetches = fetches;
        self.jobs[id].fetched = 0;
    }
}

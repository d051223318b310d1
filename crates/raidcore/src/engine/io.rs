//! What a job reads and writes: a plan's I/Os become devices' I/Os.

use alloc::vec::Vec;

use super::job::{Op, Owner, Stage, Work};
use super::{Action, Engine, IoOp, JobId, Note, PassKind, RequestError};
use crate::units::{MemberId, Pba};

impl Engine {
    pub(super) fn issue_reads(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        for index in 0..self.jobs[id].plan.reads.len() {
            self.issue_read(id, index, out);
        }
        Stage::AfterRead
    }

    pub(super) fn issue_read(&mut self, id: JobId, index: usize, out: &mut Vec<Action>) {
        let job = &self.jobs[id];
        let io = job.plan.reads[index];
        let (member, at) = match job.work {
            Work::Replay { index: entry } => {
                let entry = self.journal.replay(entry);
                let before: u32 = job.plan.reads[..index].iter().map(|r| r.blocks).sum();
                (entry.holder, Pba(entry.at.0 + u64::from(before)))
            }
            _ => self.place(job.stripe, io.role, io.row),
        };
        let Some(device) = self.members[member.index()].device else {
            // It went between the plan and now; what is left decides anew.
            self.jobs[id].replan = true;
            if matches!(self.jobs[id].work, Work::Replay { .. }) {
                self.jobs[id].error = Some(RequestError::Io);
            }
            return;
        };
        let mem = job.bind(io.mem);
        self.jobs[id].outstanding += 1;
        let op = Op {
            owner: Owner::Read {
                job: id,
                index: index as u16,
            },
            member: Some(member),
            device,
        };
        self.issue(op, IoOp::Read(mem), at, io.blocks, out);
    }

    pub(super) fn issue_writes(&mut self, id: JobId, out: &mut Vec<Action>) -> Stage {
        let job = &self.jobs[id];
        if job.error.is_some() {
            return Stage::Settle;
        }
        match job.work {
            Work::Zero { trim: true } => self.issue_discards(id, out),
            Work::Sync(PassKind::Scrub { .. }) if !job.mismatch => return Stage::Settle,
            Work::Sync(PassKind::Scrub { .. }) => {
                out.push(Action::Note(Note::Mismatch(job.stripe)))
            }
            _ => {}
        }
        for index in 0..self.jobs[id].plan.writes.len() {
            let job = &self.jobs[id];
            let (io, fua) = (job.plan.writes[index], job.fua);
            let (member, at) = self.place(job.stripe, io.role, io.row);
            // Who failed since the plan was made misses the write; that is recorded before it
            // is acknowledged.
            let Some(device) = self.live_device(member) else {
                continue;
            };
            let from = job.bind(io.mem);
            self.jobs[id].outstanding += 1;
            let owner = Owner::Write {
                job: id,
                index: index as u16,
            };
            let op = Op {
                owner,
                member: Some(member),
                device,
            };
            self.issue(op, IoOp::Write { from, fua }, at, io.blocks, out);
        }
        Stage::Harden
    }

    /// Tells all members that they need not keep a stripe.
    fn issue_discards(&mut self, id: JobId, out: &mut Vec<Action>) {
        let at = self
            .geo
            .place(self.jobs[id].stripe, self.areas.data_start());
        for member in (0..self.members.len() as u8).map(MemberId) {
            let Some(device) = self.live_device(member) else {
                continue;
            };
            self.jobs[id].outstanding += 1;
            let op = Op {
                owner: Owner::Discard { job: id },
                member: Some(member),
                device,
            };
            self.issue(op, IoOp::Discard, at, self.geo.chunk(), out);
        }
    }
}

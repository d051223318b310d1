//! A write that takes long at home is staged as well: see [`twins`](crate::engine::hedge).

use super::hedge::AGAIN;
use crate::engine::hedge::{Ended, Left, Twin};
use crate::engine::steering::{HedgedWrite, Redirect, Way};
use crate::engine::work::Work;
use crate::engine::{Engine, JobId, Phase};
use crate::plan::{self, Base, Step, SubIo};
use crate::units::Mem;

impl Engine {
    /// A write is planned that goes home, and may not take for ever, if the policy says so: then it writes from
    /// memory of its own.
    pub(super) fn limit(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
        let able = job.work == Work::Write
            && job.base == Base::Stored
            && job.bad.is_empty()
            && !job.log.covers
            && self.range.staging.is_open();
        let patience = match able {
            true => self.array.steering.home_patience(self.now, job.piece_blocks()),
            false => None,
        };
        let job = &mut self.range.jobs[id];
        job.hedge.patience = patience;
        if patience.is_none() {
            return;
        }
        let (plan, geo) = (&mut job.plan, self.layout.of(job.stripe));
        for io in &mut plan.writes {
            if let SubIo { role, row, blocks, mem: src @ Mem::Payload { .. } } = *io {
                // In the role's own buffer there may be partial parity for the journal.
                let own = plan::beside(geo, role);
                let dst = plan::scratch(own, row);
                plan.scratch = plan.scratch.with(own);
                plan.steps.push((Step::Copy { dst, src }, blocks));
                io.mem = dst;
            }
        }
    }

    /// A write has taken long at home.
    pub(super) fn stage_too(&mut self, id: JobId) {
        if !self.range.jobs.waits_at_home(id) {
            // It is being computed, or waits for something else; soon it may wait for members again.
            let patience = self.range.jobs[id].hedge.patience.unwrap_or_default();
            self.range.patience.wait(self.now + patience.max(AGAIN), id);
            return;
        }
        let able = self.range.staging.is_open()
            && self.phase == Phase::Serving
            && self.array.membership.takes_writes()
            && !self.layout.is_saved(self.range.jobs[id].stripe);
        if !able {
            return;
        }
        let redirect = Redirect { busy: true, ..self.redirect(id, true) };
        let staged = self.array.steering.hedges_write(self.now, redirect)
            && self.has_room_for(id)
            && self.range.jobs.begin_twin(id, self.now);
        self.array.counters.hedged_home_writes += u64::from(staged);
    }

    /// What a job leaves behind that is one of two writes of the same.
    pub(super) fn left_behind(&self, id: JobId) -> Left {
        let job = &self.range.jobs[id];
        match (job.error, job.is_given_up(), job.log.staged) {
            (Some(_), ..) => Left::Unknown,
            (None, true, _) if job.leaves_home() => Left::AsItWas,
            (None, true, _) => Left::AtHome,
            (None, false, Some(number)) if job.asked.way == Way::Around => Left::Staged(number),
            (None, false, _) => Left::Unknown,
        }
    }

    /// One of two writes of the same has ended. When both have, it is known whether what is staged is at home, too.
    pub(super) fn end_twin(&mut self, id: JobId, left: Left) {
        let mine = Ended { at: self.now, left };
        let Some(other) = self.range.jobs.twin_ended(id, mine) else { return };
        let (home, staged) = if let Left::Staged(_) = left { (other, mine) } else { (mine, other) };
        let Left::Staged(number) = staged.left else { return };
        let job = &self.range.jobs[id];
        if home.left == Left::AtHome {
            let (stripe, geo) = (job.stripe, self.layout.of(job.stripe));
            let pieces = job.pieces.iter();
            let lbas = pieces.flat_map(|p| geo.lbas(stripe, p.role, p.row, p.blocks));
            let blocks = self.range.staging.came_home((stripe, number), lbas);
            self.array.counters.home_meanwhile += blocks;
        }
        let twin = job.hedge.twin.filter(|_| home.left != Left::Unknown);
        if let Some(Twin { way, late, .. }) = twin {
            let (blocks, begun) = (job.asked.blocks, job.asked.begun);
            let (took, late) = (staged.at - begun, late.map(|chosen| staged.at - chosen));
            // What had read by then would have had to write, too.
            let home_at = match home.left {
                Left::AsItWas => home.at.max(staged.at),
                Left::AtHome | Left::Staged(_) | Left::Unknown => home.at,
            };
            let home = home_at - begun;
            self.array.steering.hedged_write(HedgedWrite { blocks, way, took, late, home });
        }
    }
}

//! The staging log as a source of what is staged, and what events mean for it as a whole.

use super::source::Source;
use crate::engine::array::Array;
use crate::engine::fetching::Fetch;
use crate::engine::wait::Wait;
use crate::engine::{Engine, JobId, RequestError};
use crate::units::MemberId;

/// The staging log: what only it has, and what it has of busy members.
pub(super) const STAGED: Source = Source {
    concerns: |engine, stripe| engine.range.staging.concerns(stripe),
    find: |engine, id, lba, block| {
        let (geo, stripe) = (&engine.layout, engine.range.jobs[id].stripe);
        let home = || geo.member(stripe, block.role);
        engine.range.staging.find(lba, engine.array.steering.busy(), home)
    },
    pin: |engine, number| engine.range.staging.pin(number, 1),
    unpin: |engine, number| engine.range.staging.unpin(number),
    // A calm holder if there is one, the one with the least to do; of two of these a young one.
    place: |engine, number, tried| {
        let Array { membership, steering, flights, .. } = &engine.array;
        engine.range.staging.best_holder(number, tried, |member| {
            let (busy, old) = (steering.is_busy(member), !steering.young().has(member));
            (membership.is_unreadable(member), busy, flights.of(member), old)
        })
    },
    not_fetched: Engine::no_holder_has,
    goes_around: false,
};

impl Engine {
    /// No holder of an entry can read all of what a job was to fetch of it.
    fn no_holder_has(&mut self, id: JobId, index: usize) {
        let Fetch { from: (_, number), piece, .. } = self.range.jobs[id].fetching.get(index);
        if piece.blocks > 1 {
            // Each holder may lack another block of it.
            self.range.staging.pin(number, piece.blocks);
            self.range.jobs[id].fetching.split(index);
        } else {
            let lbas = self.lbas_of(id, &piece);
            self.range.staging.note_unreadable(number, lbas);
            self.range.jobs[id].error = Some(RequestError::Io);
        }
    }

    /// A member's failure counts for the log, too. If the log loses what it knows of itself, all of it
    /// is void by the record of the failure.
    pub(super) fn unstage_member(&mut self, member: MemberId) {
        if self.range.staging.drop_member(member) {
            self.array.membership.void_staged();
        }
        self.range.copies.drop_member(member);
        self.wake_staging();
    }

    /// Jobs that wait for room look again.
    pub(super) fn wake_staging(&mut self) {
        if self.range.staging.looks_again() {
            self.range.jobs.wake(|wait| *wait == Wait::Staging);
        }
    }
}

//! What events mean for the staging log as a whole.

use crate::engine::Engine;
use crate::engine::staging::holders::Loss;
use crate::engine::wait::Wait;
use crate::units::{MemberId, Set};

impl Engine {
    /// A member's failure counts for the log, too. If the log loses what it knows of itself, all of it
    /// is void by the record of the failure.
    pub(super) fn unstage_member(&mut self, member: MemberId) {
        if self.range.staging.has_devices()
            && self.range.staging.loss(Set::one(member)) == Loss::Notes
        {
            // Rings go on where they are: until the record is durable, these entries count.
            self.array.membership.recorder.record.staging_epoch += 1;
            self.range.staging.entries.iter_mut().for_each(|entry| entry.holders = Set::EMPTY);
        }
        self.range.staging.drop_member(member);
        self.range.copies.drop_member(member);
        self.wake_staging();
    }

    /// Jobs that wait for room look again.
    pub(super) fn wake_staging(&mut self) {
        self.range.staging.starved = false;
        self.range.jobs.wake(|wait| *wait == Wait::Staging);
    }
}

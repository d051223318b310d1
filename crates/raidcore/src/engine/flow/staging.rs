//! What events mean for the staging log as a whole.

use crate::engine::Engine;
use crate::engine::wait::Wait;
use crate::units::MemberId;

impl Engine {
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

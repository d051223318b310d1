//! Changes of the record that the rest of the engine asks for. None of them is recorded by itself: the
//! next version of the record is to be asked for, too.

use super::Membership;
use crate::meta::{
    Features, Policy, PolicyName, Reshape, ScrubRecord, SlotState, Spared, VolatileWrites,
};
use crate::units::{MEMBERS_MAX, MemberId, Set};

/// More epochs of the staging log than there can be between two records: a device that is lost counts up one.
const EPOCHS_OF_A_RUN: u64 = 2 * MEMBERS_MAX as u64;

impl Membership {
    /// The array is in use; journal entries of earlier starts are void.
    pub(in crate::engine) fn starts(&mut self) {
        let record = &mut self.recorder.record;
        record.epoch += 1;
        record.clean = false;
    }

    /// The array stops: `clean` if all that was written is at home, durably.
    pub(in crate::engine) fn stops(&mut self, clean: bool) {
        let record = &mut self.recorder.record;
        record.clean = clean;
        if clean {
            record.set_volatile(VolatileWrites { held: false, ..record.volatile });
        }
    }

    /// Users' writes may be acknowledged from a host's memory from now on, or are not any more.
    pub(in crate::engine) fn set_volatile(&mut self, held: bool) {
        let record = &mut self.recorder.record;
        record.set_volatile(VolatileWrites { held, ..record.volatile });
    }

    /// What was acknowledged from a host's memory is lost.
    pub(in crate::engine) fn lose_writes(&mut self) {
        let record = &mut self.recorder.record;
        record.set_volatile(VolatileWrites { lost: true, ..record.volatile });
    }

    /// What is staged is void.
    pub(in crate::engine) fn void_staged(&mut self) {
        self.recorder.record.staging_epoch += 1;
    }

    /// What a start has found staged is void, and what it has not found: before a crash entries may have been
    /// of an epoch that was not on record yet.
    pub(in crate::engine) fn begin_staging_anew(&mut self) {
        self.recorder.record.staging_epoch += EPOCHS_OF_A_RUN;
    }

    /// All that is staged is on as many devices as it is meant to be.
    pub(in crate::engine) fn staging_is_thick(&mut self) {
        self.recorder.record.staging_thin = Set::EMPTY;
    }

    /// A member serves with all that it is to have.
    pub(in crate::engine) fn becomes_up(&mut self, member: MemberId, seconds: u64) {
        self.recorder.record.slots[member.index()].becomes(SlotState::Up, seconds);
    }

    /// The device that a failed member had may come back to its place: it has what was written before this
    /// version of the record.
    pub(in crate::engine) fn may_come_back(&mut self, member: MemberId, version: u64) {
        self.recorder.record.slots[member.index()].left = Some(version);
    }

    /// A member's device has come back, and is brought up to date.
    pub(in crate::engine) fn begin_to_catch_up(&mut self, member: MemberId) {
        self.recorder.record.slots[member.index()].catches_up = true;
    }

    /// A failed member's chunks go to the distributed spare from now on.
    pub(in crate::engine) fn begin_to_spare(&mut self, member: MemberId) {
        let record = &mut self.recorder.record;
        record.spared = Some(Spared { member, watermark: 0 });
        // The place may have had this device when the spare held its chunks before.
        record.filled = None;
    }

    /// The distributed spare has all of the chunks that go to it, and stands in for their member.
    pub(in crate::engine) fn stand_in(&mut self) {
        let stripes = self.geo().stripes();
        if let Some(spared) = &mut self.recorder.record.spared {
            spared.watermark = stripes;
        }
        self.look_at_members();
    }

    /// The distributed spare stands in for no member any more. Returns the version of the record that has
    /// that; what is written from now on is acknowledged only when it is durable, since the spare misses it
    /// and must not be taken to have it.
    pub(in crate::engine) fn leave_spare(&mut self) -> u64 {
        let record = &mut self.recorder.record;
        (record.spared, record.filled) = (None, None);
        self.recorder.acknowledge_after_next();
        self.recorder.next_version()
    }

    /// A reshape has come further. It is over when all stripes are new ones.
    pub(in crate::engine) fn reshape(&mut self, change: impl FnOnce(Reshape) -> Reshape) {
        let record = &mut self.recorder.record;
        let reshape = record.reshape.map(change);
        record.reshape = reshape.filter(|reshape| reshape.next < record.geometry.stripes());
        if record.reshape.is_none() {
            // Stripes may have other numbers, and be fewer.
            let stripes = record.geometry.stripes();
            record.filled = None;
            for slot in &mut record.slots {
                if let SlotState::Rebuilding { watermark } = &mut slot.state {
                    *watermark = stripes.min(*watermark);
                }
            }
            record.features.incompatible &= !Features::RESHAPE;
            record.tell_stripes();
        }
    }

    /// How the last scrub has ended, and what it found.
    pub(in crate::engine) fn set_scrub(&mut self, scrub: ScrubRecord) {
        self.recorder.record.scrub = Some(scrub);
    }

    /// The policy has this name; since now, unless it had it before.
    pub(in crate::engine) fn set_policy(&mut self, name: PolicyName, now: u64) {
        let policy = &mut self.recorder.record.policy;
        *policy = policy.filter(|policy| policy.name == name).or(Some(Policy { name, since: now }));
    }
}

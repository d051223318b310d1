//! A member that serves gives its place to a successor.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::membership::Succession;
use crate::engine::wait::Wait;
use crate::engine::work::Work;
use crate::engine::{
    Action, CommandError, Engine, IoError, JobId, Note, PassKind, Spare, SuccessorStatus,
};
use crate::units::{DeviceId, MemberId};

impl Engine {
    /// The spare to which a member is being copied, if one is.
    #[must_use]
    pub fn successor(&self) -> Option<SuccessorStatus> {
        self.array.membership.successor(|member| self.stripes_of(PassKind::Copy(member)))
    }

    /// The devices that take what a job writes to a member.
    pub(super) fn written_devices(
        &self,
        id: JobId,
        member: MemberId,
    ) -> impl Iterator<Item = DeviceId> + use<> {
        let job = &self.range.jobs[id];
        let copies = matches!(job.work, Work::Sync(PassKind::Copy(_)));
        let fills = job.work == Work::Sync(PassKind::Rebuild(member));
        let membership = &self.array.membership;
        // Another device may have taken the member's place since the plan was made: what is there means
        // nothing, and may be being discarded.
        let keeps = !membership.impaired || fills || self.is_current_in(member, job.stripe);
        let devices = keeps.then(|| membership.written_devices(member, job.stripe, copies));
        devices.into_iter().flatten()
    }

    /// A member that serves is to be copied to a spare.
    pub(super) fn begin_succession(
        &mut self,
        member: MemberId,
        spare: Spare,
        out: &mut Vec<Action>,
    ) -> Result<(), CommandError> {
        let first_entry = self.range.journal.next_entry();
        self.array.membership.begin_succession(member, spare, first_entry)?;
        self.array.flusher.forget_filled(|kind| matches!(kind, PassKind::Copy(_)));
        self.array.background.look();
        out.push(Action::Note(Note::CopyBegun { member, device: spare.device }));
        Ok(())
    }

    /// A device is no successor any more, if it was one, and the member stays; that is to be recorded next.
    pub(super) fn end_succession(&mut self, device: DeviceId) {
        if self.array.membership.end_succession(device) {
            self.array.background.cancel_if(|kind| matches!(kind, PassKind::Copy(_)));
            self.array.background.look();
        }
    }

    /// An I/O has ended with an error: a successor that has not taken it is none any more.
    pub(super) fn successor_missed(&mut self, op: &Flight, why: IoError, out: &mut Vec<Action>) {
        let hint = matches!(
            op.owner,
            Owner::Discard { .. } | Owner::TrimSpare | Owner::TrimLog | Owner::Clear
        );
        if op.member.is_some() && !hint && self.array.membership.is_successor(op.device) {
            self.spare_failed(op.device, why, out);
        }
    }

    /// A spare does not work.
    pub(super) fn spare_failed(&mut self, device: DeviceId, why: IoError, out: &mut Vec<Action>) {
        let succession = self.array.membership.succession().filter(|s| s.device == device);
        if let Some(&Succession { member, .. }) = succession {
            out.push(Action::Note(Note::CopyFailed { member, device, why }));
        }
        self.forget_spare(device, out);
    }

    /// The member has failed that a successor is filled from: it takes the place now, with what it has.
    /// That is to be recorded next.
    pub(super) fn inherit(&mut self, heir: Succession, out: &mut Vec<Action>) {
        self.array.membership.inherit(&heir);
        let Succession { member, device, progress, .. } = heir;
        self.range.missed.forget(member);
        self.array.background.inherit(member, progress);
        self.array.flusher.forget_filled(|kind| kind == PassKind::Rebuild(member));
        self.range.staging.try_again();
        self.array.background.look();
        out.push(Action::Note(Note::SpareActivated { member, device }));
    }

    /// At a start: a successor that is missing is none any more, and one whose member is missing takes its
    /// place. Returns whether that is to be recorded.
    pub(super) fn look_for_successor(&mut self, out: &mut Vec<Action>) -> bool {
        match self.array.membership.heir_of_gone() {
            Some(heir) => self.inherit(heir, out),
            None => return self.array.membership.trust_successor(),
        }
        true
    }

    /// Whether the successor has everything, but for what is in the member's journal from before.
    pub(super) fn may_succeed(&self) -> bool {
        self.range.maps.are_spread()
            && self.array.membership.takes_writes()
            && self.array.membership.succession().is_some_and(|succession| {
                self.range.journal.is_settled_before(succession.member, succession.first_entry)
            })
    }

    /// The successor is the member from now on.
    pub(super) fn succeed(&mut self, out: &mut Vec<Action>) {
        let Some((heir, old)) = self.array.membership.succeed() else { return };
        let Succession { member, device, first_entry, .. } = heir;
        self.range.journal.inherit_ring(member, first_entry);
        self.range.jobs.wake(|wait| *wait == Wait::Space);
        self.unstage_member(member);
        self.fail_the_useless(out);
        self.array.background.look();
        if let Some(old) = old {
            out.push(Action::Note(Note::MemberReplaced { member, device, old }));
            out.push(Action::Release(old));
        }
    }
}

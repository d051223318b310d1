//! Where jobs find and put a spared member's chunks.

use alloc::vec::Vec;

use crate::engine::distributed::Targets;
use crate::engine::progress::Progress;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, PassKind};
use crate::geometry::Role;
use crate::meta::{SlotState, spare_copies};
use crate::plan::SubIo;
use crate::units::{MemberId, Pba, Set, Stripe};

impl Engine {
    /// Whether the spare holds a stripe's chunk.
    fn is_spared(&self, stripe: Stripe) -> bool {
        self.distributed().has(stripe.0)
    }

    /// How far the spare is filled.
    fn distributed(&self) -> &Progress {
        self.range.distributed.progress(self.array.background.distributed())
    }

    /// Whether a member is current in a stripe.
    pub(super) fn is_current_in(&self, member: MemberId, stripe: Stripe) -> bool {
        self.array.membership.device(member).is_some()
            && match self.array.membership.record().slots[member.index()].state {
                SlotState::Up => true,
                SlotState::Rebuilding { .. } => {
                    self.array.background.is_rebuilt(member, stripe)
                        || self.range.missed.is_current(member, self.areas.region(stripe))
                }
                SlotState::Failed => false,
            }
    }

    /// The role that the spare has copies of in a stripe, and whether one of them can be read, and
    /// one has to be kept current.
    pub(super) fn spared_role(&self, stripe: Stripe) -> Option<(Role, bool, bool)> {
        let failed = self.array.membership.spared().filter(|_| self.is_spared(stripe))?;
        let copies = self.copies_on_spare(stripe, 0);
        let readable = copies.iter().any(|(m, _)| !self.array.membership.is_unreadable(m));
        Some((self.layout.role(stripe, failed)?, readable, copies.len() > 0))
    }

    /// The copies on the spare of a row of a stripe's chunk, on the members that are current there.
    fn copies_on_spare(&self, stripe: Stripe, row: u32) -> Targets {
        let mut places = Targets::NONE;
        let Some(failed) = self.array.membership.spared() else { return places };
        for copy in 0..spare_copies(self.layout.of(stripe)) {
            let (member, at) = self.areas.on_distributed_spare(&self.layout, failed, stripe, copy);
            if self.is_current_in(member, stripe) {
                places.push(member, Pba(at.0 + u64::from(row)));
            }
        }
        places
    }

    /// Where a job writes rows of a role.
    pub(super) fn targets(&self, id: JobId, io: &SubIo) -> Targets {
        let job = &self.range.jobs[id];
        let (member, home) = self.place(job.stripe, io.role, io.row);
        let mut places = Targets::NONE;
        if self.array.membership.spared() != Some(member) {
            places.push(member, home);
            return places;
        }
        let copies = || self.copies_on_spare(job.stripe, io.row);
        match job.work {
            Work::Sync(PassKind::Distribute(_)) => return copies(),
            Work::Sync(PassKind::Copy(_)) => places.push(member, home),
            Work::Sync(PassKind::Rebuild(filled)) if filled == member => places.push(member, home),
            // Of another member only what belongs on it is missing, and it is not current yet.
            Work::Sync(PassKind::Rebuild(filled)) => {
                if let Some(at) = self.copy_on(filled, job.stripe) {
                    places.push(filled, Pba(at.0 + u64::from(io.row)));
                }
            }
            Work::Read
            | Work::Write
            | Work::Zero { .. }
            | Work::Sync(PassKind::Resync | PassKind::Scrub { .. } | PassKind::Reshape)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => {
                if self.is_current_in(member, job.stripe) {
                    places.push(member, home);
                }
                if self.is_spared(job.stripe) {
                    copies().iter().for_each(|(member, at)| places.push(member, at));
                }
            }
        }
        places
    }

    /// Where a member's copy of a stripe's chunk begins, if one belongs on it.
    fn copy_on(&self, member: MemberId, stripe: Stripe) -> Option<Pba> {
        let failed = self.array.membership.spared().filter(|_| self.is_spared(stripe))?;
        let place = |copy| self.areas.on_distributed_spare(&self.layout, failed, stripe, copy);
        let mut places = (0..spare_copies(self.layout.of(stripe))).map(place);
        places.find(|&(holder, _)| holder == member).map(|(_, at)| at)
    }

    /// The role of which a job has to write copies besides what it is there for: a rebuild, those
    /// that belong on the member that it fills; a resync, all of them, of which a crash may have left
    /// one behind.
    pub(super) fn also_written(&self, id: JobId) -> Option<Role> {
        let job = &self.range.jobs[id];
        let failed = self.array.membership.spared()?;
        let role = self.layout.role(job.stripe, failed)?;
        let wanted = match job.work {
            Work::Sync(PassKind::Rebuild(member)) => {
                member != failed && self.copy_on(member, job.stripe).is_some()
            }
            Work::Sync(PassKind::Resync) | Work::Align => self.is_spared(job.stripe),
            Work::Sync(
                PassKind::Distribute(_)
                | PassKind::Copy(_)
                | PassKind::Scrub { .. }
                | PassKind::Reshape,
            )
            | Work::Read
            | Work::Write
            | Work::Zero { .. }
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => false,
        };
        wanted.then_some(role)
    }

    /// Where a job's read, by its index in the plan, goes: home, or to a copy that it has not tried
    /// yet, a calm one if there is one. Of copies that a crash may have left different, always the
    /// same.
    pub(super) fn source(&self, id: JobId, index: usize) -> Option<(MemberId, Pba)> {
        let job = &self.range.jobs[id];
        let io = &job.plan.reads[index];
        let (member, home) = self.place(job.stripe, io.role, io.row);
        let elsewhere = self.array.membership.spared() == Some(member)
            && !self.is_current_in(member, job.stripe)
            && self.is_spared(job.stripe);
        if !elsewhere {
            return Some((member, home));
        }
        let tried = |member: MemberId| job.retries.was_tried(index as u16, member);
        let able = |&(member, _): &(MemberId, Pba)| {
            !self.array.membership.is_unreadable(member) && !tried(member)
        };
        let mut copies = self.copies_on_spare(job.stripe, io.row).iter().filter(able);
        if !self.is_in_step(job.stripe) {
            return copies.next();
        }
        if let Work::Sync(PassKind::Scrub { .. }) = job.work {
            let all = self.copies_on_spare(job.stripe, io.row).iter();
            return all.skip(job.scrub.round().into()).find(able).or_else(|| copies.next());
        }
        let steering = &self.array.steering;
        let load = |&(member, _): &(MemberId, Pba)| {
            let old = !steering.young().has(member);
            (steering.is_busy(member), self.array.flights.of(member), old)
        };
        copies.min_by_key(load)
    }

    /// The members that hold a role of a stripe now: at home, or its copies on the spare.
    pub(super) fn holders_of(&self, stripe: Stripe, role: Role) -> Set<MemberId> {
        let member = self.layout.member(stripe, role);
        if self.array.membership.spared() != Some(member) {
            return Set::one(member);
        }
        let home = self.is_current_in(member, stripe);
        let home = if home { Set::one(member) } else { Set::EMPTY };
        if !self.is_spared(stripe) {
            return home;
        }
        let copies = self.copies_on_spare(stripe, 0);
        copies.iter().fold(home, |set, (member, _)| set.with(member))
    }

    /// Whether what is at a place of a member is on the spare.
    pub(super) fn is_on_spare(&self, member: MemberId, at: Pba) -> bool {
        self.areas.has_distributed_spare() && at >= self.layout.data_end(member)
    }

    /// The failed member whose chunks are to be put on the spare next, if there is one.
    pub(super) fn to_be_distributed(&self) -> Option<MemberId> {
        let record = self.array.membership.record();
        if !record.areas.has_distributed_spare() {
            return None;
        }
        let failed = |member: &MemberId| record.slots[member.index()].state == SlotState::Failed;
        match record.spared {
            Some(spared) => {
                let stands_in = record.stood_in_for().is_some();
                Some(spared.member).filter(|member| failed(member) && !stands_in)
            }
            None => self.layout.member_set().find(failed),
        }
    }

    /// Whether the spare is free, also for a start after a crash. Its old content is discarded then, and a
    /// pass that waits for the spare looks again when that has ended.
    pub(super) fn is_spare_free(&self) -> bool {
        self.array.membership.spared().is_none()
            && self.array.flights.on_spare() == 0
            && self.array.membership.recorder.is_on_record(self.range.distributed.freed_with())
    }

    /// A failed member's chunks go to the spare from now on.
    pub(super) fn begin_to_distribute(&mut self, member: MemberId, out: &mut Vec<Action>) {
        if self.array.membership.spared().is_none() {
            self.range.distributed.set_progress(Progress::default());
            self.array.membership.begin_to_spare(member);
            self.record_change(out);
        }
    }

    /// All of a failed member's chunks are on the spare, durably.
    pub(super) fn is_distributed(&mut self, out: &mut Vec<Action>) {
        self.range.distributed.set_progress(Progress::from(self.layout.stripes()));
        self.array.membership.stand_in();
        self.fail_the_useless(out);
        self.record_change(out);
    }

    /// Another device is the member again whose chunks were on the spare. That is to be recorded next.
    pub(super) fn leave_spare(&mut self, member: MemberId) {
        if self.array.membership.spared() == Some(member) {
            let version = self.array.membership.leave_spare();
            self.range.distributed.free(version);
            self.array.background.look();
        }
    }

    /// How many copies of a stripe's chunk are on the spare.
    pub(super) fn scrubbed_copies(&self, stripe: Stripe) -> u8 {
        if self.is_spared(stripe) { self.copies_on_spare(stripe, 0).len() as u8 } else { 0 }
    }
}

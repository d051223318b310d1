//! Which background pass is begun when, and its jobs.

use alloc::vec::Vec;

use crate::engine::order::Order;
use crate::engine::pass::{Closing, Pass};
use crate::engine::progress::{Progress, WINDOW};
use crate::engine::work::Work;
use crate::engine::{Action, Engine, JobId, Note, PassEnd, PassKind, Phase};
use crate::meta::SlotState;
use crate::units::{MemberId, Stripe};

impl Engine {
    /// Sets passes and their stripes going, as far as room and pace allow. Returns whether the pass
    /// under way has come closer to its end, for which something else may have to be done at once.
    pub(super) fn background(&mut self, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        loop {
            if self.array.background.look && self.phase == Phase::Serving {
                self.array.background.look = false;
                if self.array.background.pass.is_none() {
                    self.begin_pass(out);
                } else if self.rebuild_is_better() || self.redundancy_comes_first() {
                    self.array.background.cancel();
                }
            }
            let Some(closing) = self.array.background.closing() else {
                return moved;
            };
            self.begin_stripes();
            let ended = self.end_pass_if_done(out);
            moved |= self.array.background.closing() != Some(closing);
            if !ended {
                return moved;
            }
            self.array.background.look = true;
        }
    }

    fn begin_stripes(&mut self) {
        while let Some(stripe) = self.next_stripe() {
            let Some(kind) = self.array.background.pass.as_ref().map(|p| p.kind) else {
                return;
            };
            let Some(job) = self.new_job(Work::Sync(kind), stripe) else {
                break;
            };
            let now = self.now;
            if let Some(pass) = &mut self.array.background.pass {
                pass.in_flight += 1;
                pass.next = stripe.0 + 1;
                pass.begun_at = Some(now);
            }
            if let PassKind::Scrub { .. } = kind {
                self.begin_rounds(job);
            }
            self.start_job(job);
        }
    }

    fn begin_pass(&mut self, out: &mut Vec<Action>) {
        let kind = if self.range.regions.unsynced.count() > 0 && self.geo.redundancy() > 0 {
            PassKind::Resync
        } else if let Some(member) = self.rebuilding() {
            PassKind::Rebuild(member)
        } else if let Some((member, spare)) = self.spare_for_failed() {
            self.end_succession(self.array.membership.spares[spare].device);
            self.activate(member, spare, out);
            PassKind::Rebuild(member)
        } else if let Some(member) = self.to_be_distributed() {
            if self.array.membership.spared().is_none() && !self.is_spare_free() {
                return;
            }
            self.begin_to_distribute(member, out);
            PassKind::Distribute(member)
        } else if let Some(succession) = &self.array.membership.succession {
            PassKind::Copy(succession.member)
        } else if let Some(repair) = self.array.background.scrub_wanted.take() {
            PassKind::Scrub { repair }
        } else {
            return;
        };
        let progress = match kind {
            PassKind::Rebuild(member) => self.array.background.rebuilt[member.index()],
            PassKind::Distribute(_) => self.range.distributed.filled,
            PassKind::Copy(_) => {
                self.array.membership.succession.map_or(Progress::default(), |s| s.progress)
            }
            PassKind::Resync | PassKind::Scrub { .. } => Progress::default(),
        };
        let total = self.stripes_of(kind);
        self.array.background.pass = Some(Pass::new(kind, progress, total, self.now));
        out.push(Action::Note(Note::PassStarted(kind)));
    }

    /// The first that a device is there for to be filled.
    fn rebuilding(&self) -> Option<MemberId> {
        let mut slots =
            self.array.membership.recorder.record.slots.iter().zip(&self.array.membership.members);
        let index = slots.position(|(slot, m)| {
            matches!(slot.state, SlotState::Rebuilding { .. }) && m.device.is_some()
        });
        index.map(MemberId::at)
    }

    /// Whether the distributed spare can't be filled, and a device could.
    fn rebuild_is_better(&self) -> bool {
        let pass = self.array.background.pass.as_ref();
        let Some(Pass { kind: PassKind::Distribute(member), cancelled, stuck, .. }) = pass else {
            return false;
        };
        // To catch up takes less.
        let returned =
            self.array.membership.recorder.record.slots[member.index()].catches_up && !cancelled;
        returned
            || stuck.is_some() && (self.rebuilding().is_some() || self.spare_for_failed().is_some())
    }

    /// Whether a member is being copied while redundancy could be brought back, be it by the device that
    /// it is copied to.
    fn redundancy_comes_first(&self) -> bool {
        let copies =
            |pass: &Pass| matches!(pass.kind, PassKind::Copy(_)) && pass.closing == Closing::No;
        self.array.background.pass.as_ref().is_some_and(copies)
            && (self.rebuilding().is_some()
                || self.spare_for_failed().is_some()
                || self.to_be_distributed().is_some())
    }

    /// The first that has failed and a spare that is large enough for its place; the one whose data
    /// is on the distributed spare comes last, and of the spares the successor of a member.
    fn spare_for_failed(&self) -> Option<(MemberId, usize)> {
        let record = &self.array.membership.recorder.record;
        let failed = |member: &MemberId| record.slots[member.index()].state == SlotState::Failed;
        let stood_in_for = record.stood_in_for();
        let others = record.places().filter(|&member| Some(member) != stood_in_for);
        let mut failed = others.chain(stood_in_for).filter(failed);
        failed.find_map(|member| {
            let fits = |spare: &&crate::engine::Spare| spare.blocks >= record.blocks_of(member);
            let spares = self.array.membership.spares.iter().filter(fits);
            let spare =
                spares.min_by_key(|spare| self.array.membership.is_successor(spare.device))?.device;
            Some((member, self.array.membership.spares.iter().position(|s| s.device == spare)?))
        })
    }

    /// How many stripes a pass goes over: a staging device has a part in none.
    pub(super) fn stripes_of(&self, kind: PassKind) -> u64 {
        match kind {
            PassKind::Rebuild(member) | PassKind::Copy(member)
                if member.index() >= self.geo.members() =>
            {
                0
            }
            PassKind::Rebuild(_)
            | PassKind::Copy(_)
            | PassKind::Distribute(_)
            | PassKind::Resync
            | PassKind::Scrub { .. } => self.geo.stripes(),
        }
    }

    /// The stripe that the pass begins next, if it may begin one now.
    fn next_stripe(&mut self) -> Option<Stripe> {
        let serving = self.phase == Phase::Serving;
        let window = u32::from(self.config.background_jobs).min(WINDOW as u32);
        let early = self.next_at().is_some_and(|at| at > self.now);
        let pass = self.array.background.pass.as_mut()?;
        let held = pass.paused || pass.stuck.is_some() || pass.cancelled || !serving;
        if held || pass.in_flight >= window || early {
            return None;
        }
        let region_stripes = self.areas.region_stripes();
        let marked = |regions, leaps| Order::Regions { regions, region_stripes, leaps };
        let order = match pass.kind {
            PassKind::Resync => marked(&self.range.regions.unsynced, true),
            // What a member that has returned does not lack need not be filled.
            PassKind::Rebuild(member) => self
                .range
                .missed
                .to_fill(member)
                .map_or(Order::All, |regions| marked(regions, false)),
            PassKind::Distribute(_) | PassKind::Copy(_) | PassKind::Scrub { .. } => Order::All,
        };
        pass.next_of(&order)
    }

    /// A stripe of the pass is done, or could not be.
    pub(super) fn pass_step_done(&mut self, kind: PassKind, id: JobId, out: &mut Vec<Action>) {
        let job = &self.range.jobs[id];
        let (stripe, error) = (job.stripe, job.error.is_some());
        let Some(pass) = self.array.background.pass.as_mut().filter(|p| p.kind == kind) else {
            return;
        };
        pass.in_flight -= 1;
        if pass.cancelled {
            return;
        }
        if error {
            if pass.stuck.is_none() {
                pass.stuck = Some(stripe);
                out.push(Action::Note(Note::PassEnded(kind, PassEnd::Stuck(stripe))));
            }
            return;
        }
        let worked = !job.plan.reads.is_empty() || !job.plan.writes.is_empty();
        pass.worked += u64::from(worked);
        pass.found.rows += job.scrub.findings.len() as u64;
        pass.found.located +=
            job.scrub.findings.iter().filter(|finding| finding.located).count() as u64;
        let before = pass.progress.base;
        pass.progress.add(stripe.0);
        let after = pass.progress.base;
        if !job.scrub.findings.is_empty() {
            self.record_unfinished_scrub(out);
        }
        if let PassKind::Copy(_) = kind {
            self.copied(stripe);
        } else if kind == PassKind::Resync {
            let per_region = self.areas.region_stripes();
            for region in before / per_region..after.div_ceil(per_region) {
                let end = ((region + 1) * per_region).min(self.geo.stripes());
                if end <= after && self.range.regions.is_unsynced(region) {
                    self.range.regions.synced(region);
                }
            }
        }
    }
}

//! Background passes: resync, rebuild and scrub walk over the stripes as jobs like any other.
//!
//! Invariants: one pass at a time, resync before rebuild before scrub; a stripe of a member being
//! rebuilt counts as current exactly when its job has succeeded, and is told so before its lock is
//! free; at most 64 stripes lie between the first that is not done and the last that was begun.

use alloc::vec::Vec;

use det::Instant;

use super::order::Order;
pub(super) use super::pass::{Closing, Pass};
pub(super) use super::progress::{Progress, WINDOW};
use super::work::Work;
use super::{Action, CommandError, Engine, JobId, Note, Pace, PassEnd, PassKind, Phase};
use crate::meta::SlotState;
use crate::units::{MemberId, Stripe};

/// All background work.
#[derive(Debug)]
pub(super) struct Background {
    pub(super) pace: Pace,
    pub(super) pass: Option<Pass>,
    /// For each member, how far it is rebuilt.
    rebuilt: Vec<Progress>,
    scrub_wanted: Option<bool>,
    pub(super) quiesce_at: Option<Instant>,
    pub(super) quiescing: Option<u64>,
    pub(super) stopping: Stopping,
    /// Something has changed that may call for a pass.
    pub(super) look: bool,
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopping {
    Draining,
    Flushing(u64),
    Storing,
}

impl Background {
    /// `watermarks` tells how far each member is known to be rebuilt.
    pub(super) fn new(pace: Pace, watermarks: impl Iterator<Item = u64>) -> Self {
        Self {
            pace,
            pass: None,
            rebuilt: watermarks.map(Progress::from).collect(),
            scrub_wanted: None,
            quiesce_at: None,
            quiescing: None,
            stopping: Stopping::Draining,
            look: true,
        }
    }

    /// How far the end of the pass under way has come.
    fn closing(&self) -> Option<Closing> {
        self.pass.as_ref().map(|pass| pass.closing)
    }

    /// Whether no pass is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.pass.is_none()
    }

    /// Whether a member is being rebuilt, and that is not to wait.
    pub(super) fn rebuilds(&self) -> bool {
        let rebuilds = |pass: &Pass| {
            pass.kind.fills()
                && pass.total > 0
                && !pass.paused
                && !pass.cancelled
                && pass.closing == Closing::No
        };
        self.pass.as_ref().is_some_and(rebuilds)
    }

    /// Whether a member being rebuilt is current in a stripe.
    pub(super) fn is_rebuilt(&self, member: MemberId, stripe: Stripe) -> bool {
        match &self.pass {
            Some(pass) if pass.fills(member) => pass.progress.has(stripe.0),
            Some(_) | None => self.rebuilt[member.index()].has(stripe.0),
        }
    }

    /// Up to which stripe each member is rebuilt without a gap.
    pub(super) fn rebuilt_to(&self) -> impl Iterator<Item = u64> + '_ {
        (0u8..).zip(&self.rebuilt).map(|(member, progress)| match &self.pass {
            Some(pass) if pass.fills(MemberId(member)) => pass.progress.base,
            Some(_) | None => progress.base,
        })
    }

    /// Another device takes a member's place, with nothing on it.
    pub(super) fn restart(&mut self, member: MemberId) {
        self.rebuilt[member.index()] = Progress::default();
    }

    /// The device that takes a member's place has something on it.
    pub(super) fn inherit(&mut self, member: MemberId, progress: Progress) {
        self.rebuilt[member.index()] = progress;
    }

    /// A member left the service, or a staging device: what fills it is pointless.
    pub(super) fn member_failed(&mut self, member: MemberId, stages: bool) {
        self.restart(member);
        if let Some(pass) = &mut self.pass {
            pass.cancelled |= pass.kind.filled() == Some(member)
                || matches!(pass.kind, PassKind::Scrub { .. }) && !stages;
        }
    }

    pub(super) fn pause(&mut self, paused: bool) -> Result<(), CommandError> {
        let pass = self.pass.as_mut().ok_or(CommandError::NothingToDo)?;
        pass.paused = paused;
        if !paused && pass.stuck.take().is_some() {
            // It tries again, from the first stripe that is not done.
            pass.next = pass.progress.base;
        }
        Ok(())
    }

    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        if let Some(pass) = &mut self.pass {
            pass.begun_at = None;
        }
    }

    pub(super) fn want_scrub(&mut self, repair: bool) -> Result<(), CommandError> {
        if self.pass.is_some() || self.scrub_wanted.is_some() {
            return Err(CommandError::Busy);
        }
        self.scrub_wanted = Some(repair);
        Ok(())
    }

    /// Ends the copying of a member, if that is under way.
    pub(super) fn cancel_copy(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.cancelled |= matches!(pass.kind, PassKind::Copy(_));
        }
    }

    /// Ends the pass under way before it is done.
    fn cancel(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.cancelled = true;
        }
    }

    pub(super) fn cancel_scrub(&mut self) -> Result<(), CommandError> {
        match &mut self.pass {
            Some(pass) if matches!(pass.kind, PassKind::Scrub { .. }) => pass.cancelled = true,
            Some(_) | None => {
                self.scrub_wanted.take().ok_or(CommandError::NothingToDo)?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Sets passes and their stripes going, as far as room and pace allow. Returns whether the pass
    /// under way has come closer to its end, for which something else may have to be done at once.
    pub(super) fn background(&mut self, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        loop {
            if self.background.look && self.phase == Phase::Serving {
                self.background.look = false;
                if self.background.pass.is_none() {
                    self.begin_pass(out);
                } else if self.rebuild_is_better() || self.redundancy_comes_first() {
                    self.background.cancel();
                }
            }
            let Some(closing) = self.background.closing() else {
                return moved;
            };
            self.begin_stripes();
            let ended = self.end_pass_if_done(out);
            moved |= self.background.closing() != Some(closing);
            if !ended {
                return moved;
            }
            self.background.look = true;
        }
    }

    fn begin_stripes(&mut self) {
        while let Some(stripe) = self.next_stripe() {
            let Some(kind) = self.background.pass.as_ref().map(|p| p.kind) else {
                return;
            };
            let Some(job) = self.new_job(Work::Sync(kind), stripe) else {
                break;
            };
            let now = self.now;
            if let Some(pass) = &mut self.background.pass {
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
        let kind = if self.regions.unsynced.count() > 0 && self.geo.redundancy() > 0 {
            PassKind::Resync
        } else if let Some(member) = self.rebuilding() {
            PassKind::Rebuild(member)
        } else if let Some((member, spare)) = self.spare_for_failed() {
            self.end_succession(self.array.spares[spare].device);
            self.activate(member, spare, out);
            PassKind::Rebuild(member)
        } else if let Some(member) = self.to_be_distributed() {
            if self.array.spared().is_none() && !self.is_spare_free() {
                return;
            }
            self.begin_to_distribute(member, out);
            PassKind::Distribute(member)
        } else if let Some(succession) = &self.array.succession {
            PassKind::Copy(succession.member)
        } else if let Some(repair) = self.background.scrub_wanted.take() {
            PassKind::Scrub { repair }
        } else {
            return;
        };
        let progress = match kind {
            PassKind::Rebuild(member) => self.background.rebuilt[member.index()],
            PassKind::Distribute(_) => self.distributed.filled,
            PassKind::Copy(_) => self.array.succession.map_or(Progress::default(), |s| s.progress),
            PassKind::Resync | PassKind::Scrub { .. } => Progress::default(),
        };
        let total = self.stripes_of(kind);
        self.background.pass = Some(Pass::new(kind, progress, total, self.now));
        out.push(Action::Note(Note::PassStarted(kind)));
    }

    /// The first that a device is there for to be filled.
    fn rebuilding(&self) -> Option<MemberId> {
        let mut slots = self.array.recorder.record.slots.iter().zip(&self.array.members);
        let index = slots.position(|(slot, m)| {
            matches!(slot.state, SlotState::Rebuilding { .. }) && m.device.is_some()
        });
        index.map(MemberId::at)
    }

    /// Whether the distributed spare can't be filled, and a device could.
    fn rebuild_is_better(&self) -> bool {
        let pass = self.background.pass.as_ref();
        let Some(Pass { kind: PassKind::Distribute(member), cancelled, stuck, .. }) = pass else {
            return false;
        };
        // To catch up takes less.
        let returned = self.array.recorder.record.slots[member.index()].catches_up && !cancelled;
        returned
            || stuck.is_some() && (self.rebuilding().is_some() || self.spare_for_failed().is_some())
    }

    /// Whether a member is being copied while redundancy could be brought back, be it by the device that
    /// it is copied to.
    fn redundancy_comes_first(&self) -> bool {
        let copies =
            |pass: &Pass| matches!(pass.kind, PassKind::Copy(_)) && pass.closing == Closing::No;
        self.background.pass.as_ref().is_some_and(copies)
            && (self.rebuilding().is_some()
                || self.spare_for_failed().is_some()
                || self.to_be_distributed().is_some())
    }

    /// The first that has failed and a spare that is large enough for its place; the one whose data
    /// is on the distributed spare comes last, and of the spares the successor of a member.
    fn spare_for_failed(&self) -> Option<(MemberId, usize)> {
        let record = &self.array.recorder.record;
        let failed = |member: &MemberId| record.slots[member.index()].state == SlotState::Failed;
        let stood_in_for = record.stood_in_for();
        let others = record.places().filter(|&member| Some(member) != stood_in_for);
        let mut failed = others.chain(stood_in_for).filter(failed);
        failed.find_map(|member| {
            let fits = |spare: &&super::Spare| spare.blocks >= record.blocks_of(member);
            let spares = self.array.spares.iter().filter(fits);
            let spare = spares.min_by_key(|spare| self.array.is_successor(spare.device))?.device;
            Some((member, self.array.spares.iter().position(|s| s.device == spare)?))
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
        let pass = self.background.pass.as_mut()?;
        let held = pass.paused || pass.stuck.is_some() || pass.cancelled || !serving;
        if held || pass.in_flight >= window || early {
            return None;
        }
        let region_stripes = self.areas.region_stripes();
        let marked = |regions, leaps| Order::Regions { regions, region_stripes, leaps };
        let order = match pass.kind {
            PassKind::Resync => marked(&self.regions.unsynced, true),
            // What a member that has returned does not lack need not be filled.
            PassKind::Rebuild(member) => {
                self.missed.to_fill(member).map_or(Order::All, |regions| marked(regions, false))
            }
            PassKind::Distribute(_) | PassKind::Copy(_) | PassKind::Scrub { .. } => Order::All,
        };
        pass.next_of(&order)
    }

    /// A stripe of the pass is done, or could not be.
    pub(super) fn pass_step_done(&mut self, kind: PassKind, id: JobId, out: &mut Vec<Action>) {
        let job = &self.jobs[id];
        let (stripe, error) = (job.stripe, job.error.is_some());
        let Some(pass) = self.background.pass.as_mut().filter(|p| p.kind == kind) else {
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
                if end <= after && self.regions.is_unsynced(region) {
                    self.regions.synced(region);
                }
            }
        }
    }
}

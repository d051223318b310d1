//! Which background pass is begun when, and its jobs.

use alloc::vec;
use alloc::vec::Vec;

use det::Instant;

use crate::engine::flight::{Flight, Owner};
use crate::engine::left::LeftStripe;
use crate::engine::order::{Course, Only, RebuildOrder};
use crate::engine::pass::{Closing, Pass};
use crate::engine::progress::Progress;
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoOp, JobId, Note, PassEnd, PassKind, Phase};
use crate::geometry::Role;
use crate::units::{DeviceId, Lba, MemberId, Pba, Set, Stripe};

impl Engine {
    /// Sets passes and their stripes going, as far as room and pace allow. Returns whether the pass
    /// under way has come closer to its end, for which something else may have to be done at once.
    pub(super) fn background(&mut self, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        loop {
            if self.phase == Phase::Serving && self.array.background.has_to_look() {
                if self.array.background.is_idle() {
                    self.begin_pass(out);
                } else if self.rebuild_is_better()
                    || self.redundancy_comes_first()
                    || self.reshape_gives_way()
                {
                    self.array.background.cancel_if(|_| true);
                }
            }
            let Some(closing) = self.array.background.closing() else {
                return moved;
            };
            self.clear(out);
            self.begin_stripes();
            if self.gives_way() {
                self.array.background.set_aside();
            } else if self.is_in_the_way() {
                self.array.background.cancel_if(|_| true);
            }
            let ended = self.end_pass_if_done(out);
            moved |= self.array.background.closing() != Some(closing);
            if !ended {
                return moved;
            }
            self.array.background.look();
        }
    }

    /// Discards what is next of the device that the pass fills, if that comes first.
    fn clear(&mut self, out: &mut Vec<Action>) {
        if self.phase != Phase::Serving {
            return;
        }
        let clears = self.array.background.pass().filter(|pass| pass.clears_next());
        let filled = clears.and_then(|pass| self.filled_device(pass.kind()));
        let Some((member, device)) = filled else { return };
        let membership = &self.array.membership;
        if membership.recorder.is_broken() || !membership.hung().is_empty() {
            // What is not on record may never be, or only when this pass has ended.
            return self.array.background.fill_as_it_is();
        }
        // It may be what a member was, that would be taken back with what it has as long as it is not on
        // record that it takes part anew; and as another member's successor it may be being written.
        if !membership.recorder.is_durable() || self.array.flights.change(device) {
            return;
        }
        let Some((from, blocks)) = self.array.background.begin_to_clear(self.now) else { return };
        let (Pba(start), _) = self.layout.data_of(member);
        let op = Flight::new(Owner::Clear, Some(member), device);
        self.issue(op, IoOp::Discard, Pba(start + from), blocks, out);
    }

    /// The member for which a pass fills a device, and that device.
    fn filled_device(&self, kind: PassKind) -> Option<(MemberId, DeviceId)> {
        let member = kind.filled()?;
        let device = match kind {
            PassKind::Copy(_) => self.array.membership.successor_of(member),
            PassKind::Rebuild(_)
            | PassKind::Resync
            | PassKind::Distribute(_)
            | PassKind::Scrub { .. }
            | PassKind::Reshape => self.array.membership.device(member),
        };
        device.map(|device| (member, device))
    }

    fn begin_stripes(&mut self) {
        while let Some((kind, stripe)) = self.next_stripe() {
            let Some(job) = self.new_job(Work::Sync(kind), stripe) else {
                break;
            };
            self.array.background.begin_stripe(stripe, self.now);
            if let PassKind::Scrub { .. } = kind {
                self.begin_rounds(job);
            }
            self.start_job(job);
        }
    }

    fn begin_pass(&mut self, out: &mut Vec<Action>) {
        let kind = if self.range.reshape.recovers() {
            PassKind::Reshape
        } else if self.range.regions.any_unsynced() && self.layout.redundancy() > 0 {
            PassKind::Resync
        } else if let Some(member) =
            self.fullest().filter(|&member| !self.another_comes_first(member))
        {
            if self.array.background.aside().has(member) {
                self.array.background.take_back();
            }
            PassKind::Rebuild(member)
        } else if let Some((member, spare)) = self.array.membership.spare_for_failed() {
            self.end_succession(spare);
            self.activate(member, spare, out);
            PassKind::Rebuild(member)
        } else if let Some(member) = self.to_be_distributed() {
            if self.array.membership.spared().is_none() && !self.is_spare_free() {
                return;
            }
            self.begin_to_distribute(member, out);
            PassKind::Distribute(member)
        } else if let Some(succession) = self.array.membership.succession() {
            PassKind::Copy(succession.member)
        } else if self.may_reshape() {
            PassKind::Reshape
        } else if let Some(scrub) = self.array.background.wanted_scrub() {
            scrub
        } else {
            return;
        };
        let progress = match kind {
            PassKind::Rebuild(member) => self.array.background.take_progress_of(member),
            PassKind::Distribute(_) => self.range.distributed.take_progress(),
            PassKind::Copy(_) => {
                let copied = self.array.membership.succession().map(|s| s.progress.clone());
                copied.unwrap_or_default()
            }
            PassKind::Reshape => self.layout.frontier().map_or(0, |f| f.next).into(),
            PassKind::Resync | PassKind::Scrub { .. } => Progress::default(),
        };
        let total = self.stripes_of(kind);
        let is_begun = progress.count() > 0;
        let mut pass = Pass::new(kind, progress, total, self.now);
        if let Some(member) = kind.filled().filter(|_| !is_begun && total > 0)
            && self.range.missed.to_fill(member).is_none()
        {
            // Nothing of it is current.
            pass.clear_first(self.layout.data_of(member).1);
        }
        self.array.background.begin(pass, self.now);
        out.push(Action::Note(Note::PassStarted(kind)));
    }

    /// Whether the rebuild of this member could not go on, and a spare is there for another.
    fn another_comes_first(&self, member: MemberId) -> bool {
        let aside = self.array.background.aside().has(member);
        aside && self.array.membership.spare_for_failed().is_some()
    }

    /// Of the members that a device is there for to be filled, the one that lacks least: so its redundancy
    /// is there first. Last come those whose rebuild could not go on.
    fn fullest(&self) -> Option<MemberId> {
        let filled = |member| {
            // One that has returned lacks only some regions.
            let catches_up = self.range.missed.to_fill(member).is_some();
            (catches_up, self.array.background.progress_of(member).count())
        };
        let aside = self.array.background.aside();
        let rebuilding = self.array.membership.rebuilding();
        rebuilding.max_by_key(|&member| (!aside.has(member), filled(member), !member.0))
    }

    /// A read was reconstructed. If that was for what a pass fills, the stripe comes next.
    pub(super) fn demand(&mut self, id: JobId) {
        let Some(member) = self.array.background.pass().and_then(|pass| match pass.kind() {
            PassKind::Rebuild(member) | PassKind::Distribute(member) => Some(member),
            PassKind::Resync | PassKind::Copy(_) | PassKind::Scrub { .. } | PassKind::Reshape => {
                None
            }
        }) else {
            return;
        };
        let job = &self.range.jobs[id];
        let Some(role) = self.layout.role(job.stripe, member) else { return };
        let lacks = job.pieces.iter().any(|piece| piece.role == role);
        if lacks && !self.health(job.stripe).0.has(role) {
            self.array.background.demand(self.range.jobs[id].stripe);
        }
    }

    /// The pass under way, if it can't go on and is not paused.
    fn stuck_pass(&self) -> Option<PassKind> {
        let pass = self.array.background.pass()?;
        (pass.is_stuck() && !pass.is_cancelled() && !pass.is_paused()).then_some(pass.kind())
    }

    /// Whether a rebuild can't go on, and another member's could.
    fn gives_way(&self) -> bool {
        let Some(PassKind::Rebuild(member)) = self.stuck_pass() else { return false };
        let aside = self.array.background.aside().with(member);
        let mut others = self.array.membership.rebuilding().filter(|&other| !aside.has(other));
        others.next().is_some() || self.array.membership.spare_for_failed().is_some()
    }

    /// Whether a scrub can't go on, and a member is to be copied.
    fn is_in_the_way(&self) -> bool {
        let copies = || self.array.membership.succession().is_some();
        matches!(self.stuck_pass(), Some(PassKind::Scrub { .. })) && copies()
    }

    /// Whether the distributed spare can't be filled, and a device could.
    fn rebuild_is_better(&self) -> bool {
        let Some(pass) = self.array.background.pass() else { return false };
        let PassKind::Distribute(member) = pass.kind() else { return false };
        // To catch up takes less.
        let catches_up = self.array.membership.record().slots[member.index()].catches_up;
        catches_up && !pass.is_cancelled() || pass.is_stuck() && self.may_rebuild()
    }

    /// Whether a member is being copied while redundancy could be brought back, be it by the device that
    /// it is copied to.
    fn redundancy_comes_first(&self) -> bool {
        let copies =
            |pass: &Pass| matches!(pass.kind(), PassKind::Copy(_)) && pass.closing() == Closing::No;
        self.array.background.pass().is_some_and(copies)
            && (self.may_rebuild() || self.to_be_distributed().is_some())
    }

    /// Whether a device is there for a member to be rebuilt on.
    fn may_rebuild(&self) -> bool {
        let membership = &self.array.membership;
        membership.rebuilding().next().is_some() || membership.spare_for_failed().is_some()
    }

    /// How many stripes a pass goes over: a staging device has a part in none.
    pub(super) fn stripes_of(&self, kind: PassKind) -> u64 {
        match kind {
            PassKind::Rebuild(member) | PassKind::Copy(member) if !self.layout.has_part(member) => {
                0
            }
            PassKind::Rebuild(_)
            | PassKind::Copy(_)
            | PassKind::Distribute(_)
            | PassKind::Resync
            | PassKind::Scrub { .. } => self.layout.stripes(),
            PassKind::Reshape => self.layout.new_stripes(),
        }
    }

    /// The stripe that the pass begins next, if it may begin one now.
    fn next_stripe(&mut self) -> Option<(PassKind, Stripe)> {
        let by_stripes = self.array.background.pass()?.kind().goes_by_stripes();
        if !by_stripes
            || self.phase != Phase::Serving
            || self.next_at().is_some_and(|at| at > self.now)
        {
            return None;
        }
        let (regions, missed) = (&self.range.regions, &self.range.missed);
        let region_stripes = self.areas.region_stripes();
        let marked = |regions| Only { regions, region_stripes };
        let only = |kind| match kind {
            PassKind::Resync => Some(marked(regions.unsynced())),
            // What a member that has returned does not lack need not be filled.
            PassKind::Rebuild(member) => missed.to_fill(member).map(marked),
            PassKind::Distribute(_)
            | PassKind::Copy(_)
            | PassKind::Scrub { .. }
            | PassKind::Reshape => None,
        };
        let (heat, rebuilds) = (&self.range.heat, self.array.background.order());
        let course = |kind: PassKind| Course {
            order: if kind.fills() { rebuilds } else { RebuildOrder::sequential() },
            heat,
            only: only(kind),
        };
        self.array.background.next_of(self.config.background_jobs.into(), course)
    }

    /// When the pass may begin its next stripe, or window of them, at the pace that holds now; nothing if at
    /// once.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let busy = self.array.users.are_busy(self.now);
        let blocks = match self.array.background.pass()?.kind() {
            PassKind::Reshape => self.range.reshape.last() * u64::from(self.layout.new_chunk()),
            PassKind::Resync
            | PassKind::Rebuild(_)
            | PassKind::Distribute(_)
            | PassKind::Copy(_)
            | PassKind::Scrub { .. } => {
                // A member has a chunk of one stripe in so many.
                u64::from(self.layout.chunk()).div_ceil(self.geometry().stripes_of_a_row())
            }
        };
        self.array.background.next_at(busy, blocks)
    }

    /// When the pass has to be looked at again, as the next stripe's time has come or the pace
    /// changes.
    pub(in crate::engine) fn pace_deadline(&self) -> Option<Instant> {
        let pass = self.array.background.pass()?;
        let at = self.next_at().filter(|&at| at > self.now)?;
        if pass.is_held() || !pass.has_more() || self.phase != Phase::Serving {
            return None;
        }
        Some(self.array.users.or_when_idle(at, self.now))
    }

    /// A stripe of the pass is done, or could not be.
    pub(super) fn pass_step_done(&mut self, kind: PassKind, id: JobId, out: &mut Vec<Action>) {
        if kind == PassKind::Reshape {
            return self.moved(id, out);
        }
        let job = &self.range.jobs[id];
        let stripe = job.stripe;
        let left = job.error.map(|_| self.left_stripe(id));
        let job = &self.range.jobs[id];
        let Some(pass) = self.array.background.pass_mut(kind) else {
            return;
        };
        if let Some(left) = left {
            if pass.fail(left) {
                note_end(kind, PassEnd::Stuck(stripe), out);
            }
            return;
        }
        let worked = !job.plan.reads.is_empty() || !job.plan.writes.is_empty();
        if !pass.end(stripe, worked) {
            return;
        }
        let findings = job.scrub.findings();
        if !findings.is_empty() {
            let located = findings.iter().filter(|finding| finding.located).count();
            pass.finds(findings.len() as u64, located as u64);
            self.record_unfinished_scrub(out);
        }
        if let PassKind::Copy(_) = kind {
            self.array.membership.copied(stripe);
        } else if kind == PassKind::Resync {
            let region = self.areas.region(stripe);
            let per_region = self.areas.region_stripes();
            let end = ((region + 1) * per_region).min(self.layout.stripes());
            let whole = self.array.background.pass();
            let whole = whole.is_some_and(|pass| pass.has_done(region * per_region, end));
            if whole && self.range.regions.is_unsynced(region) {
                self.range.regions.synced(region);
            }
        }
    }

    /// What can't be read of a stripe, as the job of a pass has found.
    pub(super) fn left_stripe(&self, id: JobId) -> LeftStripe {
        let job = &self.range.jobs[id];
        let (stripe, geo) = (job.stripe, self.layout.of(job.stripe));
        let (readable, _) = self.health(stripe);
        let mut bad = vec![Set::EMPTY; geo.chunk() as usize];
        for block in &job.bad {
            let rows = block.row as usize..(block.row + block.blocks) as usize;
            bad[rows].iter_mut().for_each(|roles| *roles = roles.with(block.role));
        }
        let missing = geo.roles().minus(readable);
        let rows = |role: Role| (0..).zip(&bad).map(move |(row, &bad): (u32, _)| (role, row, bad));
        let lost = geo.data_roles().into_iter().flat_map(rows).filter(|&(role, _, bad)| {
            let gone = missing.or(bad);
            gone.has(role) && gone.len() > geo.redundancy()
        });
        let lost: Vec<Lba> =
            lost.flat_map(|(role, row, _)| geo.lbas(stripe, role, row, 1)).collect();
        let unreadable = geo.roles().into_iter().flat_map(rows);
        let unreadable =
            unreadable.filter(|&(role, _, bad)| bad.has(role)).map(|(role, row, _)| {
                let (member, at) = self.layout.place(stripe, role);
                (member, Pba(at.0 + u64::from(row)))
            });
        let unreadable: Vec<(MemberId, Pba)> = unreadable.collect();
        let unreadable = unreadable.chunk_by(|a, b| (a.0, a.1.0 + 1) == (b.0, b.1.0));
        LeftStripe {
            lost: Lba::ranges(&lost),
            unreadable: unreadable
                .map(|range| (range[0].0, range[0].1, range.len() as u64))
                .collect(),
            ..LeftStripe::new(stripe, geo)
        }
    }
}

/// Notes how a pass has ended.
pub(super) fn note_end(kind: PassKind, end: PassEnd, out: &mut Vec<Action>) {
    out.push(Action::Note(Note::PassEnded(kind, end)));
}

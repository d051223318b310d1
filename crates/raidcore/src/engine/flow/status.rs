//! The engine's state, for people and for tests.

use core::iter;

use crate::engine::flight::Owner;
use crate::engine::job::Job;
use crate::engine::pass::Pass;
use crate::engine::stage::Stage;
use crate::engine::{
    ArrayHealth, Counters, Engine, IoId, JobId, MemberStatus, OnRecord, PassStatus, Phase,
    SpareUse, StagingStatus, Status,
};
use crate::meta::{DeviceUuid, Policy, SlotState};
use crate::units::{DeviceId, Lba, MemberId, Stripe, Tag};

impl Engine {
    /// Which members serve, as of the last record that is durable; nothing before one is.
    #[must_use]
    pub fn on_record(&self) -> Option<&OnRecord> {
        self.array.membership.recorder.on_record()
    }

    /// The state as plain data.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            array: self.array.membership.record().array,
            health: self.array_health(),
            members: self.members().collect(),
            spares: self.spares().collect(),
            absent_spares: self.absent_spares().collect(),
            successor: self.successor(),
            pass: self.pass(),
            last_scrub: self.array.membership.record().scrub,
            dirty_regions: (
                self.range.maps.bitmap.map.count(),
                self.areas.regions_of(self.layout.stripes()),
            ),
            replayable: self.range.journal.unflushed().count() as u64,
            zero_stripes: (self.range.maps.zero.map.count(), self.layout.stripes()),
            pace: self.array.background.pace(),
            slowdown: self.array.background.slowdown(),
            end_within: self.array.background.within(),
            rebuild_order: self.array.background.order(),
            left: self.array.background.pass().into_iter().flat_map(Pass::left).cloned().collect(),
            half_in: self.range.heat.half_in(),
            policy: self.policy(),
            staging: self.staging_status(),
            distributed_spare: self.distributed_spare(),
            remedy: self.remedy(),
            torn_stripes: self.range.alignment.torn().count() as u64,
            is_reshaped: self.layout.frontier().is_some(),
            capacity: self.capacity(),
            redundancy: self.layout.redundancy(),
            lost: self.range.staging.lost(&self.layout),
            counters: self.array.counters,
        }
    }

    /// The members, in order, and after them the staging devices.
    pub fn members(&self) -> impl Iterator<Item = MemberStatus> {
        let labels = &self.array.membership.record().labels;
        self.array.membership.slots().map(|(member, m, slot)| MemberStatus {
            member,
            stages: member.index() >= self.layout.members(),
            device: m.device,
            uuid: slot.device,
            state: slot.state,
            since: slot.since,
            read_errors: m.read_errors,
            write_errors: m.write_errors,
            last_error: m.last_error,
            label: labels[member.index()],
            hangs: m.hangs,
            avoided: m.avoided,
            missed: self.missed_by(member),
        })
    }

    /// The devices of the members, in order, and after them of the staging devices.
    pub fn devices(&self) -> impl Iterator<Item = Option<DeviceId>> {
        self.array.membership.slots().map(|(_, m, _)| m.device)
    }

    /// The spares, but for the successor.
    pub fn spares(&self) -> impl Iterator<Item = DeviceId> {
        self.array
            .membership
            .spares()
            .iter()
            .map(|spare| spare.device)
            .filter(|&device| !self.array.membership.is_successor(device))
    }

    /// Spares that are on record and not there.
    pub fn absent_spares(&self) -> impl Iterator<Item = DeviceUuid> {
        self.array.membership.absent_spares()
    }

    /// The background pass under way.
    #[must_use]
    pub fn pass(&self) -> Option<PassStatus> {
        let busy = self.array.users.are_busy(self.now);
        self.array.background.status(self.now, busy)
    }

    /// Whether what a member had that is out of service or being filled has this block again, where
    /// requests find it; nothing if the block's member serves.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn is_rebuilt(&self, at: Lba) -> Option<bool> {
        let (stripe, offset) = self.layout.locate(at);
        let (role, _) = self.layout.of(stripe).chunk_at(offset);
        let member = self.layout.member(stripe, role);
        let serves = self.array.membership.state(member) == SlotState::Up;
        (!serves).then(|| self.health(stripe).0.has(role))
    }

    /// The policy on record.
    #[must_use]
    pub fn policy(&self) -> Option<Policy> {
        self.array.membership.record().policy
    }

    /// How many I/Os a member has in hand, and jobs that are about to write to it and will not go around
    /// it any more: what has to be durable before is being stored elsewhere.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn in_hand(&self, member: MemberId) -> u32 {
        let bound = |job: &&Job| {
            let Some(role) = self.layout.role(job.stripe, member) else { return false };
            matches!(job.stage, Stage::Intend | Stage::Write)
                && job.plan.writes.iter().any(|io| io.role == role)
        };
        let bound = if member.index() < self.layout.members() {
            self.range.jobs.iter().filter(bound).count()
        } else {
            0
        };
        self.array.flights.of(member) + bound as u32
    }

    /// The users' requests that an I/O under way is for; none if it is for the array's own sake, or no request
    /// waits for it any more.
    ///
    /// # Panics
    /// If the I/O has ended.
    pub fn waiting_for(&self, io: IoId) -> impl Iterator<Item = Tag> + '_ {
        let owner = self.array.flights.get(io).owner;
        let first = match owner {
            Owner::Read { job, .. }
            | Owner::ReadAtOnce { job }
            | Owner::Write { job, .. }
            | Owner::Discard { job }
            | Owner::Entry { job }
            | Owner::Fetch { job, .. } => Some(job),
            // It may have been stored elsewhere in time.
            Owner::Staged { job, number } => {
                Some(job).filter(|_| self.range.staging.is_waited_for(number))
            }
            Owner::TrimSpare
            | Owner::TrimLog
            | Owner::Clear
            | Owner::Vacate
            | Owner::Tail { .. }
            | Owner::StagedTail
            | Owner::Copy { .. }
            | Owner::Page { .. }
            | Owner::Popularity
            | Owner::Superblock
            | Owner::Flush => None,
        };
        let is_staged = matches!(owner, Owner::Staged { .. });
        let beside = move |&job: &JobId| self.range.jobs[job].log.beside.filter(|_| is_staged);
        let jobs = iter::successors(first, beside);
        jobs.flat_map(|job| self.range.jobs[job].asked.tags.iter().copied())
    }

    /// Whether a block is staged, be it at home, too, or not.
    #[must_use]
    pub fn is_staged(&self, lba: Lba) -> bool {
        self.range.staging.is_staged(lba)
    }

    /// Whether a reshape is moving a block, so that requests for it wait. Where its stripe lies may not be on
    /// record yet.
    #[must_use]
    pub fn is_being_moved(&self, lba: Lba) -> bool {
        self.range.reshape.holds(&self.layout, lba, 1)
    }

    /// The share of the staging log that is in use, on the device where most of it is; 0 if there is none.
    pub(super) fn staging_used(&self) -> f64 {
        let (used, blocks) = self.range.staging.used();
        used as f64 / blocks.max(1) as f64
    }

    /// The staging log, if there is one.
    #[must_use]
    pub fn staging_status(&self) -> Option<StagingStatus> {
        let (used, capacity) = self.range.staging.used();
        self.range.staging.exists().then(|| StagingStatus {
            dirty: self.range.staging.dirty(),
            staged: self.range.staging.staged(),
            oldest: self.range.staging.oldest_since().map(|since| self.now - since),
            takes: self.range.staging.rate.time_for(self.range.staging.dirty()),
            waits: self.home_waits(),
            hurried: self.range.staging.is_hurried(),
            copied: self.range.copies.len() as u64,
            used,
            capacity,
            kept: self.range.staging.kept(),
            table_bytes: (self.range.staging.table_bytes() + self.range.copies.table_bytes())
                as u64,
        })
    }

    /// What the distributed spare is used for, if there is one.
    #[must_use]
    pub fn distributed_spare(&self) -> Option<SpareUse> {
        let record = self.array.membership.record();
        let used = match (record.stood_in_for(), record.spared) {
            (Some(member), _) => SpareUse::StandsInFor(member),
            (None, Some(spared)) => SpareUse::Filling(spared.member),
            (None, None) => SpareUse::Free,
        };
        record.areas.has_distributed_spare().then_some(used)
    }

    /// What it has done since it started.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let meta_stores = self.array.counters.meta_stores + self.range.maps.begun();
        Counters { meta_stores, ..self.array.counters }
    }

    /// Whether a stripe was discarded and reads as zeros.
    #[must_use]
    pub fn is_discarded(&self, stripe: Stripe) -> bool {
        self.range.maps.zero.map.get(stripe.0)
    }

    /// How well the array is.
    #[must_use]
    pub fn array_health(&self) -> ArrayHealth {
        let missing = self.layout.member_set().minus(self.array.membership.present());
        if missing.is_empty() {
            ArrayHealth::Online
        } else if self.layout.can_spare(missing) {
            ArrayHealth::Degraded
        } else {
            ArrayHealth::Failed
        }
    }

    /// Whether nothing is under way and nothing is held: no job, lock, buffer or I/O.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.range.jobs.is_idle() && self.array.flights.is_empty() && self.array.users.is_idle()
    }

    /// Verifies the invariants that can be seen from outside a step.
    ///
    /// # Panics
    /// If one is broken: that is a bug in the engine.
    pub fn check(&self) {
        self.range.jobs.check();
        self.range.staging.check(self.range.jobs.iter().map(|job| job.kept.len()).sum());
        self.range.warm.check(self.range.jobs.iter().map(|job| job.warming.blocks.len()).sum());
        let is_up = |member| self.array.membership.state(member) == SlotState::Up;
        self.range.copies.check(|lba| self.range.staging.is_dirty(lba), is_up);
        self.array.flights.check();
        if self.phase == Phase::Stopped {
            assert!(self.array.users.is_idle(), "a stop completes every request");
        }
    }
}

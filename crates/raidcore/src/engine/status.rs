//! The engine's state, for people and for tests.

use super::flight::Owner;
use super::job::Job;
use super::stage::Stage;
use super::{
    ArrayHealth, Counters, Engine, IoId, MemberStatus, PassStatus, Phase, SpareUse, StagingStatus,
    Status,
};
use crate::meta::{DeviceUuid, Policy, SlotState};
use crate::units::{DeviceId, MemberId, Stripe, Tag};

impl Engine {
    /// The state as plain data.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            array: self.array.recorder.record.array,
            health: self.array_health(),
            members: self.members().collect(),
            spares: self.spares().collect(),
            absent_spares: self.absent_spares().collect(),
            successor: self.successor(),
            pass: self.pass(),
            last_scrub: self.array.recorder.record.scrub,
            dirty_regions: (self.maps.bitmap.map.count(), self.maps.bitmap.map.len()),
            replayable: self.journal.unflushed().count() as u64,
            zero_stripes: (self.maps.zero.map.count(), self.maps.zero.map.len()),
            pace: self.background.pace,
            policy: self.policy(),
            staging: self.staging_status(),
            distributed_spare: self.distributed_spare(),
            remedy: self.remedy(),
            torn_stripes: self.alignment.torn().count() as u64,
            lost: self.staging.lost(&self.geo),
            counters: self.counters,
        }
    }

    /// The members, in order, and after them the staging devices.
    pub fn members(&self) -> impl Iterator<Item = MemberStatus> {
        let slots = self.array.members.iter().zip(&self.array.recorder.record.slots);
        (0u8..).zip(slots).map(|(index, (m, slot))| MemberStatus {
            member: MemberId(index),
            stages: usize::from(index) >= self.geo.members(),
            device: m.device,
            uuid: slot.device,
            state: slot.state,
            since: slot.since,
            read_errors: m.read_errors,
            write_errors: m.write_errors,
            last_error: m.last_error,
            label: self.array.recorder.record.labels[usize::from(index)],
            hangs: m.hangs,
            avoided: m.avoided,
            missed: self.missed_by(MemberId(index)),
        })
    }

    /// The spares, but for the successor.
    pub fn spares(&self) -> impl Iterator<Item = DeviceId> {
        self.array
            .spares
            .iter()
            .map(|spare| spare.device)
            .filter(|&device| !self.array.is_successor(device))
    }

    /// Spares that are on record and not there.
    pub fn absent_spares(&self) -> impl Iterator<Item = DeviceUuid> {
        let here = |uuid: &DeviceUuid| self.array.spares.iter().any(|spare| spare.uuid == *uuid);
        self.array.recorder.record.spares.iter().copied().filter(move |uuid| !here(uuid))
    }

    /// The background pass under way.
    #[must_use]
    pub fn pass(&self) -> Option<PassStatus> {
        self.background.pass.as_ref().map(|pass| PassStatus {
            kind: pass.kind,
            done: pass.progress.base,
            total: pass.total,
            paused: pass.paused,
            stuck: pass.stuck,
            found: pass.found,
            elapsed: self.now - pass.started,
            from: pass.from,
            worked: pass.worked,
        })
    }

    /// The policy on record.
    #[must_use]
    pub fn policy(&self) -> Option<Policy> {
        self.array.recorder.record.policy
    }

    /// How many I/Os a member has in hand, and jobs that are about to write to it and will not go around
    /// it any more: what has to be durable before is being stored elsewhere.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn in_hand(&self, member: MemberId) -> u32 {
        let bound = |job: &&Job| {
            let Some(role) = self.geo.role(job.stripe, member) else { return false };
            matches!(job.stage, Stage::Intend | Stage::Write)
                && job.plan.writes.iter().any(|io| io.role == role)
        };
        let bound = if member.index() < self.geo.members() {
            self.jobs.iter().filter(bound).count()
        } else {
            0
        };
        self.flights.of(member) + bound as u32
    }

    /// The users' requests that an I/O under way is for; none if it is for the array's own sake.
    ///
    /// # Panics
    /// If the I/O has ended.
    #[must_use]
    pub fn waiting_for(&self, io: IoId) -> &[Tag] {
        match self.flights.get(io).owner {
            Owner::Read { job, .. }
            | Owner::Write { job, .. }
            | Owner::Discard { job }
            | Owner::Entry { job }
            | Owner::Staged { job }
            | Owner::Fetch { job, .. } => &self.jobs[job].tags,
            Owner::TrimSpare
            | Owner::Tail { .. }
            | Owner::StagedTail
            | Owner::Copy { .. }
            | Owner::Page { .. }
            | Owner::Superblock
            | Owner::Flush => &[],
        }
    }

    /// Whether a block is staged, be it at home, too, or not.
    #[must_use]
    pub fn is_staged(&self, lba: crate::units::Lba) -> bool {
        self.staging.is_staged(lba)
    }

    /// The staging log, if there is one.
    #[must_use]
    pub fn staging_status(&self) -> Option<StagingStatus> {
        let (used, capacity) = self.staging.used();
        self.staging.exists().then(|| StagingStatus {
            dirty: self.staging.dirty(),
            staged: self.staging.staged(),
            copied: self.copies.len() as u64,
            used,
            capacity,
            table_bytes: (self.staging.table_bytes() + self.copies.table_bytes()) as u64,
        })
    }

    /// What the distributed spare is used for, if there is one.
    #[must_use]
    pub fn distributed_spare(&self) -> Option<SpareUse> {
        let record = &self.array.recorder.record;
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
        let meta_stores = self.counters.meta_stores + self.maps.begun();
        Counters { meta_stores, ..self.counters }
    }

    /// Whether a stripe was discarded and reads as zeros.
    #[must_use]
    pub fn is_discarded(&self, stripe: Stripe) -> bool {
        self.maps.zero.map.get(stripe.0)
    }

    /// How well the array is.
    #[must_use]
    pub fn array_health(&self) -> ArrayHealth {
        let missing = self.geo.members() - self.array.present().len();
        if missing == 0 {
            ArrayHealth::Online
        } else if missing <= self.geo.redundancy() {
            ArrayHealth::Degraded
        } else {
            ArrayHealth::Failed
        }
    }

    /// Whether nothing is under way and nothing is held: no job, lock, buffer or I/O.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_idle() && self.flights.is_empty() && self.users.is_idle()
    }

    /// Verifies the invariants that can be seen from outside a step.
    ///
    /// # Panics
    /// If one is broken: that is a bug in the engine.
    pub fn check(&self) {
        self.jobs.check();
        self.staging.check();
        let is_up = |member| self.array.state(member) == SlotState::Up;
        self.copies.check(|lba| self.staging.is_dirty(lba), is_up);
        self.flights.check();
        if self.phase == Phase::Stopped {
            assert!(self.users.is_idle(), "a stop completes every request");
        }
    }
}

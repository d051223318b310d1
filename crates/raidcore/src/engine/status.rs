//! The engine's state, for people and for tests.

use super::{ArrayHealth, Engine, MemberStatus, PassStatus, Phase, Status};
use crate::meta::SlotState;
use crate::units::MemberId;

impl Engine {
    /// The state as plain data.
    #[must_use]
    pub fn status(&self) -> Status {
        let record = &self.recorder.record;
        let members =
            (0u8..).zip(self.members.iter().zip(&record.slots)).map(|(index, (m, slot))| {
                MemberStatus {
                    member: MemberId(index),
                    device: m.device,
                    uuid: slot.device,
                    state: slot.state,
                    since: slot.since,
                    read_errors: m.read_errors,
                    write_errors: m.write_errors,
                }
            });
        let pass = self.background.pass.as_ref().map(|pass| PassStatus {
            kind: pass.kind,
            done: pass.progress.base,
            total: pass.total,
            paused: pass.paused,
            stuck: pass.stuck,
            mismatches: pass.mismatches,
            elapsed: self.now - pass.started,
        });
        Status {
            array: record.array,
            health: self.array_health(),
            members: members.collect(),
            spares: self.spares.iter().map(|s| s.device).collect(),
            pass,
            last_scrub: self.background.last_scrub,
            dirty_regions: (self.bitmap.map.count(), self.bitmap.map.len()),
            zero_stripes: (self.zero.map.count(), self.zero.map.len()),
            pace: self.background.pace,
            counters: self.counters,
        }
    }

    fn array_health(&self) -> ArrayHealth {
        let serving = self.members.iter().zip(&self.recorder.record.slots).filter(|(m, slot)| {
            m.device.is_some() && !m.unreadable && !m.unwritable && slot.state == SlotState::Up
        });
        let missing = self.geo.members() - serving.count();
        if missing == 0 {
            ArrayHealth::Online
        } else if missing <= self.geo.redundancy() {
            ArrayHealth::Degraded
        } else {
            ArrayHealth::Failed
        }
    }

    /// Verifies the invariants that can be seen from outside a step.
    ///
    /// # Panics
    /// If one is broken: that is a bug in the engine.
    pub fn check(&self) {
        assert!(self.ready.is_empty(), "a step leaves nothing undone");
        for (id, job) in self.jobs.iter() {
            let waits = self.waits.iter().filter(|(_, j)| *j == id).count();
            assert!(!job.queued, "{id:?} was left in the queue");
            assert!(job.outstanding as usize >= waits, "{id:?} waits for more than it counts");
        }
        if self.jobs.occupied() == 0 {
            assert!(self.locks.is_idle(), "a lock without a job");
            assert!(self.scratch.is_idle(), "scratch buffers without a job");
            assert!(self.waits.is_empty(), "a wait without a job");
            assert_eq!(self.foreground_jobs, 0, "users' jobs are counted");
        }
        if self.ops.occupied() == 0 {
            assert!(self.members.iter().all(|m| m.in_flight == 0), "I/O in flight is counted");
        }
        if self.phase == Phase::Stopped {
            assert_eq!(self.active_requests, 0, "a stop completes every request");
        }
    }
}

//! The staging log, for programs and for people.

use raidcore::engine::Status;
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};
use steering::scheme::{SCHEMES, Scheme};

/// How a staging log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StagingReport {
    /// What is not at home yet.
    pub dirty_bytes: u64,
    /// What is staged, whether it is at home, too, or not.
    pub staged_bytes: u64,
    /// What is in use of it on the member where that is most.
    pub used_bytes: u64,
    /// What each member has of it.
    pub capacity_bytes: u64,
    /// Memory that the table of what is staged takes.
    pub table_bytes: u64,
    /// The policy stages nothing any more, and what is not at home goes there.
    pub draining: bool,
    /// Writes that were staged, since the start; as all that follows.
    pub writes: u64,
    /// What those wrote.
    pub written_bytes: u64,
    /// What was read from the log.
    pub read_bytes: u64,
    /// What was brought home.
    pub reclaimed_bytes: u64,
    /// Writes that would have been staged, but there was no room.
    pub full: u64,
}

impl StagingReport {
    /// That of an array with this policy; none if it has no log.
    pub(super) fn of(status: &Status, policy: &str) -> Option<Self> {
        let (staging, counters) = (status.staging?, &status.counters);
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        let stages = Scheme::named(policy).is_some_and(|scheme| scheme.needs_staging());
        Some(Self {
            dirty_bytes: bytes(staging.dirty),
            staged_bytes: bytes(staging.staged),
            used_bytes: bytes(staging.used),
            capacity_bytes: bytes(staging.capacity),
            table_bytes: staging.table_bytes,
            draining: !stages && staging.dirty > 0,
            writes: counters.staged_writes,
            written_bytes: bytes(counters.staged_blocks),
            read_bytes: bytes(counters.staged_reads),
            reclaimed_bytes: bytes(counters.reclaimed_blocks),
            full: counters.staging_full,
        })
    }
}

/// A policy stages writes, and the array has no log for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the policy \"{policy}\" stages writes, and this array has no staging log")]
pub struct NoStagingLog {
    policy: &'static str,
}

impl NoStagingLog {
    /// That an array can follow a policy with a log of so many blocks (or bytes) on each member.
    pub(crate) fn check(scheme: Scheme, log: u64) -> Result<(), Self> {
        let able = log > 0 || !scheme.needs_staging();
        if able { Ok(()) } else { Err(Self { policy: scheme.name }) }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let others = SCHEMES.iter().filter(|scheme| !scheme.needs_staging());
        let others: Vec<_> = others.map(|scheme| scheme.name).collect();
        format!(
            "an array is given its log when it is created (`evenkeel create --staging \
             reserved:64M`); policies that need none are {}",
            others.join(", ")
        )
    }
}

//! The staging log, for programs and for people.

use raidcore::engine::{HomeWaits, Status};
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};
use steering::hold::Cache;
use steering::scheme::Scheme;

use super::Problem;
use crate::host::ByteRange;

/// How many ranges of lost blocks a report has.
const RANGES_TOLD: usize = 16;

/// How many of these people are shown.
const RANGES_SAID: usize = 4;

/// Why what is staged stays where it is for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waits {
    /// There is room, and users are served.
    Users,
    /// There is room, and a rebuild needs the members.
    Rebuild,
    /// The members that it goes to are busy.
    Busy,
    /// Some of it can't be brought home.
    Stuck,
    /// The array takes no writes.
    Refused,
}

impl From<HomeWaits> for Waits {
    fn from(waits: HomeWaits) -> Self {
        match waits {
            HomeWaits::Users => Self::Users,
            HomeWaits::Rebuild => Self::Rebuild,
            HomeWaits::Busy => Self::Busy,
            HomeWaits::Stuck => Self::Stuck,
            HomeWaits::Refused => Self::Refused,
        }
    }
}

/// The state of a staging log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StagingReport {
    /// Staged and not at home yet.
    pub dirty_bytes: u64,
    /// Staged, whether at home or not.
    pub staged_bytes: u64,
    /// The log's use on the member where it is highest.
    pub used_bytes: u64,
    /// The log's size on each member.
    pub capacity_bytes: u64,
    /// Memory of the table of staged blocks.
    pub table_bytes: u64,
    /// The policy stages nothing any more, and staged blocks come home.
    pub draining: bool,
    /// The write cache that the log is: a name of `evenkeel cache list`.
    #[serde(default)]
    pub cache: String,
    /// For how long the oldest block has been staged that is not at home, in seconds.
    #[serde(default)]
    pub oldest_seconds: Option<f64>,
    /// How long all takes to come home, in seconds, as fast as it went of late when some was on its way.
    #[serde(default)]
    pub home_seconds: Option<f64>,
    /// Why nothing more comes home now: some is `stuck`, all is `refused`, `users` are served, a `rebuild`
    /// needs the members, or they are `busy`. None if something does, or nothing is to.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// What was staged at the last `evenkeel cache flush` is still on its way home.
    #[serde(default)]
    pub flushing: bool,
    /// Of the bytes that were written, those that were staged already and not at home yet.
    #[serde(default)]
    pub again_bytes: u64,
    /// Writes that were staged since the start, as all counters below.
    pub writes: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
    /// What was read from the log.
    pub read_bytes: u64,
    /// Copies of popular blocks, to be read when their home is busy.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Reads served from them.
    #[serde(default)]
    pub copy_reads: u64,
    /// Bytes brought home.
    pub reclaimed_bytes: u64,
    /// What of the log was void, and members were asked to discard, all together. Files, and devices that
    /// can't, keep it.
    #[serde(default)]
    pub discarded_bytes: u64,
    /// Writes that were not staged as there was no room.
    pub full: u64,
    /// Staged, not at home, and unreadable on all members that held it.
    #[serde(default)]
    pub lost_bytes: u64,
    /// The first 16 ranges of these.
    #[serde(default)]
    pub lost: Vec<ByteRange>,
}

impl StagingReport {
    /// The report for an array with this policy; none if it has no log.
    pub(super) fn of(status: &Status, policy: &str) -> Option<Self> {
        let (staging, counters) = (status.staging?, &status.counters);
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        let scheme = Scheme::named(policy);
        let stages = scheme.is_some_and(|scheme| scheme.needs_staging());
        Some(Self {
            dirty_bytes: bytes(staging.dirty),
            staged_bytes: bytes(staging.staged),
            used_bytes: bytes(staging.used),
            capacity_bytes: bytes(staging.capacity),
            table_bytes: staging.table_bytes,
            draining: !stages && staging.dirty > 0,
            cache: scheme
                .map(|scheme| scheme.cache())
                .filter(Cache::takes)
                .unwrap_or_default()
                .name
                .to_owned(),
            oldest_seconds: staging.oldest.map(|age| age.as_secs_f64()),
            home_seconds: staging.takes.map(|takes| takes.as_secs_f64()),
            waits: staging.waits.map(Waits::from),
            flushing: staging.hurried,
            again_bytes: bytes(counters.staged_again),
            writes: counters.staged_writes,
            written_bytes: bytes(counters.staged_blocks),
            read_bytes: bytes(counters.staged_reads),
            copied_bytes: bytes(staging.copied),
            copy_reads: counters.copy_reads,
            reclaimed_bytes: bytes(counters.reclaimed_blocks),
            discarded_bytes: bytes(counters.trimmed_blocks),
            full: counters.staging_full,
            lost_bytes: bytes(status.lost.iter().map(|&(_, blocks)| blocks).sum()),
            lost: status
                .lost
                .iter()
                .take(RANGES_TOLD)
                .map(|&(first, blocks)| (bytes(first.0), bytes(blocks)).into())
                .collect(),
        })
    }

    /// The problem of the log of the array called `name`, if it has one.
    pub(super) fn problem(&self, name: &str) -> Option<Problem> {
        if self.lost_bytes == 0 {
            return None;
        }
        let ranges = self.lost.iter().take(RANGES_SAID);
        let ranges = ranges.map(|range| format!("{} at {}", range.bytes, range.offset_bytes));
        let ranges: Vec<String> = ranges.collect();
        let more = if self.lost.len() > RANGES_SAID { ", ..." } else { "" };
        Some(Problem {
            kind: "staged-lost".to_owned(),
            disk: None,
            what: format!(
                "{} bytes that were written can't be read from any member that held them: {}{more}",
                self.lost_bytes,
                ranges.join(", ")
            ),
            since: None,
            action: format!(
                "write or discard them (`evenkeel status {name} --json` tells all that is known): \
                 until then reads of them fail, and no rebuild ends"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_blocks_are_named() {
        let mut report = StagingReport {
            dirty_bytes: 8192,
            staged_bytes: 8192,
            used_bytes: 16384,
            capacity_bytes: 1 << 20,
            table_bytes: 1 << 16,
            draining: false,
            cache: "none".to_owned(),
            oldest_seconds: None,
            home_seconds: None,
            waits: None,
            flushing: false,
            again_bytes: 0,
            writes: 2,
            written_bytes: 8192,
            read_bytes: 0,
            copied_bytes: 0,
            copy_reads: 0,
            reclaimed_bytes: 0,
            discarded_bytes: 0,
            full: 0,
            lost_bytes: 0,
            lost: Vec::new(),
        };
        assert_eq!(report.problem("tank"), None);
        let lost = [(1 << 20, 8192), (3 << 20, 12288)].map(ByteRange::from);
        (report.lost_bytes, report.lost) = (5 << 12, lost.to_vec());
        let problem = report.problem("tank").expect("something is wrong");
        assert!(problem.what.starts_with("20480 bytes "), "{}", problem.what);
        assert!(problem.what.ends_with(": 8192 at 1048576, 12288 at 3145728"), "{}", problem.what);
        assert!(problem.action.starts_with("write or discard them"), "{}", problem.action);
        report.lost = vec![ByteRange::from((0, 4096)); 16];
        let problem = report.problem("tank").expect("something is wrong");
        assert!(problem.what.ends_with(", 4096 at 0, ..."), "{}", problem.what);
    }
}

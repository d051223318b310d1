//! The staging log, for programs and for people.

use evenkeel_client::{Problem, StagingReport, Waits};
use raidcore::engine::{HomeWaits, Status};
use raidcore::units::BLOCK_BYTES;
use steering::hold::Cache;
use steering::scheme::Scheme;

/// How many ranges of lost blocks a report has.
const RANGES_TOLD: usize = 16;

/// How many of these people are shown.
const RANGES_SAID: usize = 4;

fn waits_for(waits: HomeWaits) -> Waits {
    match waits {
        HomeWaits::Users => Waits::Users,
        HomeWaits::Rebuild => Waits::Rebuild,
        HomeWaits::Busy => Waits::Busy,
        HomeWaits::Stuck => Waits::Stuck,
        HomeWaits::Refused => Waits::Refused,
    }
}

/// The report for an array with this policy; none if it has no log.
pub(super) fn staging_report(status: &Status, policy: &str) -> Option<StagingReport> {
    let (staging, counters) = (status.staging?, &status.counters);
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let scheme = Scheme::named(policy);
    let stages = scheme.is_some_and(|scheme| scheme.needs_staging());
    Some(StagingReport {
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
        waits: staging.waits.map(waits_for),
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
pub(super) fn staging_problem(report: &StagingReport, name: &str) -> Option<Problem> {
    if report.lost_bytes == 0 {
        return None;
    }
    let ranges = report.lost.iter().take(RANGES_SAID);
    let ranges = ranges.map(|range| format!("{} at {}", range.bytes, range.offset_bytes));
    let ranges: Vec<String> = ranges.collect();
    let more = if report.lost.len() > RANGES_SAID { ", ..." } else { "" };
    Some(Problem {
        kind: "staged-lost".to_owned(),
        disk: None,
        what: format!(
            "{} bytes that were written can't be read from any member that held them: {}{more}",
            report.lost_bytes,
            ranges.join(", ")
        ),
        since: None,
        action: format!(
            "write or discard them (`evenkeel status {name} --json` tells all that is known): \
             until then reads of them fail, and no rebuild ends"
        ),
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_client::ByteRange;

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
        assert_eq!(staging_problem(&report, "tank"), None);
        let lost = [(1 << 20, 8192), (3 << 20, 12288)].map(ByteRange::from);
        (report.lost_bytes, report.lost) = (5 << 12, lost.to_vec());
        let problem = staging_problem(&report, "tank").expect("something is wrong");
        assert!(problem.what.starts_with("20480 bytes "), "{}", problem.what);
        assert!(problem.what.ends_with(": 8192 at 1048576, 12288 at 3145728"), "{}", problem.what);
        assert!(problem.action.starts_with("write or discard them"), "{}", problem.action);
        report.lost = vec![ByteRange::from((0, 4096)); 16];
        let problem = staging_problem(&report, "tank").expect("something is wrong");
        assert!(problem.what.ends_with(", 4096 at 0, ..."), "{}", problem.what);
    }
}

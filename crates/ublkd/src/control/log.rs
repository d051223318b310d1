//! The state of a log volume, for programs and for people.

use std::ops::Add;

use evenkeel_client::{ArrayReport, Facts, GroupReport, Health, LogReport, Problem};
use raidcore::units::BLOCK_BYTES;

use super::scrub::both;
use crate::host::LogStatus;

/// That of a volume of whose groups these are the reports.
pub(super) fn log_report(log: &LogStatus, groups: &[ArrayReport]) -> LogReport {
    let LogStatus { shape, status, used } = log;
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let counters = status.counters;
    let group = |(report, &(free, freeing, live)): (&ArrayReport, &(u32, u32, u64))| GroupReport {
        uuid: report.facts.uuid.clone(),
        health: report.health,
        segments: shape.group_segments(),
        free,
        freeing,
        used_bytes: bytes(live),
    };
    let in_all = (counters.logged + counters.stored) as f64;
    LogReport {
        front: status.front.0,
        cleaning: status.cleaning.iter().map(|group| group.0).collect(),
        segment_bytes: bytes(shape.segment_blocks().into()),
        groups: groups.iter().zip(&status.groups).map(group).collect(),
        used_bytes: bytes(used.0),
        room_bytes: bytes(used.1),
        stalled: status.stalled,
        failed: status.failed,
        written_bytes: bytes(counters.written),
        logged_bytes: bytes(counters.logged),
        moved_bytes: bytes(counters.moved),
        padding_bytes: bytes(counters.padding),
        stored_bytes: bytes(counters.stored),
        write_amplification: (counters.written > 0).then(|| in_all / counters.written as f64),
        cleaned: counters.cleaned,
        checkpoints: counters.checkpoints,
        rotations: counters.rotations,
        stalls: counters.stalls,
        longest_wait_us: counters.longest_wait.as_micros() as u64,
    }
}

fn log_problem(log: &LogReport, name: &str) -> Option<Problem> {
    log.failed.then(|| Problem {
        kind: "log-failed".to_owned(),
        disk: None,
        what: "a group could not be written: the log volume takes no more writes".to_owned(),
        since: None,
        action: format!(
            "stop it (`evenkeel stop {name}`), bring the members back, start it again: what was \
             flushed is there"
        ),
    })
}

fn sum<T: Add<Output = T> + Default>(all: impl Iterator<Item = T>) -> T {
    all.fold(T::default(), T::add)
}

/// The report of a log volume, from those of its groups, of which there is at least one.
pub(super) fn volume_report(
    facts: &Facts,
    log: Option<&LogStatus>,
    groups: Vec<ArrayReport>,
) -> ArrayReport {
    let log = log.map(|log| log_report(log, &groups));
    let worst = |health: Health| match health {
        Health::Online => 0,
        Health::Degraded => 1,
        Health::Failed => 2,
    };
    let dirty_regions = sum(groups.iter().map(|report| report.dirty_regions));
    let replayable = groups.iter().map(|report| report.replayable).sum();
    let zero_stripes = sum(groups.iter().map(|report| report.zero_stripes));
    let requests = sum(groups.iter().map(|report| report.requests));
    let detours = sum(groups.iter().map(|report| report.detours));
    let hedged = sum(groups.iter().map(|report| report.hedged));
    let health = groups.iter().map(|report| report.health).max_by_key(|&health| worst(health));
    let scrubs = groups.iter().filter_map(|report| report.last_scrub);
    let last_scrub = scrubs.reduce(both);
    let mut problems: Vec<Problem> =
        log.as_ref().and_then(|log| log_problem(log, &facts.name)).into_iter().collect();
    problems.extend(groups.iter().flat_map(|report| report.problems.clone()));
    let pass = groups.iter().find_map(|report| report.pass.clone());
    let members = groups.iter().flat_map(|report| report.members.clone()).collect();
    let spares = groups.iter().flat_map(|report| report.spares.clone()).collect();
    let absent_spares = groups.iter().flat_map(|report| report.absent_spares.clone()).collect();
    let remedy = groups.iter().find_map(|report| report.remedy);
    let torn_stripes = groups.iter().map(|report| report.torn_stripes).sum();
    let first = groups.into_iter().next();
    let first = first.expect("a log volume has a group");
    ArrayReport {
        facts: facts.clone(),
        health: health.unwrap_or(first.health),
        problems,
        members,
        spares,
        absent_spares,
        remedy,
        torn_stripes,
        pass,
        last_scrub,
        dirty_regions,
        replayable,
        zero_stripes,
        requests,
        detours,
        hedged,
        hot_bytes: None,
        left: Vec::new(),
        log,
        ..first
    }
}

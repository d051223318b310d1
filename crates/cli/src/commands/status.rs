//! `evenkeel status`: what is wrong, since when, what to do.

use std::iter;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_client::paths::shown;
use evenkeel_client::{
    ArrayReport, Client, Detours, DurableBy, Facts, FlashReport, Front, GroupReport, Health,
    Hedged, LatencyWindow, LogReport, MemberReport, MemberState, PassReport, ScrubEndReport,
    ScrubReport, SpareReport, SpareUseReport, Task, disk_name, running,
};
use serde_json::json;
use steering::scheme::SCHEMES;
use ublkd::create::wall_clock;

use super::held::{self, held};
use super::lease;
use super::site;
use super::wear;
use crate::output::{Output, ago, duration, refusal_of};
use crate::size::Size;

/// How many events are shown.
const EVENTS_SHOWN: usize = 8;

/// Returns the exit status, as in `evenkeel status --help`: of several arrays, that of the worst.
pub(crate) fn status(name: Option<&str>, run_dir: &Path, output: Output) -> Result<ExitCode> {
    if let Some(name) = name {
        let report = Client::connect(run_dir, name)?.status()?;
        output.result(&json!({ "arrays": [report] }), || text(&report));
        return Ok(Verdict::of(&report).into());
    }
    let names = running(run_dir).with_context(|| shown(run_dir).to_string())?;
    let mut worst = Verdict::Well;
    let (mut values, mut texts) = (Vec::new(), Vec::new());
    for name in names {
        let asked = Client::connect(run_dir, &name).and_then(|mut client| client.status());
        match asked {
            Ok(report) => {
                worst = worst.max(Verdict::of(&report));
                texts.push(text(&report));
                values.push(json!(report));
            }
            Err(error) => {
                worst = worst.max(Verdict::NoAnswer);
                texts.push(format!(" array: {name}\n state: no answer: {error}"));
                values.push(json!({ "name": name, "error": refusal_of(&error.into()) }));
            }
        }
    }
    if texts.is_empty() {
        texts.push("no array is running".to_owned());
    }
    output.result(&json!({ "arrays": values }), || texts.join("\n\n"));
    Ok(worst.into())
}

/// The state of an array as an exit status; 2 is for wrong arguments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Well = 0,
    NoAnswer = 1,
    Attention = 3,
    Degraded = 4,
    Failed = 5,
}

impl Verdict {
    fn of(report: &ArrayReport) -> Self {
        match report.health {
            Health::Failed => Self::Failed,
            Health::Degraded => Self::Degraded,
            Health::Online if report.problems.is_empty() => Self::Well,
            Health::Online => Self::Attention,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(verdict as u8)
    }
}

/// A report for people.
pub(crate) fn text(report: &ArrayReport) -> String {
    let facts = &report.facts;
    let mut lines = vec![
        format!(" array: {}", facts.name),
        format!(
            " state: {}",
            match report.health {
                Health::Online => "online",
                Health::Degraded => "DEGRADED: everything is there, with less redundancy",
                Health::Failed => "FAILED",
            }
        ),
        format!(
            " shape: {} of {} members, chunk {}, {} usable",
            facts.shape(),
            facts.member_count,
            Size(facts.chunk_bytes),
            Size(facts.capacity_bytes)
        ),
    ];
    lines.extend(facts.reshaped_from.iter().map(|from| format!("  from: {from}")));
    for problem in &report.problems {
        let since = problem.since.map(|since| format!(", for {}", ago(since)));
        lines.push(format!(" wrong: {}{}", problem.what, since.unwrap_or_default()));
        lines.push(format!("        -> {}", problem.action));
    }
    lines.extend(report.pass.as_ref().map(|pass| format!("  work: {}", work(pass))));
    lines.extend(risk(report).map(|risk| format!("  risk: {risk}")));
    if let Some(scrub) = report.last_scrub {
        let (ago, found) = (ago(scrub.at), found(&scrub));
        lines.push(format!(" scrub: the last one ended {ago} ago and {found}"));
    }
    if report.policy != SCHEMES[0].name {
        let Detours { reads: detours, extra_blocks: extra } = report.detours;
        let Hedged { reads: hedged, won } = report.hedged;
        lines.push(format!(
            "policy: {}; {detours} reads went around busy members, {hedged} were tried twice ({won} \
             were there sooner for it), and {extra} blocks more were read for it",
            report.policy
        ));
    }
    lines.extend(report.log.iter().flat_map(logged));
    lines.extend(report.staging.as_ref().map(|log| format!("staged: {}", held::staged(log))));
    lines.extend(report.volatile.as_ref().map(|cache| format!("memory: {}", held(cache))));
    lines.extend(report.lease.as_ref().map(|of| format!(" lease: {}", lease::held(of))));
    lines.extend(report.site.as_ref().map(|of| format!("  cpus: {}", site::runs(of))));
    lines.extend(report.hot_bytes.map(|hot| {
        let percent = (hot * 100).div_ceil(facts.capacity_bytes.max(1));
        format!(" users: half of what they ask for is in {} ({percent} % of the array)", Size(hot))
    }));
    let now = wall_clock();
    lines.extend(wear::summary(report, now).map(|summary| format!("  wear: {summary}")));
    lines.extend(report.fronts.iter().map(|f| format!(" serve: {}", front(f))));
    lines.push(String::new());
    for each in &report.members {
        lines.push(member(each, facts));
        lines.extend(details(each, now));
    }
    report.spares.iter().for_each(|each| lines.extend(spare(each, now)));
    lines.extend(report.distributed_spare.map(|used| {
        let used = match used {
            SpareUseReport::Free => "free".to_owned(),
            SpareUseReport::Filling(number) => format!("is filled for {}", facts.place(number)),
            SpareUseReport::StandsInFor(number) => format!("stands in for {}", facts.place(number)),
        };
        format!("  spare   distributed {used}")
    }));
    let skipped = report.events.len().saturating_sub(EVENTS_SHOWN);
    if !report.events.is_empty() {
        lines.push(String::new());
        let events = report.events.iter().skip(skipped);
        lines.extend(events.map(|e| format!("  {:>14} ago  {}", ago(e.at), e.text)));
    }
    if report.problems.is_empty() {
        lines.push("\nAll is well.".to_owned());
    }
    lines.join("\n")
}

/// How to reach an array, for people.
pub(crate) fn front(front: &Front) -> String {
    let Front { kind, address, behind } = front;
    let behind = behind.iter().map(|why| format!("\n        -> {why}")).collect::<String>();
    match kind.as_str() {
        "fuse" | "ublk" | "vhost-user" => format!("{kind} at {}{behind}", shown(address)),
        _ => format!("{kind} at {address}{behind}"),
    }
}

/// A log volume, for people.
fn logged(log: &LogReport) -> Vec<String> {
    let used = 100.0 * log.used_bytes as f64 / log.room_bytes.max(1) as f64;
    let (used_bytes, room) = (Size(log.used_bytes), Size(log.room_bytes));
    let amplified = match log.write_amplification {
        None => "nothing was written since the start".to_owned(),
        Some(factor) => format!(
            "{} written by users, {factor:.2} times that to the log ({} moved, {} padding, {} of \
             checkpoints)",
            Size(log.written_bytes),
            Size(log.moved_bytes),
            Size(log.padding_bytes),
            Size(log.stored_bytes)
        ),
    };
    let mut lines = vec![
        format!("   log: {used_bytes} of {room} in use ({used:.0} %); {amplified}"),
        format!(
            "        {} segments of {} cleaned, {} checkpoints, writes waited {} times for room{} and {} ms at most \
             for cleaning",
            log.cleaned,
            Size(log.segment_bytes),
            log.checkpoints,
            log.stalls,
            if log.stalled { " (and do so now)" } else { "" },
            log.longest_wait_us / 1000
        ),
    ];
    for (number, group) in (0u8..).zip(&log.groups) {
        let place = match (log.groups.len(), log.front == number) {
            (1, _) => "",
            (_, true) => "front, ",
            (_, false) => "back, ",
        };
        let cleaning = if log.cleaning.contains(&number) { "is being cleaned, " } else { "" };
        let GroupReport { free, freeing, segments, .. } = group;
        lines.push(format!(
            " group: {number}: {place}{cleaning}{free} of {segments} segments free, {freeing} soon"
        ));
    }
    lines
}

/// A background pass, for people.
pub(crate) fn work(pass: &PassReport) -> String {
    let of = match (pass.member, pass.group) {
        (Some(member), group) => format!(" of member {}", disk_name(group, member)),
        (None, Some(group)) => format!(" of group {group}"),
        (None, None) => String::new(),
    };
    let percent = (pass.done_bytes * 100).checked_div(pass.total_bytes).unwrap_or(100);
    let left = match pass.left_ms {
        Some(ms) => format!("{} left", duration(ms.div_ceil(1000))),
        None if pass.stuck_at_stripe.is_some() => "which can't go on".to_owned(),
        None if pass.paused => "paused".to_owned(),
        None => "starting".to_owned(),
    };
    let rate = rate(pass).map(|rate| format!(" at {rate}")).unwrap_or_default();
    let onto = if pass.task == Task::Distribute { " onto the distributed spare" } else { "" };
    let due = match pass.due_in_ms {
        Some(0) => ", overdue".to_owned(),
        Some(ms) => format!(", due in {}", duration(ms.div_ceil(1000))),
        None => String::new(),
    };
    let held = match pass.held_to_bytes_per_second {
        Some(rate) if pass.left_ms.is_some() => {
            format!(", held to {}/s for users", Size(rate))
        }
        Some(_) | None => String::new(),
    };
    format!("{}{of}{onto}, {percent} % done{rate}{held}, {left}{due}", pass.task.name())
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// How many of a hundred SSDs fail in a year, about what operators of many publish.
const FAIL_IN_A_YEAR: f64 = 1.0;

/// How likely it is that another member fails before redundancy is back, if one is being rebuilt.
fn risk(report: &ArrayReport) -> Option<String> {
    let pass = report.pass.as_ref().filter(|_| report.health == Health::Degraded)?;
    let rebuilds = matches!(pass.task, Task::Rebuild | Task::Distribute);
    let left = Duration::from_millis(pass.left_ms.filter(|_| rebuilds)?);
    // After the members come staging devices, which hold nothing of what would be lost.
    let members = report.members.iter().filter(|member| {
        member.group == pass.group && usize::from(member.member) < report.facts.member_count
    });
    let others = members.filter(|member| member.state == MemberState::Up).count();
    let share = left.as_secs_f64() / YEAR.as_secs_f64() * FAIL_IN_A_YEAR / 100.0 * others as f64;
    let of = (1.0 / share.max(1e-9)).round().max(1.0) as u64;
    Some(format!(
        "about 1 in {of} that one of the {others} members left fails before the rebuild is done, if \
         {FAIL_IN_A_YEAR}% of such drives fail in a year"
    ))
}

/// The rate of a background pass, for people, if it is known yet.
pub(crate) fn rate(pass: &PassReport) -> Option<String> {
    let rate = pass.bytes_per_second;
    (rate > 0).then(|| format!("{}/s", Size(rate)))
}

/// The findings of a scrub, for people, after "the scrub".
pub(crate) fn found(scrub: &ScrubReport) -> String {
    let ScrubReport { mismatches, located, end, .. } = *scrub;
    let unknown = mismatches.saturating_sub(located);
    let told = format!(": redundancy tells what is wrong in {located}, not in {unknown}");
    let more = match (mismatches, end) {
        (0, _) => String::new(),
        (_, ScrubEndReport::Compared) => told,
        (_, ScrubEndReport::CutShort) => told + "; it did not reach the end",
        (_, ScrubEndReport::Repaired) => {
            format!(": {located} located and repaired, {unknown} settled by believing the data")
        }
    };
    format!("found {mismatches} mismatches{more}")
}

/// A spare, and what its drive tells.
fn spare(spare: &SpareReport, now: u64) -> impl Iterator<Item = String> + use<> {
    let what = spare.succeeds.as_ref().map(|disk| format!("for {disk}")).unwrap_or_default();
    let line = format!("  spare   {what:<10} {}", device(spare.path.as_deref()));
    let drive = spare.drive.as_ref().map(|drive| wear::line(drive, now));
    iter::once(line).chain(drive.map(|detail| format!("               {detail}")))
}

/// What is told below a member: of its model, its drive and its controllers.
fn details(member: &MemberReport, now: u64) -> impl Iterator<Item = String> + use<> {
    let flash = member.flash.as_ref().map(flash);
    let drive = member.drive.as_ref().map(|drive| wear::line(drive, now));
    let controller = member.controller.as_ref().map(site::controller);
    let told = [flash, drive, controller].into_iter().flatten();
    told.map(|detail| format!("               {detail}"))
}

fn member(member: &MemberReport, facts: &Facts) -> String {
    let state = match member.state {
        MemberState::Up => "up",
        MemberState::Rebuilding => "rebuilding",
        MemberState::Failed => "FAILED",
    };
    let errors = match member.read_errors + member.write_errors {
        0 => String::new(),
        _ => format!("  ({} read, {} write errors)", member.read_errors, member.write_errors),
    };
    let was = member.label.as_ref().map(|label| format!("(was {})", shown(label)));
    let path = match (&member.path, was) {
        (None, Some(was)) => was,
        (path, _) => device(path.as_deref()),
    };
    let serial = member.serial.as_ref().map(|serial| format!("  serial number {serial}"));
    let serial = serial.unwrap_or_default();
    let durable = match member.durable_by {
        Some(DurableBy::Flush) => "  (flushed after each durable write)",
        Some(DurableBy::Flag) | None => "",
    };
    let passes = if member.passthrough { "  (past the block layer)" } else { "" };
    let streams = match (member.write_streams, member.passthrough) {
        (0, _) => String::new(),
        (count, true) => format!("  ({count} write streams by FDP)"),
        (count, false) => format!("  ({count} write streams by the block layer)"),
    };
    let window = match member.window {
        Some(LatencyWindow::Deterministic) => "  (in its deterministic window)",
        Some(LatencyWindow::NonDeterministic) => "  (in its non-deterministic window)",
        None => "",
    };
    let what = if usize::from(member.member) < facts.member_count { "member" } else { "stages" };
    let disk = disk_name(member.group, member.member);
    format!(
        "  {what} {disk:<3} {state:<10} {path}{serial}{durable}{passes}{streams}{window}{errors}"
    )
}

/// A modelled SSD, for people.
fn flash(report: &FlashReport) -> String {
    let drive = &report.drive;
    let percent = 100.0 * drive.gc_ns as f64 / drive.open_ns.max(1) as f64;
    let delayed = report.reads_delayed.count + report.writes_delayed.count;
    let threshold = report.threshold.map(|share| format!(" from {:.1} % free on,", 100.0 * share));
    format!(
        "{}{}{}: collects garbage{} {percent:.0} % of the time, up to {:.1} ms; {delayed} of {} I/Os \
         waited for that; {:.2} pages programmed for each written, {} blocks erased, {} of {} free",
        drive.profile,
        if drive.told { "+told" } else { "" },
        if drive.obeys { "+obeys" } else { "" },
        threshold.unwrap_or_default(),
        drive.gc_longest_ns as f64 / 1e6,
        delayed + report.reads.count + report.writes.count,
        drive.waf,
        drive.erases,
        drive.free_blocks,
        drive.blocks
    )
}

fn device(path: Option<&Path>) -> String {
    path.map_or_else(|| "(no device)".to_owned(), |path| shown(path).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_when_there_is_one() {
        let pass = PassReport {
            task: Task::Rebuild,
            member: Some(1),
            group: None,
            done_bytes: 32 << 20,
            total_bytes: 64 << 20,
            paused: false,
            stuck_at_stripe: None,
            left_stripes: 0,
            mismatches: 0,
            located: 0,
            elapsed_ms: 4000,
            bytes_per_second: 8 << 20,
            left_ms: Some(4000),
            due_in_ms: None,
            held_to_bytes_per_second: None,
        };
        assert_eq!(work(&pass), "rebuild of member 1, 50 % done at 8 MiB/s, 4 s left");
        let held = PassReport { held_to_bytes_per_second: Some(16 << 20), ..pass.clone() };
        assert_eq!(
            work(&held),
            "rebuild of member 1, 50 % done at 8 MiB/s, held to 16 MiB/s for users, 4 s left"
        );
        let due = PassReport { due_in_ms: Some(7_200_000), ..pass.clone() };
        assert_eq!(
            work(&due),
            "rebuild of member 1, 50 % done at 8 MiB/s, 4 s left, due in 2 h 0 min"
        );
        let late = PassReport { due_in_ms: Some(0), ..pass.clone() };
        assert_eq!(work(&late), "rebuild of member 1, 50 % done at 8 MiB/s, 4 s left, overdue");
        let early = PassReport { elapsed_ms: 1, bytes_per_second: 0, left_ms: None, ..pass };
        assert_eq!(work(&early), "rebuild of member 1, 50 % done, starting");
        let stuck = PassReport { stuck_at_stripe: Some(7), ..early };
        assert_eq!(work(&stuck), "rebuild of member 1, 50 % done, which can't go on");
    }
}

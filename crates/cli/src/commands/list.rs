//! `evenkeel list`: a line for each array of this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_client::paths::{shown, to_text};
use evenkeel_client::{ArrayReport, ClientError, Front, Health, MemberState, running};
use raidcore::meta::LeaseBlock;
use serde_json::{Value, json};
use ublkd::attach::{Scanned, examine, scan};
use ublkd::control::facts_of_all;

use super::ask;
use super::lease;
use super::start::DEVICES;
use crate::args::ListArgs;
use crate::output::{Output, refusal_of};
use crate::size::Size;
use crate::table::Table;

/// An array that has a socket in the run directory.
struct Running {
    name: String,
    report: Result<ArrayReport, anyhow::Error>,
}

pub(crate) fn list(args: &ListArgs, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let names = running(run_dir).with_context(|| shown(run_dir).to_string())?;
    let reports = ask::reports(&names, run_dir, args.timeout);
    let reports = reports.into_iter().map(|report| report.map_err(ClientError::into));
    let running: Vec<Running> =
        names.into_iter().zip(reports).map(|(name, report)| Running { name, report }).collect();
    let found = if args.all { others(&args.places, &running)? } else { Vec::new() };
    let mut value = json!({ "arrays": running.iter().map(value).collect::<Vec<_>>() });
    if args.all {
        value["found"] = found.iter().map(found_value).collect();
    }
    output.result(&value, || text(&running, &found));
    let all_answer = running.iter().all(|array| array.report.is_ok());
    Ok(if all_answer { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Arrays whose members are in these places, and which do not run.
fn others(places: &[PathBuf], running: &[Running]) -> Result<Vec<Scanned>> {
    let dev = [DEVICES.into()];
    let mut found = scan(if places.is_empty() { &dev } else { places })?;
    // What does not answer tells no identity, and keeps its name taken.
    found.retain(|found| {
        !running.iter().any(|array| match &array.report {
            Ok(report) => report.facts.uuid == found.array.to_string(),
            Err(_) => array.name == found.name,
        })
    });
    Ok(found)
}

fn value(array: &Running) -> Value {
    let report = match &array.report {
        Ok(report) => report,
        Err(error) => return json!({ "name": array.name, "error": refusal_of(error) }),
    };
    let ArrayReport { facts, health, pass, fronts, policy, pid, .. } = report;
    json!({
        "name": facts.name, "uuid": facts.uuid, "level": facts.level, "members": facts.member_count,
        "members_up": up(report), "capacity_bytes": facts.capacity_bytes, "health": health,
        "problems": report.problems.len(), "pass": pass, "fronts": fronts, "policy": policy, "pid": pid,
    })
}

fn found_value(found: &Scanned) -> Value {
    let paths: Vec<String> = found.paths.iter().map(|path| to_text(path)).collect();
    let mut value = json!({ "name": found.name, "uuid": found.array.to_string(), "paths": paths, "start": start(found) });
    match &found.records {
        Ok(records) => {
            let facts = facts_of_all(records);
            value["level"] = json!(facts.level);
            value["members"] = json!(facts.member_count);
            value["capacity_bytes"] = json!(facts.capacity_bytes);
            value["lease"] = lease::value(&records[0], leased(found).as_ref());
        }
        Err(error) => value["why"] = json!(error.to_string()),
    }
    value
}

/// What the first member of an array tells of its lease, if it has one.
fn leased(found: &Scanned) -> Option<LeaseBlock> {
    examine(found.paths.first()?).ok()?.lease
}

/// How an array can be started: whole, without some of its members, or not.
fn start(found: &Scanned) -> &'static str {
    match (&found.records, found.degraded) {
        (Err(_), _) => "no",
        (Ok(_), true) => "degraded",
        (Ok(_), false) => "whole",
    }
}

/// How many members serve.
fn up(report: &ArrayReport) -> usize {
    // After the members come staging devices.
    let members = report.members.iter().filter(|member| {
        let of_group = report.facts.member_count / report.facts.groups.max(1);
        usize::from(member.member) < of_group && member.state == MemberState::Up
    });
    members.count()
}

fn text(running: &[Running], found: &[Scanned]) -> String {
    if running.is_empty() && found.is_empty() {
        return "no array is running".to_owned();
    }
    let headings = ["array", "level", "members", "size", "state", "served over", "policy"];
    let mut table = Table::new(headings).left();
    for Running { name, report } in running {
        match report {
            Ok(report) => table.row(cells(report)),
            Err(_) => table.row([name, "-", "-", "-", "no answer", "-", "-"]),
        }
    }
    for found in found {
        let state = match start(found) {
            "whole" => "not running",
            "degraded" => "not running, members are missing",
            _ => "can't be started",
        };
        // Whether that host still lives takes a while to find out, as a start does.
        let state = match leased(found).filter(|block| block.held) {
            Some(block) => format!("{state} here; host {} has the lease", block.holder.name),
            None => state.to_owned(),
        };
        let (level, members, size) = match &found.records {
            Ok(records) => {
                let facts = facts_of_all(records);
                (
                    facts.level,
                    facts.member_count.to_string(),
                    Size(facts.capacity_bytes).to_string(),
                )
            }
            Err(_) => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        };
        table.row([&found.name, &*level, &members, &size, &state, "-", "-"]);
    }
    let errors = running.iter().filter_map(|array| {
        let error = array.report.as_ref().err()?;
        Some(format!("{}: {}", array.name, refusal_of(error).message))
    });
    let refused = found.iter().filter_map(|found| {
        let error = found.records.as_ref().err()?;
        Some(format!("{}: {error}", found.name))
    });
    [table.text()].into_iter().chain(errors).chain(refused).collect::<Vec<_>>().join("\n")
}

fn cells(report: &ArrayReport) -> [String; 7] {
    let facts = &report.facts;
    let (up, of) = (up(report), facts.member_count);
    let members = if up == of { of.to_string() } else { format!("{up} of {of}") };
    let kinds: Vec<&str> = report.fronts.iter().map(|Front { kind, .. }| &**kind).collect();
    [
        facts.name.clone(),
        facts.level.clone(),
        members,
        Size(facts.capacity_bytes).to_string(),
        state(report),
        kinds.join(", "),
        report.policy.clone(),
    ]
}

/// How well an array is, and what goes on in the background.
fn state(report: &ArrayReport) -> String {
    let health = match report.health {
        Health::Online if report.problems.is_empty() => "healthy",
        Health::Online => "needs attention",
        Health::Degraded => "degraded",
        Health::Failed => "failed",
    };
    let Some(pass) = &report.pass else { return health.to_owned() };
    let percent = (pass.done_bytes * 100).checked_div(pass.total_bytes).unwrap_or(100);
    format!("{health}, {} {percent} %", pass.task.name())
}

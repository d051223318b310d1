//! Commands for a running array: `stop`, `disk`, `rebuild`, `scrub`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_client::paths::{shown, to_text};
use evenkeel_client::{ArrayReport, Client, Health, Request, disk_name};
use raidcore::engine::{REBUILD_ORDERS, RebuildOrder};
use serde_json::{Value, json};
use steering::scheme::{SCHEMES, Scheme};
use ublkd::flash::Named;

use super::{held, scrub_all, status};
use crate::args::{DiskAction, PolicyAction, RebuildAction, ScrubAction};
use crate::output::{Output, mark};
use crate::progress;
use crate::size::Size;

pub(crate) fn stop(name: &str, force: bool, run_dir: &Path, output: Output) -> Result<ExitCode> {
    ask(name, run_dir, &Request::Stop { force }, output, &format!("{name} is stopped"))
}

pub(crate) fn disk(action: DiskAction, run_dir: &Path, output: Output) -> Result<ExitCode> {
    match action {
        DiskAction::Add { name, path, group, force } => {
            let request = Request::DiskAdd { path: absolute(path.clone())?, group, force };
            let mut client = Client::connect(run_dir, &name)?;
            let answer = client.call(&request)?;
            let added = || format!("{} was added to {name}", shown(&path));
            let done = returned(&answer, &name, &path).unwrap_or_else(added);
            told(&mut client, &answer, output, &done, false)
        }
        DiskAction::Fail { name, disk } => {
            let done = format!("member {disk} of {name} is out of service");
            ask(&name, run_dir, &Request::DiskFail { disk: named(disk) }, output, &done)
        }
        DiskAction::Remove { name, disk } => {
            let done = format!("{disk} is no longer a spare of {name}");
            ask(&name, run_dir, &Request::DiskRemove { disk: named(disk) }, output, &done)
        }
        DiskAction::Replace { name, disk, with, force, wait } => {
            let request = Request::DiskReplace {
                disk: named(disk.clone()),
                with: absolute(with.clone())?,
                force,
            };
            let mut client = Client::connect(run_dir, &name)?;
            let answer = client.call(&request)?;
            let how = match answer["copied"].as_bool() {
                Some(true) => "serves on, and is being copied to",
                Some(false) | None => "is being rebuilt onto",
            };
            let done = returned(&answer, &name, &with);
            let done =
                done.unwrap_or_else(|| format!("member {disk} of {name} {how} {}", shown(&with)));
            told(&mut client, &answer, output, &done, wait)
        }
    }
}

/// The message that a device has come back as the member that it was, if it has.
fn returned(answer: &Value, name: &str, path: &Path) -> Option<String> {
    answer.get("returned")?;
    let group = answer["group"].as_u64().and_then(|group| u8::try_from(group).ok());
    let number = answer["member"].as_u64().and_then(|member| u8::try_from(member).ok())?;
    let member = disk_name(group, number);
    let filled = match answer["missed_bytes"].as_u64() {
        Some(bytes) => format!("{} at most are copied, which it has missed", Size(bytes)),
        None => "all of it is filled, as it is not known what it has missed".to_owned(),
    };
    Some(format!("{} is back as member {member} of {name}: {filled}", shown(path)))
}

pub(crate) fn policy(action: &PolicyAction, run_dir: &Path, output: Output) -> Result<ExitCode> {
    match action {
        PolicyAction::List { name } => list_policies(name.as_deref(), run_dir, output),
        PolicyAction::Set { name, policy } => {
            let request = Request::PolicySet { scheme: policy.clone() };
            let answer = Client::connect(run_dir, name)?.call(&request)?;
            output.result(&json!({ "done": answer }), || {
                let draining = match answer["draining_bytes"].as_u64() {
                    None | Some(0) => String::new(),
                    Some(bytes) => format!("; draining: {} are staged, and come home", Size(bytes)),
                };
                let policy = answer["policy"].as_str().unwrap_or(policy);
                format!("{name}: {policy} from now on{draining}")
            });
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// All policies, and which one the array follows, if there is a name.
fn list_policies(name: Option<&str>, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let report = name.map(|name| Client::connect(run_dir, name)?.status()).transpose()?;
    let follows = |scheme: &Scheme| {
        report.as_ref().is_some_and(|r| r.policy.split('/').next() == Some(scheme.name))
    };
    let row = |scheme: &Scheme| {
        json!({ "name": scheme.name, "about": scheme.about, "needs_staging": scheme.needs_staging(),
            "followed": follows(scheme) })
    };
    let value: Value = SCHEMES.iter().map(row).collect();
    output.result(&json!({ "policies": value }), || {
        let line = |scheme: &Scheme| {
            let mark = mark(follows(scheme), name);
            let needs = if scheme.needs_staging() { "; needs a staging log" } else { "" };
            format!("{mark}{:<22}{}{needs}", scheme.name, scheme.about)
        };
        let log = report.as_ref().and_then(|report| report.staging.as_ref());
        let staged = log.map(|log| format!("staged: {}", held::staged(log)));
        SCHEMES.iter().map(line).chain(staged).collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn rebuild(action: RebuildAction, run_dir: &Path, output: Output) -> Result<ExitCode> {
    match action {
        RebuildAction::Start { name, path, force, wait } => {
            let report = Client::connect(run_dir, &name)?.status()?;
            if report.health == Health::Online {
                bail!("no member of {name} is missing: there is nothing to rebuild");
            }
            let done = format!("{name} is being rebuilt onto {}", shown(&path));
            let path = absolute(path)?;
            let request = Request::DiskAdd { path, group: None, force };
            ask_and_wait(&name, run_dir, &request, output, &done, wait)
        }
        RebuildAction::Status(watch) => show_work(&watch.name, run_dir, output, watch.wait),
        RebuildAction::Order { name: Some(name), order: Some(order) } => {
            let done = format!("{name}: redundancy is brought back in the order {order}");
            ask(&name, run_dir, &Request::RebuildOrder { order }, output, &done)
        }
        RebuildAction::Order { name, .. } => list_orders(name.as_deref(), run_dir, output),
        RebuildAction::Pause { name } => {
            ask(&name, run_dir, &Request::Pause, output, &format!("{name}: paused"))
        }
        RebuildAction::Resume { name } => {
            ask(&name, run_dir, &Request::Resume, output, &format!("{name}: going on"))
        }
        RebuildAction::Limit { name, min, max, within, slowdown } => {
            let unlimited = |Size(bytes)| if bytes == 0 { u64::MAX } else { bytes };
            // No deadline is 0; less than a second is one.
            let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
            let request = Request::Limit {
                min: min.map(|Size(bytes)| bytes),
                max: max.map(unlimited),
                within: within.map(seconds),
                slowdown,
            };
            ask(&name, run_dir, &request, output, &format!("{name}: the pace is set"))
        }
    }
}

/// All orders, and which one the array has, if there is a name.
fn list_orders(name: Option<&str>, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let report = name.map(|name| Client::connect(run_dir, name)?.status()).transpose()?;
    let has = |order: &RebuildOrder| {
        report.as_ref().is_some_and(|report| report.rebuild_order == order.name)
    };
    let row = |order: &RebuildOrder| json!({ "name": order.name, "about": order.about, "set": has(order) });
    let value: Value = REBUILD_ORDERS.iter().map(row).collect();
    output.result(&json!({ "orders": value }), || {
        let line = |order: &RebuildOrder| {
            format!("{}{:<12}{}", mark(has(order), name), order.name, order.about)
        };
        REBUILD_ORDERS.iter().map(line).collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn scrub(action: ScrubAction, run_dir: &Path, output: Output) -> Result<ExitCode> {
    match action {
        ScrubAction::Start { name: None, repair, wait, .. } => {
            scrub_all::scrub_all(repair, wait, run_dir, output)
        }
        ScrubAction::Start { name: Some(name), repair, wait, .. } => {
            let done = format!("{name} is being scrubbed");
            ask_and_wait(&name, run_dir, &Request::ScrubStart { repair }, output, &done, wait)
        }
        ScrubAction::Status(watch) => show_work(&watch.name, run_dir, output, watch.wait),
        ScrubAction::Cancel { name } => {
            let done = format!("{name}: the scrub is cancelled");
            ask(&name, run_dir, &Request::ScrubCancel, output, &done)
        }
    }
}

fn ask(
    name: &str,
    run_dir: &Path,
    request: &Request,
    output: Output,
    done: &str,
) -> Result<ExitCode> {
    ask_and_wait(name, run_dir, request, output, done, false)
}

fn ask_and_wait(
    name: &str,
    run_dir: &Path,
    request: &Request,
    output: Output,
    done: &str,
    wait: bool,
) -> Result<ExitCode> {
    let mut client = Client::connect(run_dir, name)?;
    let answer = client.call(request)?;
    told(&mut client, &answer, output, done, wait)
}

/// Prints what was done, and waits for the end if requested.
fn told(
    client: &mut Client,
    answer: &Value,
    output: Output,
    done: &str,
    wait: bool,
) -> Result<ExitCode> {
    if !wait {
        output.result(&json!({ "done": answer }), || done.to_owned());
        return Ok(ExitCode::SUCCESS);
    }
    if !output.is_json() {
        println!("{done}");
    }
    let report = progress::wait(client, output)?;
    output.result(&json!({ "done": answer, "array": report }), || status::text(&report));
    Ok(ended(&report))
}

fn show_work(name: &str, run_dir: &Path, output: Output, wait: bool) -> Result<ExitCode> {
    let mut client = Client::connect(run_dir, name)?;
    if wait {
        let report = progress::wait(&mut client, output)?;
        output.result(&json!({ "array": report }), || status::text(&report));
        return Ok(ended(&report));
    }
    let report = client.status()?;
    output.result(&json!({ "array": report }), || match &report.pass {
        Some(pass) => status_line(&report, status::work(pass)),
        None => status_line(&report, "nothing is going on in the background".to_owned()),
    });
    Ok(ExitCode::SUCCESS)
}

fn status_line(report: &ArrayReport, what: String) -> String {
    let scrub =
        report.last_scrub.map(|scrub| format!("; the last scrub {}", status::found(&scrub)));
    format!("{}: {what}{}", report.facts.name, scrub.unwrap_or_default())
}

/// The exit code of a command that has waited: success if the array is whole.
pub(super) fn ended(report: &ArrayReport) -> ExitCode {
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The daemon has another working directory.
fn absolute(path: PathBuf) -> Result<PathBuf> {
    Named::absolute(&path).with_context(|| shown(path).to_string())
}

/// A member's number, or its group's and its own, or an identity, unchanged; a path as an absolute
/// one.
fn named(disk: String) -> String {
    if disk.splitn(2, '.').all(|number| number.parse::<u8>().is_ok()) || is_uuid(&disk) {
        return disk;
    }
    let path = Named::absolute(Path::new(&disk));
    path.map_or(disk, |path| to_text(&path))
}

/// Whether it is written as identities are (RFC 9562, section 4).
fn is_uuid(text: &str) -> bool {
    let groups = text.split('-').map(str::len);
    groups.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

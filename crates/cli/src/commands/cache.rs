//! `evenkeel cache`: write caches, in the staging log or in memory.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use evenkeel_client::{ArrayReport, Client, Request, StagingReport, Waits};
use serde_json::{Value, json};
use steering::hold::{CACHES, Cache};
use steering::scheme::Scheme;

use super::{held, status};
use crate::args::CacheAction;
use crate::output::{Output, mark};
use crate::size::Size;

/// How often it is asked whether what is staged is at home.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn cache(action: &CacheAction, run_dir: &Path, output: Output) -> Result<ExitCode> {
    match action {
        CacheAction::List { name } => list(name.as_deref(), run_dir, output),
        CacheAction::Set { name, cache } => {
            let request = Request::CacheSet { cache: cache.clone() };
            let answer = Client::connect(run_dir, name)?.call(&request)?;
            output.result(&json!({ "done": answer }), || {
                let policy = answer["policy"].as_str().unwrap_or_default();
                let dirty = answer["draining_bytes"].as_u64().filter(|&bytes| bytes > 0);
                let comes = |bytes| format!("; {} are staged, and come home", Size(bytes));
                let comes = dirty.map(comes).unwrap_or_default();
                let since = if answer["at_restart"] == true {
                    // Its memory, and what its users may be, are settled when it starts.
                    format!("the next start on: `evenkeel restart {name}`")
                } else {
                    "now on".to_owned()
                };
                format!("{name}: the cache is {cache} from {since} (policy {policy}){comes}")
            });
            Ok(ExitCode::SUCCESS)
        }
        CacheAction::Flush { name, no_wait } => flush(name, !no_wait, run_dir, output),
    }
}

/// All caches, and which one the array has, if there is a name.
fn list(name: Option<&str>, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let report = name.map(|name| Client::connect(run_dir, name)?.status()).transpose()?;
    let log = report.as_ref().and_then(|report| report.staging.as_ref());
    let policy = report.as_ref().and_then(|report| Scheme::named(&report.policy));
    let has = |cache: &Cache| policy.is_some_and(|policy| policy.cache() == *cache);
    let row =
        |cache: &Cache| json!({ "name": cache.name, "about": cache.about, "set": has(cache) });
    let value: Value = CACHES.iter().map(row).collect();
    output.result(&json!({ "caches": value }), || {
        let line =
            |cache: &Cache| format!("{}{:<12}{}", mark(has(cache), name), cache.name, cache.about);
        let staged = log.map(|log| format!("staged: {}", status::staged(log)));
        let held = report.as_ref().and_then(|report| report.volatile.as_ref());
        let held = held.map(|cache| format!("memory: {}", held::held(cache)));
        CACHES.iter().map(line).chain(staged).chain(held).collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

fn flush(name: &str, wait: bool, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let mut client = Client::connect(run_dir, name)?;
    let answer = client.call(&Request::CacheFlush)?;
    let bytes = answer["bytes"].as_u64().unwrap_or(0);
    let left = loop {
        let left = Left::of(&client.status()?);
        if left.is_stuck {
            bail!(
                "{} are not at home, and some can't come: `evenkeel status {name}` tells why",
                Size(left.dirty)
            );
        }
        if !wait || !left.flushing {
            break left;
        }
        thread::sleep(LOOK);
    };
    let (staging, volatile) = (&left.report.staging, &left.report.volatile);
    let value = json!({ "done": answer, "staging": staging, "volatile": volatile });
    output.result(&value, || done(name, bytes, &left));
    Ok(ExitCode::SUCCESS)
}

/// What is not at home, in the staging log and in memory.
struct Left {
    report: ArrayReport,
    dirty: u64,
    /// What was to come home is on its way.
    flushing: bool,
    is_stuck: bool,
}

impl Left {
    fn of(report: &ArrayReport) -> Self {
        let report = report.clone();
        let (log, memory) = (report.staging.as_ref(), report.volatile.as_ref());
        let stuck = |log: &StagingReport| matches!(log.waits, Some(Waits::Stuck | Waits::Refused));
        Self {
            dirty: log.map_or(0, |log| log.dirty_bytes) + memory.map_or(0, |it| it.dirty_bytes),
            flushing: log.is_some_and(|log| log.flushing) || memory.is_some_and(|it| it.flushing),
            is_stuck: log.is_some_and(stuck) || memory.is_some_and(|it| it.stuck_bytes > 0),
            report,
        }
    }
}

fn done(name: &str, bytes: u64, left: &Left) -> String {
    if left.report.staging.is_none() && left.report.volatile.is_none() {
        return format!("{name} has neither a staging log nor a cache in memory: all is at home");
    }
    if left.flushing {
        return format!("{name}: {} come home", Size(bytes));
    }
    let newer = match Size(left.dirty) {
        Size(0) => String::new(),
        newer => format!("; {newer} were written since"),
    };
    format!("{name}: {} were held, and are at home{newer}", Size(bytes))
}

//! `evenkeel cache`: the staging log as a write cache.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use evenkeel_client::{Client, Request, StagingReport, Waits};
use serde_json::{Value, json};
use steering::hold::{CACHES, Cache};

use super::status;
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
                format!("{name}: the cache is {cache} from now on (policy {policy}){comes}")
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
    let has = |cache: &Cache| match (name, log) {
        (None, _) => false,
        (Some(_), Some(log)) => log.cache == cache.name,
        // Without a staging log there is no cache.
        (Some(_), None) => !cache.takes(),
    };
    let row =
        |cache: &Cache| json!({ "name": cache.name, "about": cache.about, "set": has(cache) });
    let value: Value = CACHES.iter().map(row).collect();
    output.result(&json!({ "caches": value }), || {
        let line =
            |cache: &Cache| format!("{}{:<12}{}", mark(has(cache), name), cache.name, cache.about);
        let staged = log.map(|log| format!("staged: {}", status::staged(log)));
        CACHES.iter().map(line).chain(staged).collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

fn flush(name: &str, wait: bool, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let mut client = Client::connect(run_dir, name)?;
    let answer = client.call(&Request::CacheFlush)?;
    let bytes = answer["bytes"].as_u64().unwrap_or(0);
    let left = loop {
        let left = client.status()?.staging;
        let Some(log) = &left else { break left };
        if matches!(log.waits, Some(Waits::Stuck | Waits::Refused)) {
            let dirty = Size(log.dirty_bytes);
            bail!(
                "{dirty} are not at home, and some can't come: `evenkeel status {name}` tells why"
            );
        }
        if !wait || !log.flushing {
            break left;
        }
        thread::sleep(LOOK);
    };
    output.result(&json!({ "done": answer, "staging": left }), || done(name, bytes, left.as_ref()));
    Ok(ExitCode::SUCCESS)
}

fn done(name: &str, bytes: u64, left: Option<&StagingReport>) -> String {
    match left {
        None => format!("{name} has no staging log: all is at home"),
        Some(log) if log.flushing => format!("{name}: {} come home", Size(bytes)),
        Some(log) => {
            let newer = match Size(log.dirty_bytes) {
                Size(0) => String::new(),
                newer => format!("; {newer} were staged since"),
            };
            format!("{name}: {} were staged, and are at home{newer}", Size(bytes))
        }
    }
}

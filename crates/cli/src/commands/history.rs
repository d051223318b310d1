//! `evenkeel history`, `evenkeel events`: what is on record of arrays, running or not.

use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use evenkeel_client::Refusal;
use evenkeel_client::paths::shown;
use nix::unistd::{Uid, User};
use serde_json::{Value, json};
use ublkd::history::{By, COMMAND, Entry, Follower, kept, read};

use crate::args::{EventsArgs, HistoryArgs};
use crate::output::Output;

/// How often `--follow` looks.
const INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn history(args: &HistoryArgs, state_dir: &Path, output: Output) -> Result<ExitCode> {
    let wanted = |entry: &Entry| !args.commands || entry.what.kind == COMMAND;
    let arrays = latest(args.name.as_deref(), args.lines, state_dir, wanted)?;
    print(&arrays, output);
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn events(args: &EventsArgs, state_dir: &Path, output: Output) -> Result<ExitCode> {
    let wanted = |entry: &Entry| entry.what.kind != COMMAND;
    // What happens between the two is told by the first, and left out by the second.
    let arrays = if args.follow && args.name.is_none() && kept(state_dir)?.is_empty() {
        Vec::new()
    } else {
        latest(args.name.as_deref(), args.lines.or(args.follow.then_some(10)), state_dir, wanted)?
    };
    if !args.follow {
        print(&arrays, output);
        return Ok(ExitCode::SUCCESS);
    }
    let mut follower = Follower::new(state_dir, args.name.as_deref());
    for (name, told, _) in &arrays {
        follower.seen(name, *told);
    }
    for (name, entry) in
        arrays.iter().flat_map(|(name, _, some)| some.iter().map(move |e| (name, e)))
    {
        one(name, entry, output);
    }
    loop {
        for (name, entry) in follower.news().with_context(|| shown(state_dir).to_string())? {
            if wanted(&entry) {
                one(&name, &entry, output);
            }
        }
        sleep(INTERVAL);
    }
}

/// Of each array its name, the number of its last entry, and the latest of those that are wanted.
type Latest = Vec<(String, u64, Vec<Entry>)>;

fn latest(
    name: Option<&str>,
    lines: Option<usize>,
    state_dir: &Path,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<Latest> {
    let all = kept(state_dir).with_context(|| shown(state_dir).to_string())?;
    let names = match name {
        None => all,
        Some(name) if all.iter().any(|kept| kept == name) => vec![name.to_owned()],
        Some(name) => return Err(none_of(name, &all, state_dir).into()),
    };
    let of = |name: String| {
        let mut entries =
            read(state_dir, &name, 0).with_context(|| shown(state_dir).to_string())?;
        let last = entries.last().map_or(0, |entry| entry.number);
        entries.retain(&wanted);
        if let Some(lines) = lines {
            entries.drain(..entries.len().saturating_sub(lines));
        }
        Ok((name, last, entries))
    };
    names.into_iter().map(of).collect()
}

fn none_of(name: &str, all: &[String], state_dir: &Path) -> Refusal {
    let hint = match all {
        [] => {
            "it is begun by `evenkeel create` and `evenkeel start`; --state-dir names another place"
                .to_owned()
        }
        names => format!("these have one: {}", names.join(", ")),
    };
    let message = format!("there is no history of an array \"{name}\" in {}", shown(state_dir));
    Refusal { code: "no-history".to_owned(), message, hint: Some(hint) }
}

fn print(arrays: &Latest, output: Output) {
    let value = |(name, _, entries): &(String, u64, Vec<Entry>)| json!({ "name": name, "entries": entries });
    let value: Vec<Value> = arrays.iter().map(value).collect();
    output.result(&json!({ "arrays": value }), || {
        let mut lines = Vec::new();
        for (name, _, entries) in arrays {
            lines.extend(entries.iter().map(|entry| (entry.at, line(name, entry))));
        }
        lines.sort_by_key(|&(at, _)| at);
        match lines.len() {
            0 => "nothing is on record".to_owned(),
            _ => lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n"),
        }
    });
}

fn one(name: &str, entry: &Entry, output: Output) {
    output.result(&json!({ "name": name, "event": entry }), || line(name, entry));
}

fn line(name: &str, entry: &Entry) -> String {
    let at = time(entry.at);
    match (&entry.what.by, &*entry.what.kind) {
        (Some(by), _) => format!("{at}  {name}: {} ran `evenkeel {}`", who(by), entry.what.text),
        (None, COMMAND) => format!("{at}  {name}: `evenkeel {}` was run", entry.what.text),
        (None, _) => format!("{at}  {name}: {}", entry.what.text),
    }
}

/// A point in time, in UTC.
fn time(seconds: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(at).to_string()
}

/// The user of a command, and who has logged in as another one.
fn who(by: &By) -> String {
    let name = |uid: u32| match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => format!("user {uid}"),
    };
    match by.login.filter(|&login| login != by.uid) {
        Some(login) => format!("{} (as {})", name(login), name(by.uid)),
        None => name(by.uid),
    }
}

//! Looks at all arrays of a machine, and finds what is new.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use evenkeel_client::paths::shown;
use evenkeel_client::{ArrayReport, ClientError, WhyReport, running, socket_path};
use ublkd::create::wall_clock;
use ublkd::history::{self, Entry, STOPPED};

use super::findings::{self, Finding};
use super::message::Message;
use super::state::{Known, State};
use crate::args::MonitorArgs;
use crate::commands::ask;

/// How long an array may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How soon one that gives no answer is asked again, where an answer is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// What one that runs tells.
type Told = (ArrayReport, Option<WhyReport>);

/// An occurrence and what is told of it.
pub(super) type New = (String, Message);

/// Looks.
#[derive(Debug)]
pub(super) struct Watch {
    run_dir: PathBuf,
    state_dir: PathBuf,
    /// How long an array may give no answer, in seconds.
    patience: u64,
    verbose: bool,
    /// When it began, in seconds since 1970.
    since: u64,
}

impl Watch {
    pub(super) fn new(run_dir: &Path, state_dir: &Path, args: &MonitorArgs) -> Self {
        Self {
            run_dir: run_dir.to_path_buf(),
            state_dir: state_dir.to_path_buf(),
            patience: args.patience.as_secs(),
            verbose: args.verbose,
            since: wall_clock(),
        }
    }

    /// All that is wrong now.
    ///
    /// # Errors
    /// If the run directory can't be read.
    pub(super) fn now(&self) -> Result<Vec<Message>> {
        let now = wall_clock();
        let names = running(&self.run_dir).with_context(|| shown(&self.run_dir).to_string())?;
        let until = Instant::now() + Duration::from_secs(self.patience);
        let told = loop {
            let told = self.ask(&names);
            // One that is being restarted answers soon.
            if told.iter().all(Result::is_ok) || Instant::now() >= until {
                break told;
            }
            sleep(LOOK);
        };
        let mut messages = Vec::new();
        for (name, told) in names.iter().zip(told) {
            match told {
                Ok((report, why)) => {
                    let found = findings::of_report(&report, why.as_ref(), now);
                    let uuid = Some(report.facts.uuid.clone());
                    messages.extend(
                        found.into_iter().map(|found| message(name, uuid.clone(), found, now)),
                    );
                }
                Err(error) if self.is_there(name) => {
                    let answers = !matches!(error, ClientError::NotRunning { .. });
                    let found = findings::silent(name, answers, &error.to_string(), now);
                    messages.push(message(name, None, found, now));
                }
                Err(_) => {}
            }
        }
        Ok(messages)
    }

    /// All that is new, with the keys of occurrences, and the state when all of it is told.
    ///
    /// # Errors
    /// If the run directory can't be read.
    pub(super) fn news(&self, state: &mut State) -> Result<Vec<New>> {
        let now = wall_clock();
        let names = running(&self.run_dir).with_context(|| shown(&self.run_dir).to_string())?;
        let known = state.arrays.keys().filter(|&name| !names.contains(name)).cloned();
        let gone: Vec<String> = known.collect();
        // Events first: the reports are of later.
        let events: Vec<Vec<Entry>> = names.iter().map(|name| self.events(name, state)).collect();
        let mut messages = Vec::new();
        for ((name, told), events) in names.iter().zip(self.ask(&names)).zip(events) {
            let known = state.arrays.entry(name.clone()).or_default();
            let found = match told {
                Ok((report, why)) => {
                    known.silent_since = None;
                    known.uuid = Some(report.facts.uuid.clone());
                    let found = findings::of_report(&report, why.as_ref(), now);
                    self.with_events(found, &events, known)
                }
                Err(error) => self.silent(name, &error, known, now),
            };
            messages.extend(new_of(name, found, known, now));
        }
        for name in gone {
            messages.extend(self.gone(&name, state, now));
        }
        Ok(messages)
    }

    /// What an array that has no socket any more has left behind.
    fn gone(&self, name: &str, state: &mut State, now: u64) -> Vec<New> {
        let events = self.events(name, state);
        let last = history::read(&self.state_dir, name, 0).unwrap_or_default().pop();
        let Some(known) = state.arrays.get_mut(name) else { return Vec::new() };
        let mut found = self.with_events(Vec::new(), &events, known);
        let ended = found.iter().any(|found| found.event == history::ENDED);
        if last.is_some_and(|last| last.what.kind == STOPPED) || ended {
            // What holds when it is started again is told again after a while.
            known.silent_since = None;
        } else {
            let since = *known.silent_since.get_or_insert(now);
            if now.saturating_sub(since) >= self.patience {
                found.push(findings::silent(name, false, "", since));
            }
        }
        new_of(name, found, known, now)
    }

    /// What an array has on record since the last look; if that is the first, since this process began.
    fn events(&self, name: &str, state: &mut State) -> Vec<Entry> {
        let is_known = state.arrays.contains_key(name);
        let known = state.arrays.entry(name.to_owned()).or_default();
        // Without a history reports tell most.
        let mut events = history::read(&self.state_dir, name, known.number).unwrap_or_default();
        known.number = events.last().map_or(known.number, |event| event.number);
        if !is_known {
            events.retain(|event| event.at >= self.since);
        }
        events
    }

    /// What is wrong, and what has happened.
    fn with_events(
        &self,
        mut found: Vec<Finding>,
        events: &[Entry],
        known: &Known,
    ) -> Vec<Finding> {
        for event in events {
            found.extend(findings::of_event(event, self.verbose));
            let Some(passed) = findings::passed(event) else { continue };
            let disk = passed.disk.clone().unwrap_or_default();
            let is_seen =
                found.iter().any(|found| found.event == passed.event && found.disk == passed.disk);
            // One that was told in the last round, before its event was read.
            let of_it = |key: &str| {
                let since = key.strip_prefix(&format!("degraded/{disk}/"));
                let since: Option<u64> = since.and_then(|since| since.parse().ok());
                since.is_some_and(|since| since.abs_diff(event.at) <= ANSWER.as_secs())
            };
            let is_scrubs =
                passed.event == "mismatch" && found.iter().any(|f| f.event == "mismatch");
            if !is_seen && !is_scrubs && !known.has_told(of_it) {
                found.push(passed);
            }
        }
        found
    }

    /// An array that does not answer, once that was so for a while.
    fn silent(&self, name: &str, error: &ClientError, known: &mut Known, now: u64) -> Vec<Finding> {
        if !self.is_there(name) {
            return Vec::new();
        }
        let since = *known.silent_since.get_or_insert(now);
        if now.saturating_sub(since) < self.patience {
            return Vec::new();
        }
        let answers = !matches!(error, ClientError::NotRunning { .. });
        vec![findings::silent(name, answers, &error.to_string(), since)]
    }

    /// Whether an array has a socket: one that is stopped has none.
    fn is_there(&self, name: &str) -> bool {
        socket_path(&self.run_dir, name).exists()
    }

    fn ask(&self, names: &[String]) -> Vec<Result<Told, ClientError>> {
        ask::all(names, &self.run_dir, ANSWER, |client| {
            let report = client.status()?;
            // A release may know less than its successor asks for.
            Ok((report, client.why().ok()))
        })
    }
}

/// Those findings that were not told.
fn new_of(name: &str, found: Vec<Finding>, known: &mut Known, now: u64) -> Vec<New> {
    let mut new = Vec::new();
    for found in found {
        if known.is_new(&found.key, now) {
            new.push((found.key.clone(), message(name, known.uuid.clone(), found, now)));
        }
    }
    known.forget(now);
    new
}

fn message(array: &str, uuid: Option<String>, found: Finding, now: u64) -> Message {
    Message {
        event: found.event,
        severity: found.severity,
        array: array.to_owned(),
        uuid,
        disk: found.disk,
        message: found.message,
        what_to_do: found.what_to_do,
        at: found.at.unwrap_or(now),
        host: String::new(),
    }
}

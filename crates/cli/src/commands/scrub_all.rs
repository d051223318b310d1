//! `evenkeel scrub start --all`: a scrub of every array that runs, for a timer.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_client::paths::shown;
use evenkeel_client::{ArrayReport, Client, ClientError, Request, running};
use serde_json::{Value, json};

use super::status;
use crate::output::{Output, refusal_of};
use crate::progress;

/// Refusals after which an array is left out: it has no redundancy, none that could be compared, or
/// other work under way.
const LEFT_OUT: [&str; 3] = ["not-redundant", "nothing-to-compare", "busy"];

/// What became of an array.
enum Scrubbed {
    /// A scrub was started.
    Started,
    /// It has ended.
    Ended(Box<ArrayReport>),
    /// There is nothing to do now.
    LeftOut(anyhow::Error),
    /// It did not answer, or refused.
    Not(anyhow::Error),
}

/// Starts the scrubs; with `wait`, waits for the end of each before the next. It fails if an array does
/// not answer, or is not well at the end.
pub(super) fn scrub_all(
    repair: bool,
    wait: bool,
    run_dir: &Path,
    output: Output,
) -> Result<ExitCode> {
    let names = running(run_dir).with_context(|| shown(run_dir).to_string())?;
    let scrubbed = names.into_iter().map(|name| {
        let done = scrub(&name, repair, wait, run_dir, output).unwrap_or_else(Scrubbed::Not);
        (name, done)
    });
    let scrubbed: Vec<(String, Scrubbed)> = scrubbed.collect();
    let well = scrubbed.iter().all(|(_, done)| match done {
        Scrubbed::Started | Scrubbed::LeftOut(_) => true,
        Scrubbed::Ended(report) => report.problems.is_empty(),
        Scrubbed::Not(_) => false,
    });
    let values: Vec<Value> = scrubbed.iter().map(|(name, done)| value(name, done)).collect();
    output.result(&json!({ "arrays": values }), || {
        let lines = scrubbed.iter().map(|(name, done)| format!("{name}: {}", text(done)));
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { "no array is running".to_owned() } else { lines.join("\n") }
    });
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn scrub(name: &str, repair: bool, wait: bool, run_dir: &Path, output: Output) -> Result<Scrubbed> {
    let mut client = Client::connect(run_dir, name)?;
    match client.call(&Request::ScrubStart { repair }) {
        Err(ClientError::Refused(refusal)) if LEFT_OUT.contains(&&*refusal.code) => {
            Ok(Scrubbed::LeftOut(refusal.into()))
        }
        Err(error) => Err(error.into()),
        Ok(_) if wait => Ok(Scrubbed::Ended(Box::new(progress::wait(&mut client, output)?))),
        Ok(_) => Ok(Scrubbed::Started),
    }
}

fn value(name: &str, done: &Scrubbed) -> Value {
    match done {
        Scrubbed::Started => json!({ "name": name }),
        Scrubbed::Ended(report) => json!(report),
        Scrubbed::LeftOut(why) => json!({ "name": name, "left_out": refusal_of(why) }),
        Scrubbed::Not(why) => json!({ "name": name, "error": refusal_of(why) }),
    }
}

fn text(done: &Scrubbed) -> String {
    match done {
        Scrubbed::Started => "it is being scrubbed".to_owned(),
        Scrubbed::Ended(report) => match (&report.pass, &report.last_scrub) {
            (Some(pass), _) => status::work(pass),
            (None, Some(scrub)) => format!("the scrub {}", status::found(scrub)),
            (None, None) => "the scrub was cancelled".to_owned(),
        },
        Scrubbed::LeftOut(why) => format!("left out: {}", refusal_of(why).message),
        Scrubbed::Not(why) => format!("error: {}", refusal_of(why).message),
    }
}

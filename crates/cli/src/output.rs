//! Output: text for people or JSON for programs, errors included.

use std::io::Write;

use anyhow::Error;
use evenkeel_client::{ClientError, Refusal};
use serde_json::{Value, json};
use ublkd::create::wall_clock;
use ublkd::limits::advice_on_files;

/// The version of the JSON output: of the envelope, and of the results in it.
const SCHEMA: u32 = 1;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    command: &'static str,
}

impl Output {
    /// For a command, which is named by its words, such as `disk add`.
    pub(crate) fn new(json: bool, command: &'static str) -> Self {
        Self { json, command }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// A result: as JSON, or as the text of `text`.
    pub(crate) fn result(self, value: &Value, text: impl FnOnce() -> String) {
        if self.json {
            self.envelope("result", value);
        } else {
            print(&text());
        }
    }

    /// An error, on standard error; with `--json`, it is the result.
    pub(crate) fn error(self, error: &Error) {
        let refusal = refusal_of(error);
        if self.json {
            self.envelope("error", &json!(refusal));
            return;
        }
        eprintln!("error: {}", refusal.message);
        if let Some(hint) = refusal.hint {
            eprintln!("  what to do: {hint}");
        }
    }

    /// What did not go well beside the result, on standard error.
    pub(crate) fn warn(self, text: &str) {
        eprintln!("warning: {text}");
    }

    /// All JSON output is printed here: one line.
    fn envelope(self, kind: &str, value: &Value) {
        print(&json!({ "schema": SCHEMA, "command": self.command, kind: value }).to_string());
    }
}

/// What a line of a list of choices begins with: what an array has is marked, if the list is of one.
pub(crate) fn mark(has: bool, array: Option<&str>) -> &'static str {
    match (has, array) {
        (true, _) => "* ",
        (false, Some(_)) => "  ",
        (false, None) => "",
    }
}

/// Prints a line. A closed output (`evenkeel start | head -1`) is no error.
pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// An error with its code and hint, if it has them.
pub(crate) fn refusal_of(error: &Error) -> Refusal {
    let client = error.downcast_ref::<ClientError>();
    if let Some(ClientError::Refused(refusal)) = client {
        return refusal.clone();
    }
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return refusal.clone();
    }
    let (code, hint) = if let Some(ClientError::NotRunning { others, .. }) = client {
        let hint = match &others[..] {
            [] => "no array runs here; `evenkeel start` starts one".to_owned(),
            names => {
                format!("these run here: {}; `evenkeel start` starts another", names.join(", "))
            }
        };
        ("not-running", Some(hint))
    } else {
        ("failed", advice_on_files(error.as_ref()))
    };
    Refusal { code: code.to_owned(), message: message(error), hint }
}

/// An error with its causes, except those that its message includes.
fn message(error: &Error) -> String {
    let mut causes = error.chain().map(ToString::to_string);
    let first = causes.next().unwrap_or_default();
    causes
        .fold(first, |text, cause| if text.contains(&cause) { text } else { text + ": " + &cause })
}

/// How long ago a time (in seconds since 1970) is, in words.
pub(crate) fn ago(since: u64) -> String {
    duration(wall_clock().saturating_sub(since))
}

/// A length of time, in words.
pub(crate) fn duration(seconds: u64) -> String {
    let (minute, hour, day) = (60, 3600, 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / minute, seconds % minute),
        3600..86_400 => format!("{} h {} min", seconds / hour, seconds % hour / minute),
        _ => format!("{} d {} h", seconds / day, seconds % day / hour),
    }
}

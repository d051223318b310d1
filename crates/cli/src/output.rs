//! What is printed: text for people or JSON for programs, errors included.

use std::io::Write;

use anyhow::Error;
use serde_json::{Value, json};
use ublkd::control::{ClientError, Refusal};
use ublkd::create::wall_clock;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// A result: as JSON, or what `text` makes of it.
    pub(crate) fn result(self, value: &Value, text: impl FnOnce() -> String) {
        if self.json {
            print(&value.to_string());
        } else {
            print(&text());
        }
    }

    /// An error, on standard error; for programs it is the result.
    pub(crate) fn error(self, error: &Error) {
        let refusal = refusal_of(error);
        if self.json {
            print(&json!({ "error": refusal }).to_string());
            return;
        }
        eprintln!("error: {}", refusal.message);
        if let Some(hint) = refusal.hint {
            eprintln!("  what to do: {hint}");
        }
    }
}

/// Prints a line. That nobody reads it any more (`evenkeel start | head -1`) stops nothing.
pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// An error with its code and hint, if it has them.
pub(crate) fn refusal_of(error: &Error) -> Refusal {
    let refused = error.downcast_ref::<Refusal>().or_else(|| {
        let client = error.downcast_ref::<ClientError>();
        client.and_then(|client| match client {
            ClientError::Refused(refusal) => Some(refusal),
            ClientError::NotRunning { .. }
            | ClientError::Denied { .. }
            | ClientError::Broken { .. }
            | ClientError::NotUnderstood { .. } => None,
        })
    });
    refused.cloned().unwrap_or_else(|| Refusal {
        code: match error.downcast_ref::<ClientError>() {
            Some(ClientError::NotRunning { .. }) => "not-running",
            _ => "failed",
        }
        .to_owned(),
        message: format!("{error:#}"),
        hint: None,
    })
}

/// How long ago a time is, in seconds since 1970, in words.
pub(crate) fn ago(since: u64) -> String {
    duration(wall_clock().saturating_sub(since))
}

/// How long ago something was, or how long it takes, in words.
pub(crate) fn duration(seconds: u64) -> String {
    let (minute, hour, day) = (60, 3600, 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / minute, seconds % minute),
        3600..86_400 => format!("{} h {} min", seconds / hour, seconds % hour / minute),
        _ => format!("{} d {} h", seconds / day, seconds % day / hour),
    }
}

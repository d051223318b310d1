//! What people are told, in each way's form.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How serious a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Critical,
    Warning,
    Info,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Message {
    /// Its kind.
    pub(super) event: String,
    pub(super) severity: Severity,
    pub(super) array: String,
    /// The array's identity, if it is known.
    pub(super) uuid: Option<String>,
    /// The member that it is about, as commands name it.
    pub(super) disk: Option<String>,
    pub(super) message: String,
    pub(super) what_to_do: Option<String>,
    /// When it happened or was noticed, in seconds since 1970.
    pub(super) at: u64,
    pub(super) host: String,
}

impl Message {
    /// The environment of a hook.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            ("EVENKEEL_EVENT", self.event.clone()),
            ("EVENKEEL_SEVERITY", self.severity.name().to_owned()),
            ("EVENKEEL_ARRAY", self.array.clone()),
            ("EVENKEEL_UUID", or_empty(&self.uuid)),
            ("EVENKEEL_DISK", or_empty(&self.disk)),
            ("EVENKEEL_MESSAGE", self.message.clone()),
            ("EVENKEEL_WHAT_TO_DO", or_empty(&self.what_to_do)),
            ("EVENKEEL_TIME", self.at.to_string()),
            ("EVENKEEL_HOST", self.host.clone()),
        ]
    }

    /// A mail with its header.
    pub(super) fn mail(&self, to: &str) -> String {
        let subject = format!("[evenkeel] {} on {}: {}", self.array, self.host, self.event);
        // A header is ASCII, and one line.
        let subject: String =
            subject.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        format!(
            "To: {to}\nSubject: {subject}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
             Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{}\n\n\
             How it is now: evenkeel status {}\nWhat happened:  evenkeel history {}\n",
            self.text(),
            self.array,
            self.array
        )
    }

    /// The body of a webhook. Chats show `text`.
    pub(super) fn json(&self) -> Value {
        let mut value = json!(self);
        value["text"] = json!(self.text());
        value
    }

    /// It all, for people.
    pub(super) fn text(&self) -> String {
        let line = format!("{} ({}): {}", self.array, self.host, self.line());
        match &self.what_to_do {
            Some(what_to_do) => format!("{line}\nWhat to do: {what_to_do}"),
            None => line,
        }
    }

    /// What it says, with its kind.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.event, self.message)
    }
}

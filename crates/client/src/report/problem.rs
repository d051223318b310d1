//! A problem of an array, as plain data.

use serde::{Deserialize, Serialize};

/// A problem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Its kind: hyphenated words that don't change between releases; empty from an older one.
    #[serde(default)]
    pub kind: String,
    /// The member that it is about, as commands name it; of a spare its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// What is wrong.
    pub what: String,
    /// Since when, in seconds since 1970.
    pub since: Option<u64>,
    /// What to do.
    pub action: String,
}

impl Problem {
    /// A problem of the whole array whose beginning is not known.
    #[must_use]
    pub fn of_array(kind: &str, what: String, action: String) -> Self {
        Self { kind: kind.to_owned(), disk: None, what, since: None, action }
    }
}

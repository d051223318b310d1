//! A problem of an array, as plain data.

use serde::{Deserialize, Serialize};

/// A problem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// Since when, in seconds since 1970.
    pub since: Option<u64>,
    /// What to do.
    pub action: String,
}

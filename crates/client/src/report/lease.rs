//! The lease by which hosts agree who runs an array, as plain data.

use serde::{Deserialize, Serialize};

/// The lease that a running array has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseReport {
    /// The host that holds it.
    pub holder: String,
    /// The host that held it before, if it was another holding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The term in milliseconds.
    pub term_ms: u64,
    /// How often it was claimed.
    pub generation: u64,
    /// How long ago the last renewal was begun that counts, in milliseconds.
    pub renewed_ms_ago: Option<u64>,
    /// How many members decide who holds it. It has to be renewed on more than half of them.
    pub voters: usize,
    /// Members on which it can't be renewed, as these don't answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<u8>,
}

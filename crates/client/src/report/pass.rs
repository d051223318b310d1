//! Work in the background, as plain data.

use serde::{Deserialize, Serialize};

/// The kind of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Redundancy is made to agree with data.
    Resync,
    /// A member is filled.
    Rebuild,
    /// A member is rebuilt onto the distributed spare.
    Distribute,
    /// A member that serves is copied to its successor.
    Copy,
    /// Redundancy is compared with data.
    Scrub,
    /// The array becomes one of another level, or with more members.
    Reshape,
}

/// Work in the background.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassReport {
    /// What is done.
    pub task: Task,
    /// The member that is rebuilt, copied, or put on the distributed spare.
    pub member: Option<u8>,
    /// Of which group of a log volume, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Bytes of each member that are done.
    pub done_bytes: u64,
    /// Bytes of each member in all.
    pub total_bytes: u64,
    /// Whether it is held.
    pub paused: bool,
    /// The first stripe that it could not do, if it does no other any more.
    pub stuck_at_stripe: Option<u64>,
    /// How many stripes it could not do.
    #[serde(default)]
    pub left_stripes: u64,
    /// Inconsistent rows; a row is one block of each member.
    pub mismatches: u64,
    /// Of these, rows in which redundancy tells which blocks are wrong.
    pub located: u64,
    /// How long it has run.
    pub elapsed_ms: u64,
    /// The rate at which it has read or written each member, without stripes that needed neither; 0
    /// if it has not run for long enough.
    pub bytes_per_second: u64,
    /// How long the rest takes at the overall rate so far, with stripes that needed no I/O.
    pub left_ms: Option<u64>,
    /// How long it may still take, if it is to end by a certain time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_ms: Option<u64>,
    /// How fast it may go now, in bytes of each member per second, if it is held back for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_to_bytes_per_second: Option<u64>,
}

impl Task {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Rebuild | Self::Distribute => "rebuild",
            Self::Copy => "copy",
            Self::Scrub => "scrub",
            Self::Reshape => "reshape",
        }
    }
}

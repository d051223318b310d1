//! A log volume, as plain data.

use serde::{Deserialize, Serialize};

use super::Health;

/// The state of a log volume. Counters are since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogReport {
    /// The group that takes users' writes.
    pub front: u8,
    /// Groups that are being cleaned.
    pub cleaning: Vec<u8>,
    /// The size of a segment.
    pub segment_bytes: u64,
    /// Its groups, in order.
    pub groups: Vec<GroupReport>,
    /// Live blocks in the log.
    pub used_bytes: u64,
    /// The most that users' blocks can take of the log.
    pub room_bytes: u64,
    /// Users' writes wait until segments are free.
    pub stalled: bool,
    /// It takes no more writes.
    pub failed: bool,
    /// Written by users.
    pub written_bytes: u64,
    /// Written to the log: data, what was moved, summaries and padding.
    pub logged_bytes: u64,
    /// Of these, moved by cleaners.
    pub moved_bytes: u64,
    /// Of these, padding.
    pub padding_bytes: u64,
    /// Written as checkpoints.
    pub stored_bytes: u64,
    /// Everything written per byte that users wrote, before redundancy; none if users wrote
    /// nothing.
    pub write_amplification: Option<f64>,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// How often another group went to the front.
    pub rotations: u64,
    /// How often users' writes had to wait for free segments.
    pub stalls: u64,
    /// The longest wait for cleaning: for free segments, or as cleaning is paced.
    pub longest_wait_us: u64,
}

/// A group of a log volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupReport {
    /// Its array's identity.
    pub uuid: String,
    /// How well its array is.
    pub health: Health,
    /// Its segments.
    pub segments: u32,
    /// Those that are free.
    pub free: u32,
    /// Those that the next checkpoint frees.
    pub freeing: u32,
    /// Its live blocks.
    pub used_bytes: u64,
}

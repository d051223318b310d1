//! The write cache in memory, as plain data.

use serde::{Deserialize, Serialize};

/// The state of a write cache in memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VolatileReport {
    /// How much it can hold.
    pub capacity_bytes: u64,
    /// Held, and not at home yet.
    pub dirty_bytes: u64,
    /// For how long the oldest write is held of which something is not at home, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Held, and could not be brought home: flushes fail until it is.
    pub stuck_bytes: u64,
    /// Writes that wait for room now.
    pub waiting_writes: u32,
    /// What was held at the last `evenkeel cache flush` is still on its way home.
    pub flushing: bool,
    /// Whether writes are held. They go past it once another cache is chosen.
    pub holds: bool,
    /// Written to memory since the start, as all counters below.
    pub written_bytes: u64,
    /// Of these, what took the place of what was held of the same blocks.
    pub again_bytes: u64,
    /// Read from memory.
    pub read_bytes: u64,
    /// Brought home.
    pub home_bytes: u64,
    /// How often bringing something home failed.
    pub failures: u64,
    /// Writes that had to wait for room.
    pub waits: u64,
}

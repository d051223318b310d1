//! Members that are modelled SSDs, as plain data.

use serde::{Deserialize, Serialize};

/// The state of a member that is a modelled SSD.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlashReport {
    /// What the model says.
    #[serde(flatten)]
    pub drive: FlashDrive,
    /// The share of free blocks from which on the policy has it collect, if it goes by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// I/Os since it was opened: reads that didn't wait for garbage collection.
    pub reads: Quantiles,
    /// Reads that did.
    pub reads_delayed: Quantiles,
    /// Writes that didn't.
    pub writes: Quantiles,
    /// Writes that did.
    pub writes_delayed: Quantiles,
}

/// How long I/Os took, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// How many there were.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// 99 of 100 took at most so long.
    pub p99_ns: u64,
    /// 999 of 1000.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// When a modelled SSD collected garbage, and which I/Os waited for it, in nanoseconds of the
/// system's monotonic clock (`CLOCK_MONOTONIC`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlashLog {
    /// Stretches of garbage collection, the oldest first.
    pub gc: Vec<GcInterval>,
    /// I/Os that waited for it, in the order in which they ended.
    pub delayed: Vec<DelayedIo>,
}

/// An I/O that waited for garbage collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayedIo {
    /// Whether it was a read.
    pub read: bool,
    /// When it was begun.
    pub began: u64,
    /// When the model ended it.
    pub modelled: u64,
    /// When it was done: when the model or the file ended it, whichever was later.
    pub ended: u64,
}

/// How a modelled drive is. Unless said otherwise, since it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlashDrive {
    /// Its profile's name.
    pub profile: String,
    /// Whether it tells the host when it collects.
    #[serde(default)]
    pub told: bool,
    /// Whether it takes orders of the host when to collect.
    #[serde(default)]
    pub obeys: bool,
    /// Pages programmed for each page that was written to it.
    pub waf: f64,
    /// Pages written to it.
    pub pages_written: u64,
    /// Pages that garbage collection moved.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks that are free now.
    pub free_blocks: u32,
    /// Blocks that there are.
    pub blocks: u32,
    /// How often a die collected without a break.
    pub gc_stretches: u64,
    /// The longest of these stretches.
    pub gc_longest_ns: u64,
    /// How long at least one die collected, since it was opened.
    pub gc_ns: u64,
    /// For how long it has been open.
    pub open_ns: u64,
    /// Commands that waited for garbage collection.
    pub delayed_by_gc: u64,
}

/// A stretch of time during which at least one die collected garbage, in nanoseconds of the clock
/// of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GcInterval {
    /// When it began.
    pub began: u64,
    /// When it ended; now, if it has not.
    pub ended: u64,
}

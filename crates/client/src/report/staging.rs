//! The staging log, as plain data.

use serde::{Deserialize, Serialize};

use super::ByteRange;

/// The state of a staging log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StagingReport {
    /// Staged and not at home yet.
    pub dirty_bytes: u64,
    /// Staged, whether at home or not.
    pub staged_bytes: u64,
    /// The log's use on the member where it is highest.
    pub used_bytes: u64,
    /// The log's size on each member.
    pub capacity_bytes: u64,
    /// Memory of the table of staged blocks.
    pub table_bytes: u64,
    /// The policy stages nothing any more, and staged blocks come home.
    pub draining: bool,
    /// The write cache that the log is: a name of `evenkeel cache list`.
    #[serde(default)]
    pub cache: String,
    /// For how long the oldest block has been staged that is not at home, in seconds.
    #[serde(default)]
    pub oldest_seconds: Option<f64>,
    /// How long all takes to come home, in seconds, as fast as it went of late when some was on its way.
    #[serde(default)]
    pub home_seconds: Option<f64>,
    /// Why nothing more comes home now: some is `stuck`, all is `refused`, `users` are served, a `rebuild`
    /// needs the members, or they are `busy`. None if something does, or nothing is to.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// What was staged at the last `evenkeel cache flush` is still on its way home.
    #[serde(default)]
    pub flushing: bool,
    /// Of the bytes that were written, those that were staged already and not at home yet.
    #[serde(default)]
    pub again_bytes: u64,
    /// Writes that were staged since the start, as all counters below.
    pub writes: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
    /// What was read from the log.
    pub read_bytes: u64,
    /// Copies of popular blocks, to be read when their home is busy.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Reads served from them.
    #[serde(default)]
    pub copy_reads: u64,
    /// Bytes brought home.
    pub reclaimed_bytes: u64,
    /// What of the log was void, and members were asked to discard, all together. Files, and devices that
    /// can't, keep it.
    #[serde(default)]
    pub discarded_bytes: u64,
    /// Writes that were not staged as there was no room.
    pub full: u64,
    /// Staged, not at home, and unreadable on all members that held it.
    #[serde(default)]
    pub lost_bytes: u64,
    /// The first 16 ranges of these.
    #[serde(default)]
    pub lost: Vec<ByteRange>,
}

/// Why what is staged stays where it is for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Waits {
    /// There is room, and users are served.
    Users,
    /// There is room, and a rebuild needs the members.
    Rebuild,
    /// The members that it goes to are busy.
    Busy,
    /// Some of it can't be brought home.
    Stuck,
    /// The array takes no writes.
    Refused,
}

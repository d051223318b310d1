//! The state of an array, as plain data.
//!
//! Fields that came later have a default: an answer of an older release is read all the same.

mod counts;
mod drive;
mod flash;
mod io;
mod lease;
mod left;
mod log;
mod member;
mod pass;
mod problem;
mod scrub;
mod site;
mod spares;
mod staging;
mod volatile;
mod why;

use serde::{Deserialize, Serialize};

pub use counts::{ByteRange, Detours, Hedged, Marked, Requests, StagedWrites};
pub use drive::{DriveHealth, DriveReport, Source};
pub use flash::{DelayedIo, FlashDrive, FlashLog, FlashReport, GcInterval, Quantiles};
pub use io::{IoReport, TransfersReport};
pub use lease::LeaseReport;
pub use left::{LeftReport, Unreadable};
pub use log::{GroupReport, LogReport};
pub use member::{DurableBy, ErrorReport, LatencyWindow, MemberReport, MemberState, WayBack};
pub use pass::{PassReport, Task};
pub use problem::Problem;
pub use scrub::{ScrubEndReport, ScrubReport};
pub use site::{ControllerReport, SiteReport};
pub use spares::SpareReport;
pub use staging::{StagingReport, Waits};
pub use volatile::VolatileReport;
pub use why::{
    AdviceReport, Detected, Kind, Known, MemberWhy, Mood, PartReport, Verdict, WhyReport,
};

/// What changes only by a reshape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// "raid5" and the like; of a log volume its layout, like "swan5:3x4" or "log-raid5".
    pub level: String,
    /// The placement if it is not md's default: by md's name, like "right-symmetric", or "uneven", which md
    /// does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Each member's share of parity in percent, if the placement is "uneven".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity_shares: Option<Vec<u8>>,
    /// How many groups a log volume has; 0 if it is none.
    #[serde(default)]
    pub groups: usize,
    /// If this is one group of a log volume of several, which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// A chunk.
    pub chunk_bytes: u64,
    /// How many members it has.
    #[serde(default)]
    pub member_count: usize,
    /// The size that users see.
    pub capacity_bytes: u64,
    /// How much of each member is used, metadata included.
    pub member_bytes: u64,
    /// Where user data and redundancy begin on each member, behind the metadata.
    pub data_offset_bytes: u64,
    /// How many members may be missing, of each group, whichever they are. Of "raid10", one of each pair.
    pub redundancy: usize,
    /// "journal", "bitmap" or "resync".
    pub consistency: String,
    /// The staging log's part of each member; 0 if there is no log.
    #[serde(default)]
    pub staging_bytes: u64,
    /// Its staging devices, which have the places after the members'.
    #[serde(default)]
    pub staging_devices: usize,
    /// The staging log's part of each of them.
    #[serde(default)]
    pub staging_device_bytes: u64,
    /// The distributed spare's part of each member; 0 if there is none.
    #[serde(default)]
    pub distributed_spare_bytes: u64,
    /// What its stripes were before, while it is being reshaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshaped_from: Option<String>,
    /// When it was created, in seconds since 1970.
    pub created: u64,
}

/// The name of a disk: its number, after that of its group if there are several.
#[must_use]
pub fn disk_name(group: Option<u8>, number: u8) -> String {
    group.map_or_else(|| number.to_string(), |group| format!("{group}.{number}"))
}

/// An array's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArrayReport {
    /// What does not change.
    #[serde(flatten)]
    pub facts: Facts,
    /// Its health.
    pub health: Health,
    /// What is wrong; nothing if all is well.
    pub problems: Vec<Problem>,
    /// Its members, in order.
    pub members: Vec<MemberReport>,
    /// Its spares.
    pub spares: Vec<SpareReport>,
    /// The identities of spares that are on record and not there.
    #[serde(default)]
    pub absent_spares: Vec<String>,
    /// If members beyond the redundancy have refused writes, what makes the array take writes
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<RemedyReport>,
    /// Stripes that a refused write has left inconsistent: the chunks of missing members can't be
    /// read there.
    #[serde(default)]
    pub torn_stripes: u64,
    /// The work under way in the background.
    pub pass: Option<PassReport>,
    /// The stripes that it could not do. Of a log volume, what they hold is not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftReport>,
    /// How the last scrub ended, perhaps before this start.
    pub last_scrub: Option<ScrubReport>,
    /// Regions of the write-intent bitmap.
    pub dirty_regions: Marked,
    /// How many writes a start after a crash would replay.
    #[serde(default)]
    pub replayable: u64,
    /// Stripes; those that are marked are discarded.
    pub zero_stripes: Marked,
    /// The pace of background work.
    pub pace: PaceReport,
    /// In which order redundancy is brought back: a name of `evenkeel rebuild order`.
    #[serde(default)]
    pub rebuild_order: String,
    /// In how few bytes of the array half of what users ask for is, as far as it was counted; none if they
    /// have asked for nothing, or of a log volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_bytes: Option<u64>,
    /// Users' requests.
    pub requests: Requests,
    /// How long they took, by kind and size; none from an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoReport>,
    /// The policy against garbage collection.
    pub policy: String,
    /// Reads that went around busy members.
    pub detours: Detours,
    /// Reads that were hedged.
    #[serde(default)]
    pub hedged: Hedged,
    /// The log volume, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
    /// The staging log, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingReport>,
    /// The write cache in memory, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volatile: Option<VolatileReport>,
    /// Its lease, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseReport>,
    /// Where its threads run, if they are kept to some CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteReport>,
    /// The use of the distributed spare, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distributed_spare: Option<SpareUseReport>,
    /// The front ends.
    pub fronts: Vec<Front>,
    /// Recent events, the oldest first.
    pub events: Vec<EventReport>,
    /// The process that runs it.
    pub pid: u32,
}

/// The pace of background work, in bytes of each member per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PaceReport {
    /// Guaranteed under load.
    pub min_bytes_per_second: u64,
    /// Never exceeded; none if unlimited.
    pub max_bytes_per_second: Option<u64>,
    /// Within how many seconds each pass is to end, if that is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<u64>,
    /// While it goes faster than the minimum beside users, their requests may take so many percent of what
    /// they take in calm. None if it keeps to the minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown_percent: Option<u32>,
}

/// The health of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// All members serve.
    Online,
    /// Members are missing or being rebuilt; the data is there.
    Degraded,
    /// More members are missing than redundancy can make up for.
    Failed,
}

/// What makes an array take writes again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RemedyReport {
    /// Free space behind its members.
    Room,
    /// A restart.
    Start,
}

/// The use of a distributed spare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SpareUseReport {
    /// Nothing.
    Free,
    /// This member is being rebuilt onto it.
    Filling(u8),
    /// It replaces this member.
    StandsInFor(u8),
}

/// How the array can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Front {
    /// "nbd", "fuse", "ublk", "vhost-user" or "metrics".
    pub kind: String,
    /// A URI, or the path of a file or device.
    pub address: String,
    /// If its users don't see that the array has grown: why, and what lets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventReport {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Its kind: hyphenated words that don't change between releases; empty from an older one.
    #[serde(default)]
    pub kind: String,
    /// The member that it is about, as commands name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// What, in words.
    pub text: String,
}

impl Facts {
    /// The level, and the placement if that is not the default, for people.
    #[must_use]
    pub fn shape(&self) -> String {
        let Some(placement) = &self.placement else { return self.level.clone() };
        let Some(shares) = &self.parity_shares else {
            return format!("{} ({placement})", self.level);
        };
        let shares: Vec<_> = shares.iter().map(u8::to_string).collect();
        format!("{} (parity {}%)", self.level, shares.join(", "))
    }

    /// The name of a place, for people.
    #[must_use]
    pub fn place(&self, number: u8) -> String {
        let is_member = usize::from(number) < self.member_count;
        let what = if is_member { "member" } else { "staging device" };
        format!("{what} {}", self.disk(number))
    }

    /// The name of the disk in a place in commands.
    #[must_use]
    pub fn disk(&self, number: u8) -> String {
        disk_name(self.group, number)
    }
}

//! The state of an array, as plain data for programs and in words for people: what is wrong, since
//! when, what to do.

mod drive;
mod left;
mod member;
mod pass;

use raidcore::engine::{ArrayHealth, Remedy, Slowdown, SpareUse, Status};
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{ArrayRecord, Consistency, SlotState};
use raidcore::units::{BLOCK_BYTES, DeviceId, MemberId};
use raidlog::Layout;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::scrub::ScrubReport;
use super::spares::SpareReport;
use super::way_back::WayBack;
use super::{IoReport, LogReport, StagingReport, VolatileReport};
use crate::health::Reading;
use crate::host::{Detours, FlashReport, Hedged, Marked, Opened, Requests};
pub use drive::DriveReport;
pub use left::LeftReport;
pub use member::{ErrorReport, MemberReport, MemberState};
pub use pass::{PassReport, Task};

/// What does not change while an array runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    /// How many members may be missing, of each group.
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

impl Facts {
    /// What a record says.
    #[must_use]
    pub fn of(record: &ArrayRecord) -> Self {
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        let consistency = match record.consistency {
            Consistency::Journal => "journal",
            Consistency::Bitmap => "bitmap",
            Consistency::Resync => "resync",
        };
        let placement = record.geometry.placement();
        Self {
            name: record.name.clone(),
            uuid: record.array.to_string(),
            level: level_name(record.geometry.level()).to_owned(),
            placement: (placement != Placement::of(record.geometry.level()))
                .then(|| placement.name().to_owned()),
            parity_shares: match placement {
                Placement::Uneven(shares) => Some(shares.percent().to_vec()),
                Placement::LeftAsymmetric
                | Placement::RightAsymmetric
                | Placement::LeftSymmetric
                | Placement::RightSymmetric
                | Placement::ParityFirst
                | Placement::ParityLast => None,
            },
            groups: 0,
            group: None,
            chunk_bytes: bytes(record.geometry.chunk().into()),
            member_count: record.geometry.members(),
            capacity_bytes: bytes(record.layout().capacity()),
            member_bytes: bytes(record.areas.member_blocks()),
            data_offset_bytes: bytes(record.areas.data_start().0),
            redundancy: record.layout().redundancy(),
            reshaped_from: record.reshape.map(|reshape| {
                let (level, members) = (reshape.from.level(), reshape.from.members());
                let chunk = bytes(reshape.from.chunk().into()) >> 10;
                format!("{} of {members} members with chunks of {chunk} KiB", level_name(level))
            }),
            consistency: consistency.to_owned(),
            staging_bytes: bytes(record.areas.staging().1),
            staging_devices: record.slots.len() - record.geometry.members(),
            staging_device_bytes: bytes(record.areas.staging_on_device().1),
            distributed_spare_bytes: bytes(record.areas.distributed_spare_blocks()),
            created: record.created,
        }
    }

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

    /// What the records of a log volume's groups say, or that of an array.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn of_all(records: &[ArrayRecord]) -> Self {
        let first = Self::of(&records[0]);
        let Some(part) = &records[0].volume else { return first };
        let geometry = &records[0].geometry;
        let layout = Layout {
            level: geometry.level(),
            groups: part.groups,
            members: (part.groups > 1).then_some(geometry.members() as u8),
        };
        Self {
            uuid: part.volume.to_string(),
            level: layout.to_string(),
            groups: part.groups.into(),
            member_count: records.iter().map(|record| record.geometry.members()).sum(),
            capacity_bytes: part.blocks * BLOCK_BYTES as u64,
            ..first
        }
    }

    /// The facts of an array, or of a log volume from the records of its groups.
    ///
    /// # Panics
    /// If there is no record.
    pub(crate) fn of_group(record: &ArrayRecord) -> Self {
        Self { group: group_of(record), ..Self::of(record) }
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

/// The array's group of a log volume, if that has several.
pub(crate) fn group_of(record: &ArrayRecord) -> Option<u8> {
    record.volume.filter(|part| part.groups > 1).map(|part| part.group)
}

/// The name of a disk: its number, after that of its group if there are several.
#[must_use]
pub fn disk_name(group: Option<u8>, number: u8) -> String {
    group.map_or_else(|| number.to_string(), |group| format!("{group}.{number}"))
}

/// An array's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
#[serde(rename_all = "lowercase")]
pub enum RemedyReport {
    /// Free space behind its members.
    Room,
    /// A restart.
    Start,
}

/// The use of a distributed spare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
pub struct Front {
    /// "nbd", "fuse", "ublk", or "metrics".
    pub kind: String,
    /// A URI, or the path of a file or device.
    pub address: String,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

impl ArrayReport {
    /// Combines the engine's state with facts that the engine does not know, apart from fronts and
    /// events.
    pub(super) fn new(
        facts: &Facts,
        status: &Status,
        (flash, policy): (&[(DeviceId, FlashReport)], &str),
        opened: impl Fn(DeviceId) -> Option<Opened>,
        reading: impl Fn(DeviceId) -> Option<Reading>,
        way_back: impl Fn(MemberId) -> (WayBack, Option<String>),
    ) -> Self {
        let flash = |device| Some(flash.iter().find(|(id, _)| *id == device)?.1.clone());
        let group = facts.group;
        let drive = |device| reading(device).map(|reading| DriveReport::of(&reading));
        let members = status.members.iter().map(|m| {
            let (device, flash) = (m.device.and_then(&opened), m.device.and_then(flash));
            let report = MemberReport::new(m, group, device, flash, m.device.and_then(drive));
            if m.state == SlotState::Failed { report.away(way_back(m.member)) } else { report }
        });
        let path = |device| opened(device).map(|opened| opened.path);
        let mut report = Self {
            facts: Facts {
                reshaped_from: facts.reshaped_from.clone().filter(|_| status.is_reshaped),
                ..facts.clone()
            },
            health: match status.health {
                ArrayHealth::Online => Health::Online,
                ArrayHealth::Degraded => Health::Degraded,
                ArrayHealth::Failed => Health::Failed,
            },
            problems: Vec::new(),
            members: members.collect(),
            spares: SpareReport::all_of(status, facts, path, drive),
            absent_spares: status.absent_spares.iter().map(ToString::to_string).collect(),
            remedy: status.remedy.map(|remedy| match remedy {
                Remedy::Room => RemedyReport::Room,
                Remedy::Start => RemedyReport::Start,
            }),
            torn_stripes: status.torn_stripes,
            left: status.left.iter().map(LeftReport::of).collect(),
            pass: status.pass.map(|pass| PassReport::of(&pass, facts.chunk_bytes, group)),
            last_scrub: status.last_scrub.as_ref().map(ScrubReport::of),
            dirty_regions: status.dirty_regions.into(),
            replayable: status.replayable,
            zero_stripes: status.zero_stripes.into(),
            pace: PaceReport {
                min_bytes_per_second: status.pace.min,
                max_bytes_per_second: (status.pace.max < u64::MAX).then_some(status.pace.max),
                within_seconds: status.end_within.map(|within| within.as_secs()),
                slowdown_percent: status.slowdown.map(Slowdown::as_percent),
            },
            rebuild_order: status.rebuild_order.name.to_owned(),
            hot_bytes: status.half_in.map(|(few, of)| {
                (u128::from(facts.capacity_bytes) * u128::from(few) / u128::from(of)) as u64
            }),
            requests: (status.counters.requests, status.counters.errors).into(),
            io: None,
            policy: policy.to_owned(),
            detours: (status.counters.detours, status.counters.detour_blocks).into(),
            hedged: (status.counters.hedged_reads, status.counters.hedges_won).into(),
            log: None,
            staging: StagingReport::of(status, policy),
            volatile: None,
            distributed_spare: status.distributed_spare.map(|used| match used {
                SpareUse::Free => SpareUseReport::Free,
                SpareUse::Filling(member) => SpareUseReport::Filling(member.0),
                SpareUse::StandsInFor(member) => SpareUseReport::StandsInFor(member.0),
            }),
            fronts: Vec::new(),
            events: Vec::new(),
            pid: std::process::id(),
        };
        report.problems = report.find_problems();
        report
    }
}

/// A level's name, as in [`Facts`].
#[must_use]
pub fn level_name(level: Level) -> &'static str {
    match level {
        Level::Raid0 => "raid0",
        Level::Raid1 => "raid1",
        Level::Raid4 => "raid4",
        Level::Raid5 => "raid5",
        Level::Raid6 => "raid6",
    }
}

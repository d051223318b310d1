//! The state of an array, as plain data for programs and in words for people: what is wrong, since
//! when, what to do.

mod drive;
mod left;
mod member;
mod pass;

use evenkeel_client::{
    ArrayReport, Facts, FlashReport, Health, PaceReport, RemedyReport, SpareUseReport, WayBack,
};
use raidcore::engine::{ArrayHealth, Remedy, Slowdown, SpareUse, Status};
use raidcore::geometry::Placement;
use raidcore::meta::{ArrayRecord, Consistency, SlotState};
use raidcore::units::{BLOCK_BYTES, DeviceId, MemberId};
use raidlog::Layout;

use super::problems::Findings;
use super::scrub::scrub_report;
use super::spares::spare_reports;
use super::staging::staging_report;
use crate::health::Reading;
use crate::host::Opened;
pub use drive::drive_report;
use left::left_report;
use member::{away, member_report};
pub(crate) use pass::pass_report;

/// What a record says.
#[must_use]
pub fn facts_of(record: &ArrayRecord) -> Facts {
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let consistency = match record.consistency {
        Consistency::Journal => "journal",
        Consistency::Bitmap => "bitmap",
        Consistency::Resync => "resync",
    };
    let placement = record.geometry.placement();
    Facts {
        name: record.name.clone(),
        uuid: record.array.to_string(),
        level: record.geometry.level().name().to_owned(),
        placement: (placement != Placement::of(record.geometry.level()))
            .then(|| placement.name().to_owned()),
        parity_shares: match placement {
            Placement::Uneven(shares) => Some(shares.percent().to_vec()),
            Placement::LeftAsymmetric
            | Placement::RightAsymmetric
            | Placement::LeftSymmetric
            | Placement::RightSymmetric
            | Placement::ParityFirst
            | Placement::ParityLast
            | Placement::Near => None,
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
            format!("{} of {members} members with chunks of {chunk} KiB", level.name())
        }),
        consistency: consistency.to_owned(),
        staging_bytes: bytes(record.areas.staging().1),
        staging_devices: record.slots.len() - record.geometry.members(),
        staging_device_bytes: bytes(record.areas.staging_on_device().1),
        distributed_spare_bytes: bytes(record.areas.distributed_spare_blocks()),
        created: record.created,
    }
}

/// What the records of a log volume's groups say, or that of an array.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn facts_of_all(records: &[ArrayRecord]) -> Facts {
    let first = facts_of(&records[0]);
    let Some(part) = &records[0].volume else { return first };
    let geometry = &records[0].geometry;
    let layout = Layout {
        level: geometry.level(),
        groups: part.groups,
        members: (part.groups > 1).then_some(geometry.members() as u8),
    };
    Facts {
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
pub(crate) fn facts_of_group(record: &ArrayRecord) -> Facts {
    Facts { group: group_of(record), ..facts_of(record) }
}

/// The array's group of a log volume, if that has several.
pub(crate) fn group_of(record: &ArrayRecord) -> Option<u8> {
    record.volume.filter(|part| part.groups > 1).map(|part| part.group)
}

/// Combines the engine's state with facts that the engine does not know, apart from fronts and
/// events.
pub(super) fn array_report(
    facts: &Facts,
    status: &Status,
    (flash, policy): (&[(DeviceId, FlashReport)], &str),
    opened: impl Fn(DeviceId) -> Option<Opened>,
    reading: impl Fn(DeviceId) -> Option<Reading>,
    way_back: impl Fn(MemberId) -> (WayBack, Option<String>),
) -> ArrayReport {
    let flash = |device| Some(flash.iter().find(|(id, _)| *id == device)?.1.clone());
    let group = facts.group;
    let drive = |device| reading(device).map(|reading| drive_report(&reading));
    let members = status.members.iter().map(|m| {
        let (device, flash) = (m.device.and_then(&opened), m.device.and_then(flash));
        let report = member_report(m, group, device, flash, m.device.and_then(drive));
        if m.state == SlotState::Failed { away(report, way_back(m.member)) } else { report }
    });
    let path = |device| opened(device).map(|opened| opened.path);
    let mut report = ArrayReport {
        facts: Facts {
            reshaped_from: facts.reshaped_from.clone().filter(|_| status.is_reshaped),
            capacity_bytes: status.capacity * BLOCK_BYTES as u64,
            redundancy: status.redundancy,
            ..facts.clone()
        },
        health: match status.health {
            ArrayHealth::Online => Health::Online,
            ArrayHealth::Degraded => Health::Degraded,
            ArrayHealth::Failed => Health::Failed,
        },
        problems: Vec::new(),
        members: members.collect(),
        spares: spare_reports(status, facts, path, drive),
        absent_spares: status.absent_spares.iter().map(ToString::to_string).collect(),
        remedy: status.remedy.map(|remedy| match remedy {
            Remedy::Room => RemedyReport::Room,
            Remedy::Start => RemedyReport::Start,
        }),
        torn_stripes: status.torn_stripes,
        left: status.left.iter().map(left_report).collect(),
        pass: status.pass.map(|pass| pass_report(&pass, facts.chunk_bytes, group)),
        last_scrub: status.last_scrub.as_ref().map(scrub_report),
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
        staging: staging_report(status, policy),
        volatile: None,
        lease: None,
        site: None,
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

//! The engine's state, for people.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Counters, IoError, LeftStripe, Pace, PassKind, RebuildOrder, Slowdown};
use crate::meta::{ArrayId, ArrayRecord, DeviceLabel, DeviceUuid, Policy, ScrubRecord, SlotState};
use crate::units::{DeviceId, Lba, MemberId, Stripe};

/// The engine's state, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// Which array.
    pub array: ArrayId,
    /// Its health.
    pub health: ArrayHealth,
    /// Its members, in order, and after them the staging devices.
    pub members: Vec<MemberStatus>,
    /// Its spares, but for the successor.
    pub spares: Vec<DeviceId>,
    /// Spares that are on record and not there.
    pub absent_spares: Vec<DeviceUuid>,
    /// The spare to which a member is being copied, if one is.
    pub successor: Option<SuccessorStatus>,
    /// The background pass under way.
    pub pass: Option<PassStatus>,
    /// The stripes that the pass could not do.
    pub left: Vec<LeftStripe>,
    /// How the last scrub ended, be it before this start.
    pub last_scrub: Option<ScrubRecord>,
    /// How many regions are marked in the write-intent bitmap, of how many.
    pub dirty_regions: (u64, u64),
    /// How many writes a start after a crash would carry out, as the journal has their entries.
    pub replayable: u64,
    /// How many stripes are discarded, of how many.
    pub zero_stripes: (u64, u64),
    /// The pace of background work.
    pub pace: Pace,
    /// How much users may feel of it beyond that.
    pub slowdown: Option<Slowdown>,
    /// Within how long each pass is to end, if that was set.
    pub end_within: Option<Duration>,
    /// In which order redundancy is brought back.
    pub rebuild_order: &'static RebuildOrder,
    /// In how few parts of the array half of what users ask for is, of how many parts of the same size;
    /// none if they have asked for nothing. It outlives a stop.
    pub half_in: Option<(u64, u64)>,
    /// The policy on record.
    pub policy: Option<Policy>,
    /// The staging log, if there is one.
    pub staging: Option<StagingStatus>,
    /// The distributed spare, if there is one.
    pub distributed_spare: Option<SpareUse>,
    /// What has to happen before writes are taken again, if members that can't be spared have refused
    /// some.
    pub remedy: Option<Remedy>,
    /// How many stripes are out of step, as a write was refused: what missing members had there can't be
    /// read before the stripe is written as a whole or discarded, or the array started again.
    pub torn_stripes: u64,
    /// Whether stripes are left that are to become others.
    pub is_reshaped: bool,
    /// Blocks that users can ask for now. A reshape adds to them with its end.
    pub capacity: u64,
    /// How many members may be missing now. A reshape adds to them with its end.
    pub redundancy: usize,
    /// Blocks whose latest content was staged, and can't be read from any member that held it: reads
    /// fail until they are written or discarded. Where each range of them begins, and how many.
    pub lost: Vec<(Lba, u64)>,
    /// Counters since the start.
    pub counters: Counters,
}

/// What makes an array take writes again that refuses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Room behind the members: what they have refused is tried again by and by.
    Room,
    /// A start.
    Start,
}

/// A spare to which a member that serves is being copied, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuccessorStatus {
    /// Whose place it is to take.
    pub member: MemberId,
    /// Which device it is.
    pub device: DeviceId,
    /// Stripes that it holds: all before this one.
    pub done: u64,
    /// Stripes in all.
    pub total: u64,
}

/// What a distributed spare is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpareUse {
    /// Nothing.
    Free,
    /// A failed member's chunks are being put on it.
    Filling(MemberId),
    /// A failed member's chunks are on it.
    StandsInFor(MemberId),
}

/// How well the array is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayHealth {
    /// All members serve, or the distributed spare stands in for the one that does not.
    Online,
    /// Members are missing or being rebuilt; the data is there.
    Degraded,
    /// More is missing than the redundancy makes up for.
    Failed,
}

/// A member's state, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its place.
    pub member: MemberId,
    /// It is a staging device: it holds nothing of any stripe.
    pub stages: bool,
    /// Its device, if there is one.
    pub device: Option<DeviceId>,
    /// The device's identity as the superblock has it.
    pub uuid: DeviceUuid,
    /// Its state.
    pub state: SlotState,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Read errors since the start, whether corrected or not.
    pub read_errors: u64,
    /// Write errors since the start.
    pub write_errors: u64,
    /// The latest of these errors.
    pub last_error: Option<IoError>,
    /// What people call its device, or the one that it had.
    pub label: DeviceLabel,
    /// It does not answer, and is waited for.
    pub hangs: bool,
    /// What went around it.
    pub avoided: Avoided,
    /// If it has failed: what its device lacks, if that is known, so that it can return. If its device has
    /// returned: what is left to be filled.
    pub missed: Option<MissedStatus>,
}

/// What a device that was away lacks at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissedStatus {
    /// In how many regions of the write-intent bitmap it may lack something.
    pub regions: u64,
    /// Of how many.
    pub of: u64,
    /// How many of its blocks these regions have, the last one counted as whole.
    pub blocks: u64,
}

/// Requests, or parts of them that lie in one stripe, that went around a busy member since the start.
/// One can have gone around several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Avoided {
    /// Reads that were served by the others.
    pub reads: u64,
    /// Writes that were staged on others.
    pub writes: u64,
}

/// A background pass, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassStatus {
    /// What it does.
    pub kind: PassKind,
    /// Stripes done.
    pub done: u64,
    /// Stripes in all.
    pub total: u64,
    /// Whether it is held.
    pub paused: bool,
    /// The first stripe that could not be done, if that is all that is left to be done, or if too many are.
    pub stuck: Option<Stripe>,
    /// How many stripes could not be done.
    pub left: u64,
    /// What a scrub has found so far.
    pub found: Mismatches,
    /// How long it has run.
    pub elapsed: Duration,
    /// How long it may still take, if it is to end by a certain time.
    pub due_in: Option<Duration>,
    /// How fast it may go now, in bytes of each member per second, if it is held back for users.
    pub held_to: Option<u64>,
    /// Stripes that were done before.
    pub from: u64,
    /// Stripes that it has read or written since: those of zeros, or in step, need nothing.
    pub worked: u64,
}

/// The staging log, for people. Numbers are of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagingStatus {
    /// Not at home yet.
    pub dirty: u64,
    /// Staged, whether home has them, too, or not.
    pub staged: u64,
    /// For how long the oldest block has been staged that is not at home.
    pub oldest: Option<Duration>,
    /// How long it takes until all is at home, as fast as it went of late when some was on its way. None if
    /// nothing has come home yet.
    pub takes: Option<Duration>,
    /// Why nothing more comes home now; none if it does, or nothing is to.
    pub waits: Option<HomeWaits>,
    /// What was staged when it was last ordered home is still on its way.
    pub hurried: bool,
    /// Copied from home, to be read when that is busy.
    pub copied: u64,
    /// In use where it is fullest.
    pub used: u64,
    /// What each member has of it.
    pub capacity: u64,
    /// Not at home yet, and in memory, too.
    pub kept: u64,
    /// Bytes of memory that the tables of what is staged and copied take.
    pub table_bytes: u64,
}

/// Why what is staged stays where it is for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HomeWaits {
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

/// What a scrub has found, in rows: a row is one block of each member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mismatches {
    /// Rows whose blocks did not agree.
    pub rows: u64,
    /// Of these, rows in which redundancy tells which blocks are wrong. In the others data (of a
    /// mirror the first copy) is believed.
    pub located: u64,
}

/// Which members serve, as the record tells that is durable on all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnRecord {
    /// How many changes of the record that takes in.
    pub events: u64,
    /// The members, without staging devices, and the identities of their devices.
    pub serving: Vec<(MemberId, DeviceUuid)>,
}

impl OnRecord {
    pub(in crate::engine) fn of(record: &ArrayRecord) -> Self {
        let serving = record.serving().map(|member| (member, record.slots[member.index()].device));
        Self { events: record.events, serving: serving.collect() }
    }
}

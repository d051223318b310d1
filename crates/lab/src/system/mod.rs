//! The systems that can be measured: arrays and single SSDs in virtual time.

mod alone;
mod array;
mod array_spec;
mod bare;
mod cached;
mod drive;
mod hosted;
mod log;
mod log_error;
mod log_spec;
mod pdb;
mod rebuild;
mod stripes;
mod users;

use std::time::Duration;

use det::Instant;
use flashsim::Ssd;

use crate::plan::SegmentTimes;
use crate::workload::Kind;

pub use alone::Alone;
pub use array::{Array, StartError};
pub use array_spec::{ArraySpec, SchemeName};
pub use cached::{CacheError, CachePolicy, Cached, CachedLevel, CachedSpec, Destaged};
pub use drive::{DriveError, DriveSpec, Use};
pub use log::Log;
pub use log_error::LogError;
pub use log_spec::{Cleaner, Gc, LogSpec};
pub use pdb::{Copies, Parity, Pdb, PdbError, PdbSpec};
pub use rebuild::{OrderName, RebuildSpec, Rebuilt};

/// A request, in blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Comes back with [`Ended`]; below [`System::depth`].
    pub tag: u16,
    /// What it does.
    pub kind: Kind,
    /// The first block.
    pub lba: u64,
    /// How many blocks.
    pub blocks: u32,
}

/// The garbage collection that was in the way of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met {
    /// Whether it had to wait for collection.
    pub collection: bool,
    /// Whether a part of it came to a die that was erasing.
    pub erase: bool,
}

impl core::ops::BitOrAssign for Met {
    fn bitor_assign(&mut self, other: Self) {
        self.collection |= other.collection;
        self.erase |= other.erase;
    }
}

/// A request has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The request's tag, which is free again.
    pub tag: u16,
    /// What was in its way.
    pub met: Met,
    /// Which side of a log array a read went to.
    pub side: Option<Side>,
}

/// The sides of a log array, as of a read's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The group that takes users' writes.
    Front,
    /// A group at the back that is not being cleaned.
    Idle,
    /// A group that is being cleaned.
    Busy,
}

/// What a log array has done, in blocks unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Logged {
    /// Written by users.
    pub written: u64,
    /// Written to the groups: data, summaries, padding, checkpoints.
    pub logged: u64,
    /// Moved by cleaners.
    pub moved: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Segments that were chosen to be cleaned.
    pub victims: u64,
    /// Their live blocks then.
    pub victims_live: u64,
    /// Blocks in a segment.
    pub segment: u32,
    /// Checkpoints.
    pub checkpoints: u64,
    /// How often users' writes had to wait for a cleaner.
    pub stalls: u64,
    /// How long they waited for cleaning, for room or as cleaning is paced.
    pub waited: Duration,
    /// The longest of these waits.
    pub longest_wait: Duration,
    /// The most that they may have to wait for at a time: segments that are freed by cleaning, and
    /// blocks that are written.
    pub turn: (u32, u64),
    /// Its SSDs' best times for a segment.
    pub times: SegmentTimes,
    /// How often another group went to the front.
    pub rotations: u64,
    /// The live share of the log now.
    pub used: f64,
    /// How many times the log's room had been written since the start when a cleaner first began.
    pub cleaned_from: Option<f64>,
}

/// A drive has begun or ended to collect garbage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcChange {
    /// When.
    pub at: Instant,
    /// Which drive.
    pub drive: usize,
    /// Whether it is collecting now.
    pub collecting: bool,
}

/// Events of a system.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Requests, in the order in which they ended.
    pub ended: Vec<Ended>,
    /// Garbage collection, in the order in which it happened.
    pub gc: Vec<GcChange>,
}

/// What an array has done about busy drives. Reads and writes are of stripes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Steered {
    /// Reads that went around them.
    pub detours: u64,
    /// Blocks that these have read beyond what was requested.
    pub detour_blocks: u64,
    /// Reads that were hedged.
    pub hedged_reads: u64,
    /// Reads that were served from copies on other members.
    pub copy_reads: u64,
    /// Blocks of which such copies were made.
    pub copied_blocks: u64,
    /// Writes that were staged on other members.
    pub staged_writes: u64,
    /// Of these, those that share the header of another.
    pub staged_together: u64,
    /// Writes that would have been staged if there had been room.
    pub refused_writes: u64,
    /// Blocks that were brought home from the staging log.
    pub reclaimed_blocks: u64,
    /// Blocks that were read from the staging log.
    pub staged_reads: u64,
    /// Blocks of it that were found in memory, and not read.
    pub kept_reads: u64,
    /// Blocks in the staging log that are not at home now.
    pub backlog: u64,
    /// The share of the staging log in use now, on the fullest member.
    pub staging_use: f64,
}

impl Steered {
    /// What two arrays have done together.
    fn plus(self, other: Self) -> Self {
        Self {
            detours: self.detours + other.detours,
            detour_blocks: self.detour_blocks + other.detour_blocks,
            hedged_reads: self.hedged_reads + other.hedged_reads,
            copy_reads: self.copy_reads + other.copy_reads,
            copied_blocks: self.copied_blocks + other.copied_blocks,
            staged_writes: self.staged_writes + other.staged_writes,
            staged_together: self.staged_together + other.staged_together,
            refused_writes: self.refused_writes + other.refused_writes,
            reclaimed_blocks: self.reclaimed_blocks + other.reclaimed_blocks,
            staged_reads: self.staged_reads + other.staged_reads,
            kept_reads: self.kept_reads + other.kept_reads,
            backlog: self.backlog + other.backlog,
            staging_use: self.staging_use.max(other.staging_use),
        }
    }
}

/// An array or an SSD, in virtual time. Time never goes back from one call to the next.
pub trait System {
    /// How many blocks of 4 KiB it has.
    fn blocks(&self) -> u64;

    /// How many requests it takes at a time.
    fn depth(&self) -> u16;

    /// Takes a request. It may end at once.
    fn submit(&mut self, now: Instant, request: Request, told: &mut Told);

    /// When [`System::poll`] is to be called next.
    fn next(&self) -> Option<Instant>;

    /// Lets everything happen up to `now`, which must not be later than [`System::next`].
    fn poll(&mut self, now: Instant, told: &mut Told);

    /// Does the same at `now` and at each moment after that, until a request has ended, the measurement is over,
    /// or nothing is left to happen before `until`. Returns the last of these moments.
    fn poll_until(&mut self, mut now: Instant, until: Instant, told: &mut Told) -> Instant {
        loop {
            self.poll(now, told);
            let goes_on = told.ended.is_empty() && !self.rebuilt().is_end;
            match self.next().filter(|&next| goes_on && next < until) {
                Some(next) => now = now.max(next),
                None => return now,
            }
        }
    }

    /// Its SSDs.
    fn ssds(&self) -> impl Iterator<Item = &Ssd>;

    /// The measurement begins: its SSDs count from zero, and planned failures happen.
    fn begin(&mut self, now: Instant, told: &mut Told);

    /// What is known of the rebuild, if there is one.
    fn rebuilt(&self) -> Rebuilt {
        Rebuilt::default()
    }

    /// The [optimal age](steering::wear::optimal_ages) of each member, if it is an array.
    fn optimal_ages(&self) -> Vec<f64> {
        Vec::new()
    }

    /// The share of free blocks from which on each drive's collection is ordered now, by drive, where the scheme
    /// goes by one.
    fn thresholds(&self) -> Vec<Option<f64>> {
        Vec::new()
    }

    /// I/Os of drives that have ended, and how many of them had to wait for garbage collection,
    /// since the start.
    fn drive_ios(&self) -> (u64, u64);

    /// What was done about busy drives since the statistics were reset.
    fn steered(&self) -> Steered;

    /// What its cache did since the statistics were reset, if it has one in memory.
    fn destaged(&self) -> Option<Destaged> {
        None
    }

    /// What its log did since the statistics were reset, if it has one.
    fn logged(&self) -> Option<Logged> {
        None
    }
}

//! The interface between host and drive.

use core::time::Duration;

use det::Instant;
use thiserror::Error;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read pages.
    Read,
    /// Write pages.
    Write,
    /// Forget pages: they hold nothing worth keeping.
    Trim,
    /// Bring everything that was acknowledged before to where it survives a power failure. It has
    /// no pages.
    Flush,
}

/// A command. Pages are of [`crate::Geometry::page_bytes`]; data, if there is any, stays with the
/// caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Comes back with the completion.
    pub tag: u64,
    /// What is to be done.
    pub op: Op,
    /// The first page.
    pub page: u32,
    /// How many pages.
    pub pages: u32,
    /// The stream of a write: its pages do not share blocks with those of other streams. Of numbers that
    /// the drive doesn't have, its last. Ignored of what is no write.
    pub stream: u16,
}

/// A command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command's tag.
    pub tag: u64,
    /// What was done.
    pub op: Op,
    /// When it ended.
    pub at: Instant,
    /// How long after it was submitted.
    pub latency: Duration,
    /// Whether it had to wait for garbage collection.
    pub delayed_by_gc: bool,
    /// Whether an operation of it came to a die that was erasing, or that waits for one that was.
    pub met_erase: bool,
}

/// A command that can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// It names pages that the drive doesn't have.
    #[error("pages {page} to {} of a drive with {logical_pages}", page + u64::from(*pages))]
    OutOfRange {
        /// The first page.
        page: u64,
        /// How many pages.
        pages: u32,
        /// How many the drive has.
        logical_pages: u32,
    },
    /// It names no page.
    #[error("a command without pages")]
    Empty,
}

/// What decides when garbage is collected. At the profile's hard limit the drive always does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GcOrder {
    /// The drive, by its thresholds.
    #[default]
    Auto,
    /// Nothing: collection stops after the page that is being moved.
    Hold,
    /// The drive until then, nothing afterwards.
    AllowUntil(Instant),
    /// Collect now, whether operations wait or not, until this share of each plane's blocks is
    /// free, then hold.
    Reach(f64),
    /// The drive, by these thresholds instead of its own.
    Thresholds(Thresholds),
    /// Besides what was ordered before: collect the dirtiest block now that is not being collected,
    /// if more than this share of its pages is invalid. Operations go before each page of it.
    Once {
        /// The share of invalid pages.
        gce: f64,
    },
}

/// When to collect, and how: Algorithm 2 of McEwan and Komsul, "Age Aware Pre-emptive Garbage
/// Collection for SSD RAID". The levels are shares of free blocks of a plane; `high` is the
/// lowest, as the priority of collection is high there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// At this level and below, operations go before each page that is moved; collection begins if
    /// it is efficient.
    pub low: f64,
    /// At this level and below it begins even if it is not.
    pub medium: f64,
    /// At this level and below operations wait for it.
    pub high: f64,
    /// It is efficient if more than this share of the victim's pages is invalid.
    pub gce: f64,
}

/// How a drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GcMode {
    /// Operations wait.
    Normal,
    /// Operations go before each page that is moved.
    PreEmptive,
    /// It does not.
    None,
}

/// How much of a drive is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Blocks of the drive.
    pub blocks: u32,
    /// Free ones.
    pub free_blocks: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Free ones of the plane that has the fewest.
    pub least_free_blocks: u32,
}

/// Whether a drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcState {
    /// Dies that collect.
    pub dies: u32,
    /// Since when at least one die collects, without a break.
    pub since: Option<Instant>,
}

//! The counters of a run.

use std::ops::AddAssign;
use std::time::Duration;

/// The counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Requests that ended without an error.
    pub requests: u64,
    /// Requests that ended with an error, as more had failed than redundancy makes up for.
    pub errors: u64,
    /// Inputs of the engine.
    pub events: u64,
    /// Operators' commands.
    pub commands: u64,
    /// Faults.
    pub faults: FaultCounts,
    /// Reads that went around busy members.
    pub detours: u64,
    /// Reads that were hedged.
    pub hedges: u64,
    /// Staged writes that others got, too, as some took long.
    pub elsewhere: u64,
    /// Writes that took long at home, and were staged as well.
    pub twins: u64,
    /// Writes that were staged with another, under its header.
    pub together: u64,
    /// Writes that were staged.
    pub staged: u64,
    /// Blocks that came home from the staging log.
    pub reclaimed: u64,
    /// Blocks that writes found in memory instead of reading them.
    pub warm: u64,
    /// Blocks that a write cache in memory has held.
    pub cached: u64,
    /// Staged blocks that were found in memory instead of being read from the log.
    pub kept: u64,
    /// Stripes that reshapes have moved.
    pub reshaped: u64,
    /// How many arrays have become larger with their members.
    pub enlarged: u64,
    /// Reads that were served from copies, as home was busy.
    pub copy_reads: u64,
    /// How often SSDs collected garbage, if the disks are SSDs.
    pub collections: u64,
    /// The simulated time.
    pub simulated: Duration,
    /// A sum over all events: only the same run has the same.
    pub digest: u64,
}

/// Faults, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// How often the power failed.
    pub crashes: u64,
    /// Disks that were lost.
    pub gone: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Blocks that could not be read, for good or for a while.
    pub unreadable: u64,
    /// Disks that stalled for a while.
    pub stalls: u64,
    /// How often a disk, or all of them, hung.
    pub hangs: u64,
    /// Disks that returned to their places, and were filled with what they had missed.
    pub returned: u64,
    /// Stripes that were corrupted silently.
    pub silent: u64,
    /// How often more failed than redundancy can make up for.
    pub beyond: u64,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.events += other.events;
        self.commands += other.commands;
        self.faults += other.faults;
        self.collections += other.collections;
        self.detours += other.detours;
        self.hedges += other.hedges;
        self.elsewhere += other.elsewhere;
        self.twins += other.twins;
        self.together += other.together;
        self.staged += other.staged;
        self.reclaimed += other.reclaimed;
        self.warm += other.warm;
        self.cached += other.cached;
        self.kept += other.kept;
        self.reshaped += other.reshaped;
        self.enlarged += other.enlarged;
        self.copy_reads += other.copy_reads;
        self.simulated += other.simulated;
        self.digest ^= other.digest;
    }
}

impl AddAssign for FaultCounts {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.gone += other.gone;
        self.write += other.write;
        self.unreadable += other.unreadable;
        self.stalls += other.stalls;
        self.hangs += other.hangs;
        self.returned += other.returned;
        self.silent += other.silent;
        self.beyond += other.beyond;
    }
}

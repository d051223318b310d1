//! Log arrays in simulated worlds: the real volume over real arrays, over disks in memory. The
//! disks distinguish cached and durable content, end I/O in any order and fail, and their power
//! fails.
//!
//! Members are lost at any moment, even if a crash has left redundancy that does not match: the
//! volume's content has to survive that, whatever the arrays' policy promises. Invariants are those
//! of the [crate]: a seed is a run, and a check that fails panics.

mod hang;
mod host;
mod phases;
#[cfg(test)]
mod regressions;
mod scenario;
mod world;

use std::ops::AddAssign;

pub use scenario::StackScenario;

use crate::log::lives::Lives;
use crate::play::{Play, Sink};
use crate::source::Source;
use world::World;

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StackSummary {
    /// Requests of users.
    pub requests: u64,
    /// Inputs of the log arrays.
    pub events: u64,
    /// How often the power failed, or the host died.
    pub crashes: u64,
    /// Members that were lost.
    pub gone: u64,
    /// Of these, those that were lost between a crash and the start.
    pub gone_with_power: u64,
    /// And those that were lost as soon as all was read after a start.
    pub gone_after_start: u64,
    /// How often a member, or all of a group, hung.
    pub hangs: u64,
    /// Members that had gone and came back, stale, while the power was off.
    pub returned: u64,
    /// Blocks that could not be read until they were written again.
    pub unreadable: u64,
    /// Operators' commands.
    pub commands: u64,
    /// Reads that went around busy members.
    pub detours: u64,
    /// Reads that were hedged.
    pub hedges: u64,
    /// Blocks that starts read to check that batches are complete.
    pub proven: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks that cleaners moved.
    pub moved: u64,
    /// How often another group went to the front.
    pub rotations: u64,
    /// A sum over all events: only the same run has the same.
    pub digest: u64,
}

impl AddAssign for StackSummary {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.events += other.events;
        self.crashes += other.crashes;
        self.gone += other.gone;
        self.gone_with_power += other.gone_with_power;
        self.gone_after_start += other.gone_after_start;
        self.hangs += other.hangs;
        self.returned += other.returned;
        self.unreadable += other.unreadable;
        self.commands += other.commands;
        self.detours += other.detours;
        self.hedges += other.hedges;
        self.proven += other.proven;
        self.checkpoints += other.checkpoints;
        self.moved += other.moved;
        self.rotations += other.rotations;
        self.digest ^= other.digest;
    }
}

impl Play for StackScenario {
    type Summary = StackSummary;

    fn play(&self, source: Source, sink: Option<Sink>) -> StackSummary {
        let mut world = World::new(source, self.clone(), sink);
        world.run();
        world.count();
        world.summary()
    }
}

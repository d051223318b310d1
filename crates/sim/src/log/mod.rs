//! Log volumes in simulated worlds: the real state machine over groups in memory. The groups
//! distinguish cached and durable content and end I/O in any order, and their power fails.
//!
//! A group stands for an array, so it loses nothing; arrays are simulated elsewhere. Invariants are
//! those of the [crate]: a seed is a run, and a check that fails panics.

mod group;
mod host;
pub(crate) mod lives;
mod phases;
pub(crate) mod scenario;
pub(crate) mod users;
mod world;

use std::ops::AddAssign;

pub use scenario::LogScenario;

use crate::play::{Play, Sink};
use crate::source::Source;
use lives::Lives;
use world::World;

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogSummary {
    /// Requests that ended without an error.
    pub requests: u64,
    /// Requests that ended with an error, as a group had failed.
    pub errors: u64,
    /// Inputs of the volume.
    pub events: u64,
    /// How often the power failed, or the host died.
    pub crashes: u64,
    /// Batches that were replayed at starts.
    pub replayed: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Blocks that cleaners moved.
    pub moved: u64,
    /// How often another group went to the front.
    pub rotations: u64,
    /// How often users waited for a cleaner.
    pub stalls: u64,
    /// A sum over all events: only the same run has the same.
    pub digest: u64,
}

impl AddAssign for LogSummary {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.events += other.events;
        self.crashes += other.crashes;
        self.replayed += other.replayed;
        self.checkpoints += other.checkpoints;
        self.cleaned += other.cleaned;
        self.moved += other.moved;
        self.rotations += other.rotations;
        self.stalls += other.stalls;
        self.digest ^= other.digest;
    }
}

impl Play for LogScenario {
    type Summary = LogSummary;

    fn play(&self, source: Source, sink: Option<Sink>) -> LogSummary {
        let mut world = World::new(source, self.clone(), sink);
        world.run();
        world.count();
        world.summary()
    }
}

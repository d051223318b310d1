//! Log volumes in simulated worlds: the real machine over groups in memory that keep what they have
//! taken apart from what is durable, whose I/O ends in any order, and whose power fails.
//!
//! A group is an array, so nothing is lost in it; what arrays are is simulated [elsewhere](crate).
//! Invariants are those of the [crate](crate): a seed is a run, and a check that fails panics.

mod group;
mod host;
pub(crate) mod lives;
mod phases;
pub(crate) mod scenario;
pub(crate) mod users;
mod world;

use std::fmt;
use std::ops::AddAssign;

pub use scenario::LogScenario;

use crate::run::{Sink, caught, lines};
use crate::source::Source;
use lives::Lives;
use world::World;

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogSummary {
    /// Requests that ended as they should.
    pub requests: u64,
    /// Requests that ended with an error, as a group had failed.
    pub errors: u64,
    /// What the volume was told.
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
    /// A sum over all that happened: the same for the same run only.
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

/// A run in which a check failed.
#[derive(Clone, Debug)]
pub struct LogFailure {
    /// Its seed.
    pub seed: u64,
    /// What it was about.
    pub scenario: LogScenario,
    /// What was found.
    pub message: String,
}

impl fmt::Display for LogFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log seed {}: {}", self.seed, self.message)
    }
}

impl std::error::Error for LogFailure {}

/// Plays a scenario as a seed has it.
///
/// # Errors
/// If a check fails.
pub fn run(seed: u64, scenario: &LogScenario) -> Result<LogSummary, Box<LogFailure>> {
    play(Source::seed(seed), scenario, None).map_err(|message| failure(seed, scenario, message))
}

/// Plays a scenario as a seed has it, and tells all that happens, line by line.
///
/// # Errors
/// If a check fails.
pub fn trace(
    seed: u64,
    scenario: &LogScenario,
    line: impl FnMut(&str) + 'static,
) -> Result<LogSummary, Box<LogFailure>> {
    let played = play(Source::seed(seed), scenario, Some(lines(line)));
    played.map_err(|message| failure(seed, scenario, message))
}

/// Plays a scenario, both of which bytes decide.
///
/// # Errors
/// What a check has found.
pub fn run_bytes(bytes: &[u8]) -> Result<LogSummary, String> {
    let mut source = Source::bytes(bytes);
    let scenario = LogScenario::choose(&mut source);
    play(source, &scenario, None)
}

fn failure(seed: u64, scenario: &LogScenario, message: String) -> Box<LogFailure> {
    Box::new(LogFailure { seed, scenario: scenario.clone(), message })
}

fn play(source: Source, scenario: &LogScenario, sink: Option<Sink>) -> Result<LogSummary, String> {
    caught(|| {
        let mut world = World::new(source, scenario.clone(), sink);
        world.run();
        world.count();
        world.summary()
    })
}

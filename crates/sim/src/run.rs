//! A run, from its seed to what came of it.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use det::Instant;

use crate::scenario::Scenario;
use crate::world::World;

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Requests that ended as they should.
    pub requests: u64,
    /// What the engine was told.
    pub events: u64,
    /// How often the power failed.
    pub crashes: u64,
    /// Disks that went.
    pub disks_gone: u64,
    /// Writes and flushes that failed.
    pub failed_writes: u64,
    /// Blocks that became unreadable.
    pub bad_blocks: u64,
    /// What operators asked for.
    pub commands: u64,
    /// How long it was for the array.
    pub simulated: Duration,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.events += other.events;
        self.crashes += other.crashes;
        self.disks_gone += other.disks_gone;
        self.failed_writes += other.failed_writes;
        self.bad_blocks += other.bad_blocks;
        self.commands += other.commands;
        self.simulated += other.simulated;
    }
}

/// A run in which a check failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What it was about.
    pub scenario: Scenario,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}\n{:?}", self.seed, self.message, self.scenario)
    }
}

impl std::error::Error for Failure {}

/// Who is told what happens, and when.
pub(crate) type Sink = Rc<dyn Fn(Instant, fmt::Arguments<'_>)>;

/// Plays a seed.
///
/// # Errors
/// If a check fails.
pub fn run(seed: u64, scenario: &Scenario) -> Result<Summary, Box<Failure>> {
    play(seed, scenario, None)
}

/// Plays a seed, and tells all that happens, line by line.
///
/// # Errors
/// If a check fails.
pub fn trace(
    seed: u64,
    scenario: &Scenario,
    mut line: impl FnMut(&str) + 'static,
) -> Result<Summary, Box<Failure>> {
    let told = RefCell::new(move |at: Instant, what: fmt::Arguments<'_>| {
        line(&format!("{at:?} {what}"));
    });
    play(seed, scenario, Some(Rc::new(move |at, what| told.borrow_mut()(at, what))))
}

fn play(seed: u64, scenario: &Scenario, sink: Option<Sink>) -> Result<Summary, Box<Failure>> {
    let play = || {
        let mut world = World::new(seed, scenario.clone(), sink);
        world.run();
        world.summary()
    };
    catch_unwind(AssertUnwindSafe(play)).map_err(|panic| {
        let (scenario, message) = (scenario.clone(), message_of(&*panic));
        Box::new(Failure { seed, scenario, message })
    })
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

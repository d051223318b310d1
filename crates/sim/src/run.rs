//! A run, from its seed to what came of it.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use det::Instant;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::scenario::Scenario;
use crate::source::Source;
use crate::world::World;

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Requests that ended as they should.
    pub requests: u64,
    /// Requests that ended with an error, as more had failed than redundancy makes up for.
    pub errors: u64,
    /// What the engine was told.
    pub events: u64,
    /// What operators asked for.
    pub commands: u64,
    /// What went wrong.
    pub faults: FaultCounts,
    /// Reads that went around members that were said to be busy.
    pub detours: u64,
    /// Reads that were tried another way, too.
    pub hedges: u64,
    /// Writes that were staged.
    pub staged: u64,
    /// Blocks that came home from the staging log.
    pub reclaimed: u64,
    /// Reads that were served from copies, as home was busy.
    pub copy_reads: u64,
    /// How often SSDs collected garbage, where the disks were such.
    pub collections: u64,
    /// How long it was for the array.
    pub simulated: Duration,
    /// A sum over all that happened: the same for the same run only.
    pub digest: u64,
}

/// What went wrong, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// How often the power failed.
    pub crashes: u64,
    /// Disks that went.
    pub gone: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Blocks that could not be read, for good or for a while.
    pub unreadable: u64,
    /// Disks that took no notice of anything for a while.
    pub stalls: u64,
    /// How often a disk, or all, did not answer for so long that they were said to hang.
    pub hangs: u64,
    /// Disks that came back into their places, and were filled with what they had missed.
    pub returned: u64,
    /// Stripes that were changed without a word.
    pub silent: u64,
    /// How often more failed than redundancy makes up for.
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
        self.staged += other.staged;
        self.reclaimed += other.reclaimed;
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

/// What a run is about, and can be played.
pub trait Playable: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Play {
    /// What its seeds are called in messages.
    const NAME: &'static str;

    /// What makes the choices of a seed's scenario others than those of its run.
    const SALT: u64;

    /// What a seed is about.
    #[must_use]
    fn draw(seed: u64) -> Self {
        Self::choose(&mut Source::seed(seed ^ Self::SALT))
    }

    /// What a source chooses.
    #[must_use]
    fn choose(source: &mut Source) -> Self;

    /// What is a little simpler, the boldest steps first.
    #[must_use]
    fn simpler(&self) -> Vec<Self>;
}

/// How a run goes; see [`Playable`].
pub trait Play {
    /// What happened in it.
    type Summary: AddAssign + Default + Copy + PartialEq + fmt::Debug + Send;

    /// All of it. A check that fails panics.
    fn play(&self, source: Source, sink: Option<Sink>) -> Self::Summary;
}

/// A run in which a check failed.
#[derive(Clone, Debug)]
pub struct Failure<S = Scenario> {
    /// Its seed.
    pub seed: u64,
    /// What it was about.
    pub scenario: S,
    /// What was found.
    pub message: String,
}

impl<S: Playable> fmt::Display for Failure<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", S::NAME, self.seed, self.message)
    }
}

impl<S: Playable> std::error::Error for Failure<S> {}

/// Who is told what happens, and when.
pub type Sink = Rc<dyn Fn(Instant, fmt::Arguments<'_>)>;

/// Plays a scenario as a seed has it.
///
/// # Errors
/// If a check fails.
pub fn run<S: Playable>(seed: u64, scenario: &S) -> Result<S::Summary, Box<Failure<S>>> {
    caught(|| scenario.play(Source::seed(seed), None)).map_err(failure(seed, scenario))
}

/// Plays a scenario as a seed has it, and tells all that happens, line by line.
///
/// # Errors
/// If a check fails.
pub fn trace<S: Playable>(
    seed: u64,
    scenario: &S,
    line: impl FnMut(&str) + 'static,
) -> Result<S::Summary, Box<Failure<S>>> {
    let sink = Some(lines(line));
    caught(|| scenario.play(Source::seed(seed), sink)).map_err(failure(seed, scenario))
}

/// Plays a scenario, both of which bytes decide.
///
/// # Errors
/// What a check has found.
pub fn run_bytes<S: Playable>(bytes: &[u8]) -> Result<S::Summary, String> {
    let mut source = Source::bytes(bytes);
    let scenario = S::choose(&mut source);
    caught(|| scenario.play(source, None))
}

fn failure<S: Playable>(seed: u64, scenario: &S) -> impl FnOnce(String) -> Box<Failure<S>> {
    move |message| Box::new(Failure { seed, scenario: scenario.clone(), message })
}

impl Play for Scenario {
    type Summary = Summary;

    fn play(&self, source: Source, sink: Option<Sink>) -> Summary {
        let mut world = World::new(source, self.clone(), sink);
        world.run();
        world.summary()
    }
}

/// Tells all that happens line by line.
fn lines(mut line: impl FnMut(&str) + 'static) -> Sink {
    let told = RefCell::new(move |at: Instant, what: fmt::Arguments<'_>| {
        line(&format!("{at:?} {what}"));
    });
    Rc::new(move |at, what| told.borrow_mut()(at, what))
}

/// What a run comes to, or what a check has found.
fn caught<T>(play: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(play)).map_err(|panic| message_of(&*panic))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

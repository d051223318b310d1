//! Runs a seed.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use det::Instant;

use crate::play::{Play, Playable, Sink};
use crate::scenario::Scenario;
use crate::source::Source;
use crate::summary::Summary;
use crate::world::World;

/// A run in which a check failed.
#[derive(Clone, Debug)]
pub struct Failure<S = Scenario> {
    /// Its seed.
    pub seed: u64,
    /// Its scenario.
    pub scenario: S,
    /// The failed check.
    pub message: String,
}

impl<S: Playable> fmt::Display for Failure<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", S::NAME, self.seed, self.message)
    }
}

impl<S: Playable> std::error::Error for Failure<S> {}

/// Plays a scenario with a seed.
///
/// # Errors
/// If a check fails.
pub fn run<S: Playable>(seed: u64, scenario: &S) -> Result<S::Summary, Box<Failure<S>>> {
    caught(|| scenario.play(Source::seed(seed), None)).map_err(failure(seed, scenario))
}

/// Plays a scenario with a seed, and reports all events, line by line.
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

/// Plays a scenario; bytes decide the scenario and the run.
///
/// # Errors
/// The failed check.
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

/// Reports events line by line.
fn lines(mut line: impl FnMut(&str) + 'static) -> Sink {
    let told = RefCell::new(move |at: Instant, what: fmt::Arguments<'_>| {
        line(&format!("{at:?} {what}"));
    });
    Rc::new(move |at, what| told.borrow_mut()(at, what))
}

/// The result of a run, or the failed check.
fn caught<T>(play: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(play)).map_err(|panic| message_of(&*panic))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

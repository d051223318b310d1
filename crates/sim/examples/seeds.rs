//! Plays seeds until one fails: `cargo run -p sim --example seeds FROM..TO`, or tells what happens in
//! one: `seeds SEED`. With `log` before it, worlds of log volumes instead of arrays, with `stack` log
//! volumes over arrays. The little sister of `evenkeel simulate`, for who works on the engine.

use std::fmt::{Debug, Display};
use std::ops::{AddAssign, Range};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sim::log::LogScenario;
use sim::stack::StackScenario;
use sim::{Scenario, log, stack};

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let kind = words.first().filter(|word| ["log", "stack"].contains(&word.as_str())).cloned();
    if kind.is_some() {
        words.remove(0);
    }
    let line = |line: &str| println!("{line}");
    match (
        kind.as_deref(),
        words.first().and_then(|word| word.parse().ok()),
        words.first().and_then(|word| range(word)),
    ) {
        (Some("log"), Some(seed), _) => ended(log::trace(seed, &LogScenario::draw(seed), line)),
        (Some(_), Some(seed), _) => ended(stack::trace(seed, &StackScenario::draw(seed), line)),
        (None, Some(seed), _) => ended(sim::trace(seed, &Scenario::draw(seed), line)),
        (Some("log"), None, Some(seeds)) => {
            play(seeds, |seed| log::run(seed, &LogScenario::draw(seed)), |f| format!("{f:?}"))
        }
        (Some(_), None, Some(seeds)) => {
            play(seeds, |seed| stack::run(seed, &StackScenario::draw(seed)), |f| format!("{f:?}"))
        }
        (None, None, Some(seeds)) => {
            play(seeds, |seed| sim::run(seed, &Scenario::draw(seed)), |f| format!("{f:?}"))
        }
        (_, None, None) => {
            eprintln!("usage: seeds [log | stack] FROM..TO | seeds [log | stack] SEED");
            ExitCode::FAILURE
        }
    }
}

fn range(word: &str) -> Option<Range<u64>> {
    let (from, to) = word.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

fn ended<S, F: Display>(end: Result<S, F>) -> ExitCode {
    if let Err(failure) = &end {
        println!("{failure}");
    }
    ExitCode::from(u8::from(end.is_err()))
}

/// Plays seeds on all cores.
fn play<S: Default + AddAssign + Debug + Send, F: Display>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<S, F> + Sync,
    detail: impl Fn(&F) -> String + Sync,
) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let total = Mutex::new(S::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match run(seed) {
                        Ok(summary) => *total.lock().expect("nobody panics") += summary,
                        Err(failure) => {
                            println!("{failure}\n{}", detail(&failure));
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    println!("{:?}", total.into_inner());
    ExitCode::from(u8::from(failed.into_inner()))
}

//! Plays seeds until one fails: `cargo run -p sim --example seeds FROM..TO`. Or prints the events
//! of one seed: `seeds SEED`. With `log` before it, the worlds are log volumes instead of arrays,
//! with `stack` log volumes over arrays, with `pairs` arrays of RAID10, with `reshape` arrays that become
//! others (not every seed is one), with `volatile` arrays behind a write cache in memory, with `lease` two
//! hosts that both want an array. It is a smaller `evenkeel simulate`, for work on the engine.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sim::lease::LeaseScenario;
use sim::log::LogScenario;
use sim::stack::StackScenario;
use sim::{Playable, Scenario, run, trace};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["log", seeds] => play(seeds, |seed| Some(LogScenario::draw(seed))),
        ["stack", seeds] => play(seeds, |seed| Some(StackScenario::draw(seed))),
        ["lease", seeds] => play(seeds, |seed| Some(LeaseScenario::draw(seed))),
        ["volatile", seeds] => play(seeds, |seed| Some(Scenario::draw(seed).cached(seed))),
        ["pairs", seeds] => play(seeds, |seed| Some(Scenario::draw(seed).paired(seed))),
        ["reshape", seeds] => play(seeds, |seed| Scenario::draw(seed).reshaped(seed)),
        [seeds] => play(seeds, |seed| Some(Scenario::draw(seed))),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: seeds [log | stack | pairs | reshape | volatile | lease] FROM..TO (or SEED)");
    ExitCode::FAILURE
}

fn play<S: Playable>(seeds: &str, draw: fn(u64) -> Option<S>) -> ExitCode {
    if let Ok(seed) = seeds.parse() {
        let Some(scenario) = draw(seed) else { return usage() };
        let end = trace(seed, &scenario, |line| println!("{line}"));
        if let Err(failure) = &end {
            println!("{failure}");
        }
        return ExitCode::from(u8::from(end.is_err()));
    }
    range(seeds).map_or_else(usage, |seeds| play_all(seeds, draw))
}

fn range(word: &str) -> Option<Range<u64>> {
    let (from, to) = word.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

/// Plays seeds on all cores.
fn play_all<S: Playable>(seeds: Range<u64>, draw: fn(u64) -> Option<S>) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let total = Mutex::new(S::Summary::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let Some(scenario) = draw(seed) else { continue };
                    match run(seed, &scenario) {
                        Ok(summary) => *total.lock().expect("nobody panics") += summary,
                        Err(failure) => {
                            println!("{failure}\n{failure:?}");
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

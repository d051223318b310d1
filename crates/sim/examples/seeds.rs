//! Plays seeds until one fails: `cargo run -p sim --example seeds FROM..TO`, or tells what happens in
//! one: `seeds SEED`. The little sister of `evenkeel simulate`, for who works on the engine.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sim::{Scenario, Summary, run, trace};

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    if let Some(seed) = asked.as_deref().and_then(|seed| seed.parse().ok()) {
        let end = trace(seed, &Scenario::draw(seed), |line| println!("{line}"));
        return ExitCode::from(u8::from(end.is_err()));
    }
    let range = asked.as_deref().and_then(|range| range.split_once(".."));
    let numbers = range.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let Some((from, to)): Option<(u64, u64)> = numbers else {
        eprintln!("usage: seeds FROM..TO | seeds SEED");
        return ExitCode::FAILURE;
    };
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failed) = (AtomicU64::new(from), AtomicBool::new(false));
    let total = Mutex::new(Summary::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to {
                        return;
                    }
                    match run(seed, &Scenario::draw(seed)) {
                        Ok(summary) => *total.lock().expect("nobody panics") += summary,
                        Err(failure) => {
                            println!("{failure}\n{:?}", failure.scenario);
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

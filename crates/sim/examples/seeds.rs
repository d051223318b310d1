//! Plays seeds until one fails: `cargo run -p sim --example seeds FROM..TO`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sim::{Scenario, run};

fn main() -> ExitCode {
    let range = std::env::args().nth(1);
    let range = range.as_deref().and_then(|range| range.split_once(".."));
    let numbers = range.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let Some((from, to)): Option<(u64, u64)> = numbers else {
        eprintln!("usage: seeds FROM..TO");
        return ExitCode::FAILURE;
    };
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failed) = (AtomicU64::new(from), AtomicBool::new(false));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to {
                        return;
                    }
                    if let Err(failure) = run(seed, &Scenario::draw(seed)) {
                        println!("{failure}");
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    ExitCode::from(u8::from(failed.into_inner()))
}

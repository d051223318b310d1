//! `evenkeel simulate`: arrays in simulated worlds, as many as one likes.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::json;
use sim::{Failure, Scenario, Summary, run, trace};

use crate::args::SimulateArgs;
use crate::output::{Output, print};

/// Seeds that a core takes at a time.
const BATCH: u64 = 16;

pub(crate) fn simulate(args: &SimulateArgs, output: Output) -> Result<ExitCode> {
    if args.trace {
        return tell(args.seed, output);
    }
    // What a check says is in the failure; the backtrace of each would only be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let bar = if output.is_json() { ProgressBar::hidden() } else { ProgressBar::new(args.seeds) };
    let style = "{bar:32} {pos}/{len} seeds, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?.progress_chars("=> "));
    let (total, failures) = play(args, begun, &bar);
    let _ = std::panic::take_hook();
    bar.finish_and_clear();
    report(&total, &failures, begun.elapsed(), output);
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays seeds on all cores until there are no more, time is up or one has failed.
fn play(args: &SimulateArgs, begun: Instant, bar: &ProgressBar) -> (Total, Vec<Failure>) {
    let limit = args.time.map(Duration::from_secs);
    let total = Mutex::new(Total::default());
    let (failures, failed) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let batches = 0..args.seeds.div_ceil(BATCH);
    batches.into_par_iter().for_each(|batch| {
        let from = batch * BATCH;
        for seed in from..(from + BATCH).min(args.seeds) {
            let late = limit.is_some_and(|limit| begun.elapsed() >= limit);
            if late || failed.load(Ordering::Relaxed) > 0 {
                return;
            }
            let seed = args.seed.wrapping_add(seed);
            match run(seed, &Scenario::draw(seed)) {
                Ok(summary) => lock(&total).add(summary),
                Err(failure) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    lock(&failures).push(*failure);
                }
            }
            bar.inc(1);
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    (total.into_inner().unwrap_or_default(), failures)
}

/// All runs together.
#[derive(Clone, Copy, Default)]
struct Total {
    seeds: u64,
    summary: Summary,
}

impl Total {
    fn add(&mut self, summary: Summary) {
        self.seeds += 1;
        self.summary += summary;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn report(total: &Total, failures: &[Failure], took: Duration, output: Output) {
    let Total { seeds, summary: s } = *total;
    let rate = seeds as f64 / took.as_secs_f64();
    let failed: Vec<_> = failures
        .iter()
        .map(|f| {
            let scenario = format!("{:?}", f.scenario);
            json!({ "seed": f.seed, "message": f.message, "scenario": scenario })
        })
        .collect();
    let value = json!({
        "seeds": seeds,
        "seeds_per_second": rate,
        "seconds": took.as_secs_f64(),
        "simulated_seconds": s.simulated.as_secs(),
        "requests": s.requests,
        "events": s.events,
        "crashes": s.crashes,
        "disks_gone": s.disks_gone,
        "failed_writes": s.failed_writes,
        "bad_blocks": s.bad_blocks,
        "commands": s.commands,
        "failures": failed,
    });
    output.result(&value, || {
        let mut text = format!(
            "{seeds} seeds in {:.1} s ({rate:.0} a second): {} requests, {} events, {} simulated \
             hours\n  the power failed {} times, {} disks went, {} writes failed, {} blocks went \
             bad, {} commands",
            took.as_secs_f64(),
            s.requests,
            s.events,
            s.simulated.as_secs() / 3600,
            s.crashes,
            s.disks_gone,
            s.failed_writes,
            s.bad_blocks,
            s.commands,
        );
        for failure in failures {
            text += &format!(
                "\n\nFAILED {failure}\n  see it happen: evenkeel simulate --seed {} --trace",
                failure.seed
            );
        }
        if failures.is_empty() {
            text += "\n\nNo acknowledged write was lost.";
        }
        text
    });
}

/// One seed, line by line.
fn tell(seed: u64, output: Output) -> Result<ExitCode> {
    match trace(seed, &Scenario::draw(seed), print) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            output.error(&anyhow::anyhow!("{failure}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

//! `evenkeel simulate`: arrays in simulated worlds, as many as one likes.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::json;
use sim::{Failure, FaultCounts, Scenario, Summary, run, trace};

use crate::args::SimulateArgs;
use crate::output::{Output, print};

/// Seeds that a core takes at a time.
const BATCH: u64 = 16;

pub(crate) fn simulate(args: &SimulateArgs, output: Output) -> Result<ExitCode> {
    let given = args.scenario.as_deref().map(parse).transpose()?;
    if args.trace {
        let scenario = given.unwrap_or_else(|| Scenario::draw(args.seed));
        return tell(args.seed, &scenario, output);
    }
    // What a check says is in the failure; the backtrace of each would only be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let bar = if output.is_json() { ProgressBar::hidden() } else { ProgressBar::new(args.seeds) };
    let style = "{bar:32} {pos}/{len} seeds, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?.progress_chars("=> "));
    let (total, failure) = play(args, given.as_ref(), begun, &bar);
    let took = begun.elapsed();
    bar.finish_and_clear();
    // What is told of a failure is easier to understand the smaller it is.
    let failure = failure.map(|failure| (failure.clone().shrunk(), failure));
    let _ = std::panic::take_hook();
    report(&total, failure.as_ref(), took, output)?;
    Ok(if failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(json: &str) -> Result<Scenario> {
    serde_json::from_str(json).context("--scenario takes what a failed simulation has printed")
}

/// Plays seeds on all cores until there are no more, time is up or one has failed.
fn play(
    args: &SimulateArgs,
    given: Option<&Scenario>,
    begun: Instant,
    bar: &ProgressBar,
) -> (Total, Option<Failure>) {
    let limit = args.time.map(Duration::from_secs);
    let total = Mutex::new(Total::default());
    let (first, failed) = (Mutex::new(None), AtomicBool::new(false));
    let batches = 0..args.seeds.div_ceil(BATCH);
    batches.into_par_iter().for_each(|batch| {
        let from = batch * BATCH;
        for seed in from..(from + BATCH).min(args.seeds) {
            let late = limit.is_some_and(|limit| begun.elapsed() >= limit);
            if late || failed.load(Ordering::Relaxed) {
                return;
            }
            let seed = args.seed.wrapping_add(seed);
            let scenario = given.cloned().unwrap_or_else(|| Scenario::draw(seed));
            match run(seed, &scenario) {
                Ok(summary) => lock(&total).add(summary),
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    lock(&first).get_or_insert(*failure);
                }
            }
            bar.inc(1);
        }
    });
    (total.into_inner().unwrap_or_default(), first.into_inner().unwrap_or_default())
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

fn report(
    total: &Total,
    failure: Option<&(Failure, Failure)>,
    took: Duration,
    output: Output,
) -> Result<()> {
    let Total { seeds, summary: s } = *total;
    let FaultCounts { crashes, gone, write, unreadable, stalls, hangs, silent, beyond } = s.faults;
    let rate = seeds as f64 / took.as_secs_f64();
    let failed =
        |f: &Failure| json!({ "seed": f.seed, "found": f.message, "scenario": f.scenario });
    let value = json!({
        "seeds": seeds,
        "seeds_per_second": rate,
        "seconds": took.as_secs_f64(),
        "simulated_seconds": s.simulated.as_secs(),
        "requests": s.requests,
        "refused_requests": s.errors,
        "garbage_collections": s.collections,
        "detours": s.detours,
        "staged_writes": s.staged,
        "reclaimed_blocks": s.reclaimed,
        "events": s.events,
        "commands": s.commands,
        "faults": {
            "power_failures": crashes,
            "disks_gone": gone,
            "failed_writes": write,
            "unreadable_blocks": unreadable,
            "stalls": stalls,
            "hangs": hangs,
            "silent_corruptions": silent,
            "beyond_redundancy": beyond,
        },
        "failure": failure.map(|(_, first)| failed(first)),
        "shrunk": failure.map(|(shrunk, _)| failed(shrunk)),
    });
    let scenario =
        failure.map(|(shrunk, _)| serde_json::to_string(&shrunk.scenario)).transpose()?;
    output.result(&value, || {
        let mut text = format!(
            "{seeds} seeds in {:.1} s ({rate:.0} a second): {} requests, {} events, {} simulated \
             hours\n  the power failed {crashes} times, {gone} disks went, {write} writes failed, \
             {unreadable} blocks could not be read,\n  {stalls} disks stalled, {hangs} times one or all hung, {silent} stripes \
             changed without a word, {beyond} times more failed than can be borne,\n  {} commands \
             were given, {} requests ended with an error as they had to,\n  SSDs collected garbage \
             {} times, {} reads went around members that were said to be busy, {} writes were \
             staged\n  and {} blocks brought home",
            took.as_secs_f64(),
            s.requests,
            s.events,
            s.simulated.as_secs() / 3600,
            s.commands,
            s.errors,
            s.collections,
            s.detours,
            s.staged,
            s.reclaimed,
        );
        match (failure, scenario) {
            (Some((shrunk, first)), Some(scenario)) => {
                text += &format!(
                    "\n\nFAILED {first}\n\nThe same in small: {shrunk}\n  see it happen: evenkeel \
                     simulate --trace --seed {} --scenario '{scenario}'",
                    shrunk.seed
                );
            }
            _ => text += "\n\nNo acknowledged write was lost.",
        }
        text
    });
    Ok(())
}

/// One seed, line by line.
fn tell(seed: u64, scenario: &Scenario, output: Output) -> Result<ExitCode> {
    match trace(seed, scenario, print) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            output.error(&anyhow::anyhow!("{failure}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

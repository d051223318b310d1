//! `evenkeel simulate`: arrays and log volumes in simulated worlds.

mod happened;

use std::ops::AddAssign;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use evenkeel_client::Refusal;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::error::Category;
use serde_json::{Value, json};
use sim::log::LogScenario;
use sim::stack::StackScenario;
use sim::{Failure, Playable, Scenario, run, trace};

use crate::args::{SimulateArgs, SimulatedWorld};
use crate::output::Output;
use happened::Happened;

/// Seeds that a core takes at a time.
const BATCH: u64 = 16;

pub(crate) fn simulate(args: &SimulateArgs, output: Output) -> Result<ExitCode> {
    match args.world {
        SimulatedWorld::Array => simulate_all::<Scenario>(args, output),
        SimulatedWorld::Log => simulate_all::<LogScenario>(args, output),
        SimulatedWorld::Stack => simulate_all::<StackScenario>(args, output),
    }
}

fn simulate_all<S: Playable + Sync + Send>(args: &SimulateArgs, output: Output) -> Result<ExitCode>
where
    S::Summary: Happened,
{
    let given = args.scenario.as_deref().map(parse::<S>).transpose()?;
    if args.trace {
        let scenario = given.unwrap_or_else(|| S::draw(args.seed));
        return tell(args.seed, &scenario, output);
    }
    // The failure has the check's message; backtraces would only be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let bar = if output.is_json() { ProgressBar::hidden() } else { ProgressBar::new(args.seeds) };
    let style = "{bar:32} {pos}/{len} seeds, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?.progress_chars("=> "));
    let (total, failure) = play(args, given.as_ref(), begun, &bar);
    let took = begun.elapsed();
    bar.finish_and_clear();
    // A smaller failure is easier to understand.
    let failure = failure.map(|failure| (failure.clone().shrunk(), failure));
    let _ = std::panic::take_hook();
    report(args, &total, failure.as_ref(), took, output)?;
    Ok(if failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse<S: Playable>(json: &str) -> Result<S, Refusal> {
    serde_json::from_str(json).map_err(|error| {
        let why = match error.classify() {
            Category::Data => format!("this fits none of that world's: {error}"),
            Category::Io | Category::Syntax | Category::Eof => "this is no JSON".to_owned(),
        };
        let hint = "scenarios have no names: each seed draws its own, as in `evenkeel simulate --trace \
                    --seed 7`";
        Refusal {
            code: "bad-scenario".to_owned(),
            message: format!(
                "--scenario takes the JSON that a failed simulation of the same --world has printed; \
                 {why}"
            ),
            hint: Some(hint.to_owned()),
        }
    })
}

/// Plays seeds on all cores until there are no more, time is up or one has failed.
fn play<S: Playable + Sync + Send>(
    args: &SimulateArgs,
    given: Option<&S>,
    begun: Instant,
    bar: &ProgressBar,
) -> (Total<S::Summary>, Option<Failure<S>>) {
    let limit = args.time;
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
            let scenario = given.cloned().unwrap_or_else(|| S::draw(seed));
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

/// The sum of all runs.
#[derive(Clone, Copy, Default)]
struct Total<T> {
    seeds: u64,
    summary: T,
}

impl<T: AddAssign> Total<T> {
    fn add(&mut self, summary: T) {
        self.seeds += 1;
        self.summary += summary;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn report<S: Playable>(
    args: &SimulateArgs,
    total: &Total<S::Summary>,
    failure: Option<&(Failure<S>, Failure<S>)>,
    took: Duration,
    output: Output,
) -> Result<()>
where
    S::Summary: Happened,
{
    let Total { seeds, summary } = total;
    let rate = *seeds as f64 / took.as_secs_f64();
    let failed =
        |f: &Failure<S>| json!({ "seed": f.seed, "found": f.message, "scenario": f.scenario });
    let mut value = json!({
        "seeds": seeds,
        "seeds_per_second": rate,
        "seconds": took.as_secs_f64(),
        "failure": failure.map(|(_, first)| failed(first)),
        "shrunk": failure.map(|(shrunk, _)| failed(shrunk)),
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut value, summary.json()) {
        all.extend(more);
    }
    let scenario =
        failure.map(|(shrunk, _)| serde_json::to_string(&shrunk.scenario)).transpose()?;
    let world = match args.world {
        SimulatedWorld::Array => "",
        SimulatedWorld::Log => " --world log",
        SimulatedWorld::Stack => " --world stack",
    };
    output.result(&value, || {
        let mut text = format!(
            "{seeds} seeds in {:.1} s ({rate:.0} a second): {}",
            took.as_secs_f64(),
            summary.text()
        );
        match (failure, scenario) {
            (Some((shrunk, first)), Some(scenario)) => {
                text += &format!(
                    "\n\nFAILED {first}\n\nThe same in small: {shrunk}\n  see it happen: evenkeel \
                     simulate{world} --trace --seed {} --scenario '{scenario}'",
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
fn tell<S: Playable>(seed: u64, scenario: &S, output: Output) -> Result<ExitCode> {
    let line = move |line: &str| output.result(&json!({ "line": line }), || line.to_owned());
    match trace(seed, scenario, line) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            output.error(&anyhow::anyhow!("{failure}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

//! `evenkeel iostat`: what arrays and their members are asked for, and how long it takes. Arrays only
//! count; rates are differences of two readings.

pub(crate) mod rates;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use evenkeel_client::paths::shown;
use evenkeel_client::{ArrayReport, ClientError, running};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;

use super::ask;
use crate::args::IostatArgs;
use crate::output::{Output, refusal_of};
use rates::Interval;

/// The I/O of arrays in an interval; or why it is not known.
type Told = Vec<(String, Result<Interval>)>;

pub(crate) fn iostat(args: &IostatArgs, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let mut readings = BTreeMap::new();
    let Some(interval) = args.interval else {
        return Ok(tell(args, &read(args, run_dir, &mut readings)?, output));
    };
    read(args, run_dir, &mut readings)?;
    let mut next = Instant::now();
    let mut code = ExitCode::SUCCESS;
    for number in 0.. {
        if args.count.is_some_and(|count| number >= count) {
            break;
        }
        next += interval;
        if !wait_until(next)? {
            break;
        }
        let told = read(args, run_dir, &mut readings)?;
        if number > 0 && !output.is_json() {
            println!();
        }
        code = tell(args, &told, output);
    }
    Ok(code)
}

/// Reads all counters. `readings` are the last ones, by array; they are replaced.
fn read(
    args: &IostatArgs,
    run_dir: &Path,
    readings: &mut BTreeMap<String, ArrayReport>,
) -> Result<Told> {
    let names = match &args.array[..] {
        [] => running(run_dir).with_context(|| shown(run_dir).to_string())?,
        names => names.to_vec(),
    };
    let reports = ask::reports(&names, run_dir, args.timeout);
    let told = names.into_iter().zip(reports).map(|(name, report)| {
        let interval = report.map_err(ClientError::into).and_then(|report| {
            let interval = Interval::between(readings.get(&name), &report);
            readings.insert(name.clone(), report);
            interval.ok_or_else(|| too_old(&name))
        });
        (name, interval)
    });
    Ok(told.collect())
}

fn too_old(name: &str) -> Error {
    anyhow::anyhow!(
        "the array \"{name}\" is run by an older release, which does not count this: `evenkeel restart \
         {name}`"
    )
}

fn tell(args: &IostatArgs, told: &Told, output: Output) -> ExitCode {
    let values = told.iter().map(|(name, interval)| match interval {
        Ok(interval) => interval.value(),
        Err(error) => json!({ "name": name, "error": refusal_of(error) }),
    });
    output.result(&json!({ "arrays": values.collect::<Vec<_>>() }), || {
        let known: Vec<&Interval> =
            told.iter().filter_map(|(_, told)| told.as_ref().ok()).collect();
        let mut texts = Vec::new();
        if !known.is_empty() {
            texts.push(text::rates(&known));
        }
        for (name, error) in
            told.iter().filter_map(|(name, told)| Some((name, told.as_ref().err()?)))
        {
            texts.push(format!("{name}: {}", refusal_of(error).message));
        }
        if args.histogram {
            let histograms = known.iter().map(|interval| text::histograms(interval));
            texts
                .extend(histograms.filter(|text| !text.is_empty()).map(|text| format!("\n{text}")));
        }
        if texts.is_empty() { "no array is running".to_owned() } else { texts.join("\n") }
    });
    let all_answer = told.iter().all(|(_, interval)| interval.is_ok());
    if all_answer { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Waits until then; not if the output is closed, as by `evenkeel iostat 1 | head`.
fn wait_until(then: Instant) -> Result<bool> {
    let stdout = std::io::stdout();
    loop {
        let left = then.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Ok(true);
        }
        // Errors and hangups are told without being asked for.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

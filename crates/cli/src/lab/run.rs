//! `evenkeel lab run`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use evenkeel_client::paths::shown;
use evenkeel_client::paths::to_text;
use flashsim::Profile;
use indicatif::{ProgressBar, ProgressStyle};
use lab::experiment::{Experiment, Task};
use lab::judge::judge;
use lab::results::{COLUMNS, Record, groups};
use lab::run::RunEnd;
use lab::sweep::{Progress, Share, sweep};
use lab::system::DriveSpec;
use serde_json::json;

use super::out::default_out;
use super::{check, validate, values};
use crate::args::{Part, RunArgs};
use crate::output::Output;
use crate::table::Table;

/// The interval between updates of the bar.
const TICK: Duration = Duration::from_millis(100);

pub(super) fn run(args: &RunArgs, output: Output) -> Result<ExitCode> {
    let experiment = match Task::load(&args.experiment)? {
        Task::Experiment(experiment) => experiment,
        Task::Validation(validation) => return validate::validate(&validation, output),
    };
    let out = args.out.clone().unwrap_or_else(|| default_out(&args.experiment, args.shard));
    if args.fresh && out.exists() {
        std::fs::remove_file(&out).with_context(|| shown(&out).to_string())?;
    }
    let Part { part, of } = args.shard;
    let share = Share { part: part - 1, of, threads: args.threads };
    let begun = Instant::now();
    let progress = Progress::default();
    let records = watched(&progress, output, || sweep(&experiment, &out, share, &progress))??;
    let took = begun.elapsed();
    let requests = progress.requests.load(Ordering::Relaxed);
    let rate = requests as f64 / took.as_secs_f64();
    // Expectations can't be judged by a part of the results.
    let judgements = if of == 1 { judge(&experiment, &records)? } else { Vec::new() };
    let value = json!({
        "experiment": experiment.title,
        "results": to_text(&out),
        "shards": records.len(),
        "simulated_requests": requests,
        "seconds": took.as_secs_f64(),
        "requests_per_second": rate,
        "expectations": check::json(&judgements),
        "notes": notes(&experiment),
    });
    output.result(&value, || {
        let mut text = summary(&experiment, &records, args.full);
        if !judgements.is_empty() {
            text = format!("{text}\n\n{}", check::text(&judgements, args.full));
        }
        let ran = match requests {
            0 => "nothing was left to run".to_owned(),
            _ => format!(
                "{requests} requests in {:.1} s: {rate:.0} a second on {} cores",
                took.as_secs_f64(),
                cores(args.threads),
            ),
        };
        format!(
            "{text}\n\n{} results in {}; {ran}.\nTo see them: evenkeel lab report {}",
            records.len(),
            shown(&out),
            shown(&out)
        )
    });
    Ok(if args.check { check::exit_code(&judgements) } else { ExitCode::SUCCESS })
}

fn cores(threads: usize) -> usize {
    if threads > 0 { threads } else { thread::available_parallelism().map_or(1, Into::into) }
}

/// Sets the flag when it goes out of scope, even in a panic, which would go unnoticed otherwise.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs work with a progress bar.
pub(super) fn watched<T: Send>(
    progress: &Progress,
    output: Output,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let bar = if output.is_json() { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = "{bar:32} {pos}/{len} shards, {msg}, {elapsed} so far";
    bar.set_style(ProgressStyle::with_template(style)?.progress_chars("=> "));
    let done = AtomicBool::new(false);
    let begun = Instant::now();
    let result = thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let requests = progress.requests.load(Ordering::Relaxed);
                let rate = requests as f64 / begun.elapsed().as_secs_f64().max(1e-9);
                bar.set_length(progress.shards.load(Ordering::Relaxed));
                bar.set_position(progress.done.load(Ordering::Relaxed));
                bar.set_message(format!("{requests} requests, {rate:.0}/s"));
                thread::park_timeout(TICK);
            }
        });
        work()
    });
    bar.finish_and_clear();
    Ok(result)
}

/// What is to be said about the drives of an experiment's points. Profiles were looked at when it was read.
fn notes(experiment: &Experiment) -> BTreeSet<String> {
    let profiles = experiment.points.iter().map(|labelled| &labelled.point.ssd);
    let profiles = profiles.filter_map(|ssd| Some((ssd, ssd.profile(&experiment.base).ok()?)));
    let said = |(ssd, profile): (&DriveSpec, Profile)| {
        let notes: Vec<_> =
            profile.notes().map(|note| format!("{}: {note}", ssd.profile)).collect();
        notes
    };
    profiles.flat_map(said).collect()
}

/// The table of an experiment's points.
pub(super) fn summary(experiment: &Experiment, records: &[Record], full: bool) -> String {
    let groups = groups(records);
    let name = |label: &str| if label.is_empty() { "all".to_owned() } else { label.to_owned() };
    let mut table = Table::new(
        core::iter::once(experiment.title.clone()).chain(groups.iter().map(|g| name(&g.label))),
    );
    let there = |column: &&lab::results::Column| {
        (full || column.brief) && groups.iter().any(|group| group.estimate(column).mean != 0.0)
    };
    for column in COLUMNS.iter().filter(there) {
        let cell = |group: &lab::results::Group<'_>| {
            values::estimate(&group.estimate(column), column.unit)
        };
        table.row(core::iter::once(column.name.to_owned()).chain(groups.iter().map(cell)));
    }
    let mut text = table.text();
    for note in notes(experiment) {
        text += &format!("\nnote: {note}.");
    }
    for record in records.iter().filter(|record| record.figures.end == RunEnd::Overloaded) {
        text += &format!(
            "\n{} (seed {}) could not keep up with the workload and was ended early: what it says \
             of latency says little.",
            name(&record.label()),
            record.seed
        );
    }
    text
}

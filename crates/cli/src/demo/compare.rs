//! Compares policies: new arrays of modelled SSDs, one after the other, get the same load. Requests
//! come at the same times, whether or not earlier ones have ended; waiting time counts.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use evenkeel_client::ArrayReport;
use serde_json::{Value, json};
use steering::scheme::Scheme;

use super::load::{Contents, Pace, Span};
use super::spread::{json as quantiles, row, spread, table};
use super::world::World;
use crate::args::DemoArgs;
use crate::output::Output;
use crate::size::Size;

/// The default length of the load.
const SECONDS: u64 = 20;

/// Requests per second: few enough that members are busy only part of the time, since no policy
/// helps a member without idle time for its garbage collection.
const RATE: u64 = 100;

/// The most blocks of a request (32 KiB).
const REQUEST_BLOCKS_MAX: u64 = 8;

/// Connections. Each has one request at a time, so this many can be late at once.
const WORKERS: u64 = 32;

/// What requests follow from: each comparison has the same.
const SEED: u64 = 1;

/// The result of a policy.
struct Outcome {
    policy: Scheme,
    reads: Vec<u64>,
    writes: Vec<u64>,
    report: ArrayReport,
}

pub(super) fn compare(args: &DemoArgs, output: Output, say: &dyn Fn(&str)) -> Result<ExitCode> {
    if args.keep {
        bail!("--keep leaves one array running: give one policy");
    }
    let seconds = args.seconds.unwrap_or(SECONDS);
    let pace = Pace {
        every: Duration::from_micros(1_000_000 / RATE),
        count: seconds * RATE,
        blocks_max: REQUEST_BLOCKS_MAX,
    };
    let mut outcomes = Vec::new();
    for &policy in &args.policy {
        outcomes.push(measure(args, policy, pace, say)?);
    }
    let value = outcomes.iter().map(Outcome::json).collect::<Result<Value>>()?;
    let text = text(&outcomes, pace)?;
    output.result(&json!({ "policies": value }), || format!("\n{text}"));
    say("\nEvery byte that was read was what had been written last.");
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &DemoArgs, policy: Scheme, pace: Pace, say: &dyn Fn(&str)) -> Result<Outcome> {
    let world = World::create(args, policy, say)?;
    let nbd = world.nbd();
    let mut contents = Contents::new(nbd.bytes()?, SEED, WORKERS);
    say("Writing everything over NBD ...");
    contents.write_all(&nbd)?;
    say(&format!("Reading and writing, with the policy {} ...", policy.name));
    let figures = contents.pace(&nbd, pace)?;
    let report = world.status()?;
    contents.check_all(&nbd)?;
    world.end(say)?;
    let nanos = |read| -> Vec<u64> {
        let spans = figures.spans.iter().filter(|span| span.read == read);
        spans.map(Span::nanos).collect()
    };
    Ok(Outcome { policy, reads: nanos(true), writes: nanos(false), report })
}

fn text(outcomes: &[Outcome], pace: Pace) -> Result<String> {
    let side = |of: fn(&Outcome) -> &Vec<u64>| -> Vec<Vec<u64>> {
        outcomes.iter().map(|outcome| of(outcome).clone()).collect()
    };
    let (reads, writes) = (side(|outcome| &outcome.reads), side(|outcome| &outcome.writes));
    let rate = Duration::from_secs(1).as_micros() / pace.every.as_micros().max(1);
    let mut lines = vec![
        format!("The same {} requests at the same times, {rate} a second", pace.count),
        row("", outcomes.iter().map(|outcome| outcome.policy.name.to_owned())),
    ];
    lines.extend(table("reads", &reads)?);
    lines.extend(table("writes", &writes)?);
    lines.extend([String::new(), "Of the reads it took so many".to_owned()]);
    lines.extend(spread(&reads));
    lines.extend([String::new(), "Of the writes it took so many".to_owned()]);
    lines.extend(spread(&writes));
    lines.push(String::new());
    lines.extend(outcomes.iter().map(Outcome::told));
    Ok(lines.join("\n"))
}

impl Outcome {
    /// What it did, in words.
    fn told(&self) -> String {
        let detours = self.report.detours.reads;
        let staged = self.report.staging.as_ref().map_or_else(String::new, |log| {
            format!(", {} writes ({}) were staged", log.writes, Size(log.written_bytes))
        });
        let drives = self.report.members.iter().filter_map(|member| member.flash.as_ref());
        let collecting = drives.map(|f| f.drive.gc_ns as f64 / f.drive.open_ns.max(1) as f64);
        let collecting: Vec<f64> = collecting.collect();
        let mean = collecting.iter().sum::<f64>() / collecting.len().max(1) as f64;
        format!(
            "{}: {detours} reads went around busy members{staged}; members collected {:.0} % of the \
             time",
            self.policy.name,
            100.0 * mean
        )
    }

    fn json(&self) -> Result<Value> {
        Ok(json!({
            "policy": self.policy.name,
            "read_ns": quantiles(&self.reads)?,
            "write_ns": quantiles(&self.writes)?,
            "report": self.report,
        }))
    }
}

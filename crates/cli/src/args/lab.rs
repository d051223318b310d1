//! The command line of `evenkeel lab`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use lab::trace::Format;

use super::advise::FitArgs;

#[derive(Subcommand, Debug)]
pub(crate) enum LabAction {
    /// Run an experiment, on all cores, and go on where it was interrupted
    Run(RunArgs),
    /// Put results side by side, with 95% confidence
    Compare(CompareArgs),
    /// Judge results by what is expected of them, and fail if a gate is not passed
    Check(CheckArgs),
    /// Make a page of tables and plots out of results
    Report(ReportArgs),
    /// Join results of several machines
    Merge(MergeArgs),
    /// Measure one SSD by itself
    Ssd(SsdArgs),
    /// Make a profile of a drive by its latencies
    Fit(FitArgs),
    /// Look at traces
    Trace {
        #[command(subcommand)]
        action: TraceAction,
    },
    /// Compare the model of SSDs with closed forms and other programs
    Validate(ValidateArgs),
    /// List the SSDs that there are
    Profiles,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel lab run raid5-gc.toml                     results in raid5-gc.jsonl
  evenkeel lab run raid5-gc.toml --shard 3/16        as the third of 16 jobs on a cluster
  evenkeel lab merge raid5-gc.*-of-16.jsonl -o raid5-gc.jsonl

Equal experiments give equal results, line by line.")]
pub(crate) struct RunArgs {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    pub(crate) experiment: PathBuf,
    /// Where the results go, a line of JSON for each point and seed; beside the working directory's
    /// files by the experiment's name if not given
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Begin afresh instead of going on
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Run only every Nth point and seed, beginning with the Ith
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(crate) shard: Part,
    /// On so many cores; all if not given
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Show all figures
    #[arg(long)]
    pub(crate) full: bool,
    /// Fail if a gate of what the experiment expects is not passed
    #[arg(long, conflicts_with = "shard")]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel lab check gs-1.toml                       the results are in gs-1.jsonl
  evenkeel lab check gs-*.toml all.jsonl")]
pub(crate) struct CheckArgs {
    /// Experiments, and results if they are not where `lab run` puts them
    #[arg(required = true, value_name = "EXPERIMENT.toml|RESULTS.jsonl")]
    pub(crate) files: Vec<PathBuf>,
    /// Show every point of which something is expected, not only the one that decides
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "With one file, all points are compared with the first, or with --base. \
With two, points of the same name are compared.")]
pub(crate) struct CompareArgs {
    /// Results
    #[arg(value_name = "RESULTS.jsonl")]
    pub(crate) first: PathBuf,
    /// Other results
    #[arg(value_name = "RESULTS.jsonl")]
    pub(crate) second: Option<PathBuf>,
    /// The point to compare with, as `lab run` names it
    #[arg(long, value_name = "POINT", conflicts_with = "second")]
    pub(crate) base: Option<String>,
    /// Show all figures
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel lab report raid5-gc.jsonl
  evenkeel lab report gs-*.toml                      with what is expected; results in gs-*.jsonl")]
pub(crate) struct ReportArgs {
    /// Results, and experiments whose expectations they are to be judged by
    #[arg(required = true, value_name = "RESULTS.jsonl|EXPERIMENT.toml")]
    pub(crate) results: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// Results
    #[arg(required = true, value_name = "RESULTS.jsonl")]
    pub(crate) results: Vec<PathBuf>,
    /// Where all of them go
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel lab ssd nvme-tlc --blocks 128
  evenkeel lab ssd sata-mlc --blocks 128 --set gc.scope='\"device\"'
  evenkeel lab ssd ./mine.toml --workload 'synthetic = { read = 1, size = \"4K\" }'
  evenkeel lab ssd femu-ioda --workload 'trace = { file = \"week.csv.gz\" }'")]
pub(crate) struct SsdArgs {
    /// The SSD: a name that `lab profiles` lists, or the path of a profile
    pub(crate) profile: String,
    /// What is asked of it, as in an experiment's `[workload]`; half reads and half writes of 4 KiB at
    /// random places, 16 at a time, if not given
    #[arg(long, value_name = "TOML")]
    pub(crate) workload: Option<String>,
    /// Requests that are measured
    #[arg(long, default_value_t = 200_000)]
    pub(crate) requests: u64,
    /// Requests before these
    #[arg(long, default_value_t = 0)]
    pub(crate) warmup: u64,
    /// Blocks of each plane, to make it smaller or larger than its profile says
    #[arg(long)]
    pub(crate) blocks: Option<u32>,
    /// How many times its space has been overwritten before; 0 is filled once, in order
    #[arg(long, default_value_t = 3.0)]
    pub(crate) overwrites: f64,
    /// It is erased
    #[arg(long, conflicts_with = "overwrites")]
    pub(crate) fresh: bool,
    /// What is different from its profile
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// What the random numbers follow from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceAction {
    /// Tell what a trace holds
    Info(TraceArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    /// The trace, compressed (xz, gz) or not
    pub(crate) file: PathBuf,
    /// Its format, if it can't be told: spc, msr, ssdsim, disksim, heimdall, vscsi, blkparse
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// Only this device of it; can be given several times
    #[arg(long = "device", value_name = "NAME")]
    pub(crate) devices: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    /// Groups of comparisons; all if none is given
    #[arg(value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
    /// Fewer and smaller comparisons, in seconds instead of minutes
    #[arg(long)]
    pub(crate) short: bool,
}

/// One part of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Which, from 1.
    pub(crate) part: u64,
    /// Of how many.
    pub(crate) of: u64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |number: &str| number.parse::<u64>().ok();
        let numbers = text.split_once('/').and_then(|(i, n)| parse(i).zip(parse(n)));
        match numbers {
            Some((part, of)) if part >= 1 && part <= of => Ok(Self { part, of }),
            _ => Err(format!("\"{text}\" is no part; write it like 3/16: the third of 16")),
        }
    }
}

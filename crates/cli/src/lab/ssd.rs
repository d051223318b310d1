//! `evenkeel lab ssd`: measures one SSD; and the list of SSDs.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use flashsim::Profile;
use flashsim::profile::BUILTIN;
use lab::experiment::Point;
use lab::measure::{Figures, QUANTILES};
use lab::results::COLUMNS;
use lab::shard::run_shard;
use serde_json::json;
use toml::Table as Toml;

use super::values;
use crate::args::SsdArgs;
use crate::output::Output;
use crate::size::Size;
use crate::table::Table;

/// The default workload.
const WORKLOAD: &str =
    "synthetic = { pace = { closed = { depth = 16 } }, read = 0.5, size = \"4K\" }";

pub(super) fn ssd(args: &SsdArgs, output: Output) -> Result<ExitCode> {
    let point = point(args)?;
    let profile = point.ssd.profile(Path::new(""))?;
    let (begun, count) = (Instant::now(), AtomicU64::new(0));
    let figures = run_shard(&point, args.seed, Path::new(""), &count)?;
    let took = begun.elapsed().as_secs_f64();
    let requests = count.load(Ordering::Relaxed);
    let value = json!({
        "profile": profile,
        "point": point,
        "seed": args.seed,
        "figures": figures,
        "simulated_requests": requests,
        "seconds": took,
    });
    output.result(&value, || {
        format!(
            "{}\n\n{}\n\n{}\n\n{requests} requests in {took:.1} s: {:.0} a second",
            facts(&profile),
            latencies(&figures),
            rest(&figures),
            requests as f64 / took
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// The point to measure: built like an experiment's file, so that errors are reported in the same
/// way.
fn point(args: &SsdArgs) -> Result<Point> {
    let text = args.workload.as_deref().unwrap_or(WORKLOAD);
    let workload: Toml =
        toml::from_str(text).map_err(|e| anyhow!("--workload: {}", e.to_string().trim_end()))?;
    let mut set = Toml::new();
    for pair in &args.set {
        let (key, value) =
            pair.split_once('=').context("--set takes a key and a value: gc.start=0.1")?;
        // A value that is not TOML is taken for a string, so that no nested quotes are needed in a
        // shell.
        let line: Toml = toml::from_str(pair)
            .or_else(|_| toml::from_str(&format!("{key} = {value:?}")))
            .map_err(|e| anyhow!("--set {pair}: {}", e.to_string().trim_end()))?;
        lab::experiment::merge(&mut set, &line);
    }
    let (used, overwrites) = match args.overwrites {
        _ if args.fresh => ("fresh", 0.0),
        0.0 => ("filled", 0.0),
        overwrites => ("aged", overwrites),
    };
    let mut ssd = Toml::new();
    ssd.insert("profile".into(), args.profile.clone().into());
    ssd.insert("use".into(), used.into());
    ssd.insert("overwrites".into(), overwrites.into());
    ssd.insert("set".into(), set.into());
    if let Some(blocks) = args.blocks {
        ssd.insert("blocks".into(), i64::from(blocks).into());
    }
    let mut run = Toml::new();
    for (key, value) in [("requests", args.requests), ("warmup", args.warmup)] {
        let value = i64::try_from(value).with_context(|| format!("--{key} is too large"))?;
        run.insert(key.into(), value.into());
    }
    let tables = [("ssd", ssd), ("workload", workload), ("run", run)];
    let table: Toml =
        tables.into_iter().map(|(key, table)| (key.to_owned(), table.into())).collect();
    let point: Point = table.try_into()?;
    point.workload().map_err(|e| anyhow!("--{e}"))?;
    Ok(point)
}

/// The drive's properties.
fn facts(profile: &Profile) -> String {
    let g = profile.sizes();
    let page = u64::from(g.page_bytes);
    let raw = g.raw_pages() * page;
    let capacity = u64::from(g.logical_pages) * page;
    let same = profile.notes().map(|note| format!("\nnote: {note}"));
    format!(
        "{}: {} usable of {} ({:.1}% over-provisioned); {} channels, {} dies of {} planes, blocks of \
         {} pages of {}{}",
        profile.name,
        Size(capacity),
        Size(raw),
        100.0 * (raw as f64 / capacity as f64 - 1.0),
        g.channels,
        g.dies,
        g.planes_per_die,
        g.pages_per_block,
        Size(page),
        same.collect::<String>(),
    )
}

fn latencies(figures: &Figures) -> String {
    let quantiles = QUANTILES.iter().map(|(name, _)| *name);
    let mut table =
        Table::new(["", "requests", "mean", "sd"].into_iter().chain(quantiles).chain(["max"]));
    for (name, latency) in [("reads", &figures.reads), ("writes", &figures.writes)] {
        if latency.count == 0 {
            continue;
        }
        let us = |us| values::value(us, lab::results::Unit::Microseconds);
        let times = [latency.mean_us, latency.deviation_us].into_iter();
        let times = times.chain(latency.quantiles_us).chain([latency.max_us]);
        table.row([name.to_owned(), latency.count.to_string()].into_iter().chain(times.map(us)));
    }
    table.text()
}

fn rest(figures: &Figures) -> String {
    let mut table = Table::default();
    let columns = COLUMNS.iter().filter(|column| {
        let of_latency = column.name.starts_with("read ") || column.name.starts_with("write ");
        let of_arrays = column.name.starts_with("array ") || column.name.starts_with("total ");
        !of_latency && !of_arrays && (column.value)(figures) != 0.0
    });
    for column in columns {
        let value = values::value((column.value)(figures), column.unit);
        table.row([column.name.to_owned(), value]);
    }
    table.text()
}

pub(super) fn profiles(output: Output) -> Result<ExitCode> {
    let about = |text: &str| {
        let lines = text.lines().take_while(|line| line.starts_with('#'));
        lines.map(|line| line.trim_start_matches(['#', ' '])).collect::<Vec<_>>().join(" ")
    };
    let mut value = Vec::new();
    let mut texts = Vec::new();
    for builtin in BUILTIN {
        let profile = Profile::builtin(builtin.name)?;
        texts.push(format!("{}\n  {}", facts(&profile), about(builtin.text)));
        value.push(
            json!({ "name": builtin.name, "about": about(builtin.text), "profile": profile }),
        );
    }
    output.result(&json!({ "profiles": value }), || texts.join("\n\n"));
    Ok(ExitCode::SUCCESS)
}

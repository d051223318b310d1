//! `evenkeel lab trace`.

use std::process::ExitCode;

use anyhow::Result;
use lab::trace::{Info, Selection, Sizes};

use crate::args::TraceArgs;
use crate::output::Output;
use crate::size::Size;
use crate::table::Table;

pub(super) fn info(args: &TraceArgs, output: Output) -> Result<ExitCode> {
    let selection = Selection {
        format: args.format,
        devices: (!args.devices.is_empty()).then(|| args.devices.clone()),
        ..Selection::default()
    };
    let info = Info::of(&args.file, &selection)?;
    output.result(&serde_json::to_value(&info)?, || text(&info));
    Ok(ExitCode::SUCCESS)
}

fn text(info: &Info) -> String {
    let percent = |share: f64| format!("{:.2}%", 100.0 * share);
    let bytes = |bytes: u64| Size(bytes).to_string();
    let count = |count: u64, what: &str| (count > 0).then(|| format!(", {count} {what}"));
    let rest = [count(info.discards, "discards"), count(info.flushes, "flushes")];
    let kinds = format!(
        "{} reads ({}), {} writes{}",
        info.reads,
        percent(info.read_share),
        info.writes,
        rest.into_iter().flatten().collect::<String>()
    );
    let mut table = Table::default();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("format", info.format.name().to_owned());
    row("requests", format!("{}: {kinds}", info.requests));
    row("duration", format!("{:.3} s", info.seconds));
    row("rate", format!("{:.2}/s, gaps with a CV of {:.2} (Poisson: 1)", info.rate, info.gap_cv));
    for (name, sizes) in [("reads", info.read_sizes), ("writes", info.write_sizes)] {
        row(&format!("size of {name}"), self::sizes(&sizes));
    }
    row(
        "footprint",
        format!(
            "{} in pages of 4 KiB: {} read, {} written",
            bytes(info.footprint_bytes),
            bytes(info.read_footprint_bytes),
            bytes(info.write_footprint_bytes)
        ),
    );
    row("skew", format!("a fifth of the pages takes {}", percent(info.top_fifth_share)));
    let intensive = format!(
        "{} of the reads are of pages that are hardly written, {} of the writes of pages that are \
         hardly read",
        percent(info.read_intensive_share),
        percent(info.write_intensive_share)
    );
    row("intensive", intensive);
    row("sequential", percent(info.sequential_share));
    row("unaligned", format!("{} not of whole 4 KiB", percent(info.unaligned_share)));
    if info.inversions > 0 {
        row("out of order", format!("{} requests, taken as simultaneous", info.inversions));
    }
    for device in &info.devices {
        let requests = device.requests;
        row(
            &format!("device {}", device.name),
            format!("{requests} requests, up to {}", bytes(device.end_bytes)),
        );
    }
    table.left().text()
}

fn sizes(sizes: &Sizes) -> String {
    if sizes.max == 0 {
        return "–".to_owned();
    }
    let Sizes { mean, p50, p90, p99, max } = *sizes;
    let [p50, p90, p99, max] = [p50, p90, p99, max].map(|bytes| Size(bytes.into()).to_string());
    format!("mean {:.2} KiB, p50 {p50}, p90 {p90}, p99 {p99}, max {max}", mean / 1024.0)
}

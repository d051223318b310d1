//! `evenkeel plan`: the size of an array for a load, and how long its drives last.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use lab::plan::{SegmentTimes, Swan};
use lab::units::Bytes;
use raidcore::units::BLOCK_BYTES;
use serde_json::{Value, json};
use ublkd::create::VOLUME_MEMBERS_MAX;

use super::drive::drive;
use super::life::life;
use super::verify::{self, Verified};
use crate::args::{PlanAction, SwanArgs};
use crate::output::Output;
use crate::table::Table;

/// The utilisations that are shown besides the requested one.
const USED: [f64; 7] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

pub(crate) fn plan(action: &PlanAction, output: Output) -> Result<ExitCode> {
    match action {
        PlanAction::Swan(args) => swan(args, output),
        PlanAction::Life(args) => life(args, output),
    }
}

fn swan(args: &SwanArgs, output: Output) -> Result<ExitCode> {
    if args.segment.blocks() == 0 || args.throughput.0 == 0 {
        bail!("a segment has at least 4 KiB, and a throughput is more than nothing");
    }
    let times = times(args)?;
    let rate = args.segment.0 as f64 / times.write;
    let throughput = args.throughput.0 as f64;
    let with = |used: f64| Swan::new(&times, used, throughput, rate, args.parity);
    let asked = with(args.used);
    let table: Vec<Swan> = USED.map(with).into();
    let played = if args.verify { Some(verify::play(args, asked, output)?) } else { None };
    let value = json!({
        "times_us": {
            "erase": times.erase * 1e6,
            "write": times.write * 1e6,
            "read": times.read * 1e6,
        },
        "member_bytes_per_s": rate,
        "plan": swan_json(&asked),
        "table": table.iter().map(swan_json).collect::<Value>(),
        "played": played.as_ref().map(Verified::json),
    });
    output.result(&value, || {
        let plan = text(args, &times, &asked, &table);
        played.as_ref().map_or(plan.clone(), |played| format!("{plan}\n\n{}", played.text()))
    });
    let confirmed = played.is_none_or(|played| played.is_confirmed());
    Ok(if confirmed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The SSD's times for its part of a segment.
fn times(args: &SwanArgs) -> Result<SegmentTimes> {
    let Some(measured) = &args.measured else {
        let profile = drive(args).profile(Path::new(""))?;
        return Ok(SegmentTimes::of_profile(&profile, args.segment.0));
    };
    let [erase, write, read] = measured[..] else {
        bail!("--measured takes three times: 4000,19.5,15.6")
    };
    if ![erase, write, read].iter().all(|us| us.is_finite() && *us >= 0.0) || write == 0.0 {
        bail!("--measured takes times in µs, and writing takes some");
    }
    let blocks = u32::try_from(args.segment.0 / BLOCK_BYTES as u64)?;
    Ok(SegmentTimes::of_blocks(erase * 1e-6, write * 1e-6, read * 1e-6, blocks))
}

fn text(args: &SwanArgs, times: &SegmentTimes, asked: &Swan, table: &[Swan]) -> String {
    let mut lines = Table::new([
        "in use",
        "live when cleaned",
        "Eq 1",
        "without erase",
        "groups",
        "SSDs",
        "users have",
    ]);
    for swan in table {
        lines.row([
            format!("{:.0}%", 100.0 * swan.used),
            format!("{:.0}%", 100.0 * swan.victim),
            format!("{:.2}", swan.equation),
            format!("{:.2}", swan.without_erase),
            swan.groups.to_string(),
            swan.ssds().to_string(),
            format!("{:.0}%", 100.0 * swan.given),
        ]);
    }
    format!(
        "{} groups of {} members for {} a second with {:.0}% in use: {} SSDs, users have {:.0}% of \
         their space{}\n\na segment's part on an SSD takes {:.0} µs to write, {:.0} µs to read, {:.0} \
         µs to erase\n\n{}\n\nEq 1 is Kim et al.'s (USENIX ATC '19). Groups are its value rounded \
         up. The paper's own example leaves\nits erase term out; fewer groups than without it are \
         too few by any reading.",
        asked.groups,
        asked.members,
        args.throughput,
        100.0 * asked.used,
        asked.ssds(),
        100.0 * asked.given,
        create(args, asked),
        times.write * 1e6,
        times.read * 1e6,
        times.erase * 1e6,
        lines.text(),
    )
}

/// How to create such an array, if that can be.
fn create(args: &SwanArgs, asked: &Swan) -> String {
    let Some(layout) = asked.layout().filter(|_| asked.ssds() <= VOLUME_MEMBERS_MAX as u64) else {
        return format!(", but no array can have as many (at most {VOLUME_MEMBERS_MAX} SSDs)");
    };
    let segment = Bytes(args.segment.0 * u64::from(asked.members - asked.parity));
    let spare = 100.0 * (1.0 - asked.used);
    format!(
        "\nevenkeel create NAME --layout {layout} --segment {segment} --over-provisioning {spare:.1}% \
         MEMBER..."
    )
}

fn swan_json(swan: &Swan) -> Value {
    json!({
        "used": swan.used,
        "victim": swan.victim,
        "equation": swan.equation,
        "without_erase": swan.without_erase,
        "groups": swan.groups,
        "members": swan.members,
        "layout": swan.layout().map(|layout| layout.to_string()),
        "given": swan.given,
    })
}

//! `evenkeel lab validate`: compares the SSD model with independent results.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use flashsim::validate::{Row, Verdict};
use lab::experiment::Validation;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args::ValidateArgs;
use crate::output::{Output, print};

pub(super) fn named(args: &ValidateArgs, output: Output) -> Result<ExitCode> {
    let title = "flashsim against closed forms and other programs".to_owned();
    let validation = Validation::new(title, args.short, &args.groups).map_err(|e| anyhow!(e))?;
    validate(&validation, output)
}

/// Prints the comparisons as they end; fails if any is off.
pub(super) fn validate(validation: &Validation, output: Output) -> Result<ExitCode> {
    if !output.is_json() {
        print(&format!(
            "{}\n{:<58} {:>4} {:>11} {:>12} {:>8} {:>6} verdict",
            validation.title, "comparison", "unit", "reference", "measured", "differs", "within"
        ));
    }
    let rows: Vec<Row> = validation
        .sections
        .par_iter()
        .with_max_len(1)
        .flat_map_iter(|section| {
            let rows = (section.run)(validation.depth);
            if !output.is_json() {
                rows.iter().for_each(|row| print(&row.to_string()));
            }
            rows
        })
        .collect();
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let (off, held_back) = (count(Verdict::Off), count(Verdict::HeldBack));
    let value = json!({
        "rows": rows.iter().map(row_json).collect::<Value>(),
        "off": off,
        "held_back": held_back,
    });
    output.result(&value, || {
        format!(
            "{} comparisons: {} within their tolerance, {off} off, {held_back} whose reference is \
             held back",
            rows.len(),
            rows.len() - off - held_back
        )
    });
    Ok(if off == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row_json(row: &Row) -> Value {
    let verdict = match row.verdict() {
        Verdict::Ok => "ok",
        Verdict::Off => "off",
        Verdict::HeldBack => "held-back",
    };
    json!({
        "name": row.name,
        "unit": row.unit,
        "reference": row.reference,
        "measured": row.measured,
        "difference": row.difference(),
        "tolerance": row.tolerance,
        "verdict": verdict,
    })
}

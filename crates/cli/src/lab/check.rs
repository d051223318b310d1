//! Judges results by the expectations of experiments: `evenkeel lab check`, and the end of
//! `evenkeel lab run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use lab::experiment::{Class, Experiment, Task};
use lab::judge::{Finding, Judgement, Verdict, judge};
use lab::results::{Record, read};
use serde_json::{Value, json};

use super::out::default_out;
use crate::args::{CheckArgs, Part};
use crate::output::Output;
use crate::table::Table;
use evenkeel_client::paths::shown;

pub(super) fn check(args: &CheckArgs, output: Output) -> Result<ExitCode> {
    let Given { experiments, records } = Given::of(&args.files)?;
    let judgements = judgements(&experiments, &records)?;
    if judgements.is_empty() {
        bail!("nothing is expected of these results: give experiments that have [[expect]] tables");
    }
    output.result(&json!({ "expectations": json(&judgements) }), || text(&judgements, args.full));
    Ok(exit_code(&judgements))
}

/// Fails if a gate was not passed.
pub(super) fn exit_code(judgements: &[Judgement<'_>]) -> ExitCode {
    let failed = judgements.iter().any(Judgement::fails);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Files of experiments and of results, read.
pub(super) struct Given {
    pub(super) experiments: Vec<Experiment>,
    pub(super) records: Vec<Record>,
}

impl Given {
    /// The content of the files. Those that end in `.toml` are experiments. If there are no others,
    /// the results are where `lab run` puts them.
    pub(super) fn of(files: &[PathBuf]) -> Result<Self> {
        let is_experiment = |path: &&PathBuf| path.extension().is_some_and(|end| end == "toml");
        let (tomls, results): (Vec<_>, Vec<_>) = files.iter().partition(is_experiment);
        let load = |path: &&PathBuf| match Task::load(path)? {
            Task::Experiment(experiment) => Ok(experiment),
            Task::Validation(_) => {
                bail!("{} has no results: it validates the model of SSDs", shown(path))
            }
        };
        let experiments = tomls.iter().map(load).collect::<Result<_>>()?;
        let whole = Part { part: 1, of: 1 };
        let results: Vec<_> = match results[..] {
            [] => tomls.iter().map(|path| default_out(path, whole)).collect(),
            _ => results.into_iter().cloned().collect(),
        };
        let records = results.iter().map(|path: &PathBuf| Ok(read(Path::new(path))?));
        let records: Vec<_> = records.collect::<Result<_>>()?;
        Ok(Self { experiments, records: records.concat() })
    }
}

/// The judgements of all expectations.
pub(super) fn judgements<'a>(
    experiments: &'a [Experiment],
    records: &[Record],
) -> Result<Vec<Judgement<'a>>> {
    let mut judgements = Vec::new();
    for experiment in experiments {
        judgements.extend(judge(experiment, records)?);
    }
    Ok(judgements)
}

/// A row for each expectation. Of an expectation for several points, only the deciding point is
/// shown, unless all are wanted.
pub(super) fn text(judgements: &[Judgement<'_>], full: bool) -> String {
    let mut table = Table::new(["", "figure", "at", "ours", "paper", "gate", "", ""]).left();
    for judgement in judgements {
        let all = full || judgement.expectation.gate.is_open();
        let decisive = judgement.decisive().into_iter();
        let shown: Vec<_> =
            if all { judgement.findings.iter().collect() } else { decisive.collect() };
        for (index, found) in shown.iter().enumerate() {
            let of = judgement.findings.len();
            let at = match of {
                _ if all || of == 1 => found.at.clone(),
                _ => format!("{} (least of {of})", found.at),
            };
            table.row(row(judgement, found, at, index == 0));
        }
    }
    let gates = judgements.iter().filter(|j| j.expectation.class != Class::Reported);
    let (all, missed) = (gates.clone().count(), gates.filter(|j| j.fails()).count());
    let whys = judgements.iter().filter(|j| j.verdict() == Verdict::Miss).filter_map(|judgement| {
        let why = judgement.expectation.why.as_ref()?;
        Some(format!("\n{}: {}", judgement.expectation.name, why.trim()))
    });
    let whys: String = whys.collect();
    let passed = match all {
        0 => String::new(),
        _ => format!("\n{} of {all} gates are passed.", all - missed),
    };
    format!("{}{passed}{whys}", table.text())
}

fn row(judgement: &Judgement<'_>, found: &Finding, at: String, first: bool) -> [String; 8] {
    let expectation = judgement.expectation;
    let spread = expectation.spread_text(found.ours.half_width);
    let spread = if spread.is_empty() { spread } else { format!(" ±{spread}") };
    let of_all = |text: String| if first { text } else { String::new() };
    let chance = if found.may_be_chance() { ", may be chance" } else { "" };
    [
        of_all(expectation.name.clone()),
        of_all(expectation.subject()),
        at,
        format!("{}{spread}", expectation.text(found.number())),
        expectation.paper.map_or_else(String::new, |paper| expectation.text(paper)),
        expectation.gate_text(),
        expectation.class.to_string(),
        format!("{}{chance}", found.verdict.text()),
    ]
}

pub(super) fn json(judgements: &[Judgement<'_>]) -> Value {
    let one = |judgement: &Judgement<'_>| {
        let expectation = judgement.expectation;
        json!({
            "experiment": judgement.experiment,
            "name": expectation.name,
            "figure": expectation.column.name,
            "variant": expectation.variant,
            "against": expectation.against,
            "as": expectation.measure,
            "over": expectation.over,
            "class": expectation.class,
            "gate": expectation.gate,
            "paper": expectation.paper,
            "source": expectation.source,
            "why": expectation.why,
            "verdict": judgement.verdict(),
            "findings": judgement.findings,
        })
    };
    judgements.iter().map(one).collect()
}

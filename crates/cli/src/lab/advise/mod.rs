//! `evenkeel advise`: which array of these drives serves a workload best.

mod text;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use evenkeel_client::paths::{shown, to_text};
use flashsim::Profile;
use lab::advise::{Advice, Question};
use lab::sweep::Progress;
use lab::system::{DriveSpec, Use};
use serde_json::{Value, json};
use tempfile::TempDir;
use toml::{Table as Toml, Value as TomlValue};

use super::fit::Fitted;
use super::probe;
use super::run::watched;
use crate::args::AdviseArgs;
use crate::output::Output;
use text::Text;

/// A drive that is larger is modelled as a smaller one.
const LARGE: u64 = 1 << 30;

/// The file of the fitted profile, in a directory of its own.
const FITTED: &str = "fitted.toml";

pub(crate) fn advise(args: &AdviseArgs, output: Output) -> Result<ExitCode> {
    // What is wrong with the workload is told before a minute is spent on drives.
    let workload = workload(args)?;
    let dir = TempDir::new().context("no temporary directory")?;
    let drives = Drives::of(args, &dir)?;
    let profile = drives.spec.profile(Path::new(""))?;
    let sizes = profile.sizes();
    let question = Question {
        drive_bytes: u64::from(sizes.logical_pages) * u64::from(sizes.page_bytes),
        ssd: drives.spec.clone(),
        members: drives.count,
        level: args.level.map(Into::into),
        workload,
        requests: args.requests,
        seeds: args.seeds,
    };
    question.check()?;
    let progress = Progress::default();
    let advice =
        watched(&progress, output, || lab::advise::advise(&question, Path::new(""), &progress))??;
    let text = Text { args, advice: &advice, fitted: &drives.fitted, drive: &profile.name };
    if let Some(page) = &args.page {
        let html =
            lab::report::html_with(&text.lead(), &advice.records("The arrays that were compared"))?;
        std::fs::write(page, html).with_context(|| shown(page).to_string())?;
    }
    output.result(&json(args, &advice, &drives, &text), || text.whole());
    Ok(ExitCode::SUCCESS)
}

/// The drives that an array is to be made of.
struct Drives {
    spec: DriveSpec,
    count: u8,
    /// What was fitted to each, if they were probed.
    fitted: Vec<Fitted>,
}

impl Drives {
    fn of(args: &AdviseArgs, dir: &TempDir) -> Result<Self> {
        let spec = |profile: String| DriveSpec {
            profile,
            blocks: None,
            used: Use::Aged,
            overwrites: 2.0,
            told: None,
            obeys: None,
            streams: None,
            set: Toml::new(),
        };
        let (spec, count, fitted) = match &args.profile {
            Some(name) => (spec(name.clone()), args.drives, Vec::new()),
            None => {
                let fitted = fit_all(args)?;
                let count = u8::try_from(fitted.len()).context("too many drives")?;
                let worst = fitted.iter().max_by(|a, b| a.stalls().total_cmp(&b.stalls()));
                let path = dir.path().join(FITTED);
                worst.context("no drives")?.store(&path, &args.probe)?;
                let path = path.to_str().context("the temporary directory's name is no text")?;
                (spec(path.to_owned()), count, fitted)
            }
        };
        let profile = spec.profile(Path::new(""))?;
        let blocks = smaller(&profile, args.drive_size.0)?;
        let (told, obeys) = (Some(profile.told), Some(profile.obeys));
        Ok(Self { spec: DriveSpec { blocks, told, obeys, ..spec }, count, fitted })
    }
}

/// Probes all members, and fits a profile to each.
fn fit_all(args: &AdviseArgs) -> Result<Vec<Fitted>> {
    let open = args.members.iter().map(|path| probe::open(path, &args.probe));
    let drives = open.collect::<Result<Vec<_>>>()?;
    // Checked before a minute is spent on them.
    if drives.len() < 2 {
        bail!("an array takes at least two drives; for one, there is `evenkeel lab fit`");
    }
    probe::probe(drives)?.into_iter().map(Fitted::of).collect()
}

/// Blocks of a plane with which a large drive is a smaller one that works.
fn smaller(profile: &Profile, bytes: u64) -> Result<Option<u32>> {
    let sizes = profile.sizes();
    if u64::from(sizes.logical_pages) * u64::from(sizes.page_bytes) <= LARGE {
        return Ok(None);
    }
    Ok(Some(profile.clone().covering(bytes)?.geometry.blocks))
}

/// The workload's table, checked.
fn workload(args: &AdviseArgs) -> Result<Toml> {
    if args.speed.is_some_and(|speed| !(speed.is_finite() && speed > 0.0)) {
        bail!("--speed is how many times as fast: more than nothing");
    }
    let table = match (&args.trace, &args.workload) {
        (Some(file), _) => trace(file, args.speed)?,
        (None, Some(text)) if text.contains('=') => {
            if args.speed.is_some() {
                bail!(
                    "--speed is for traces and named workloads; a table says itself how fast it is"
                );
            }
            toml::from_str(text).map_err(|e| anyhow!("--workload: {}", e.to_string().trim_end()))?
        }
        (None, Some(name)) => named(name, args.speed),
        (None, None) => bail!("give --trace or --workload"),
    };
    let parsed: lab::workload::Workload = table
        .clone()
        .try_into()
        .map_err(|e: toml::de::Error| anyhow!("--workload: {}", e.to_string().trim_end()))?;
    parsed.check().map_err(|e| anyhow!("--workload: {e}"))?;
    Ok(table)
}

/// A paper's workload.
fn named(name: &str, speed: Option<f64>) -> Toml {
    let mut paper = Toml::new();
    paper.insert("name".into(), name.into());
    paper.insert("scale".into(), speed.unwrap_or(1.0).into());
    Toml::from_iter([("paper".to_owned(), TomlValue::Table(paper))])
}

/// A trace, repeated for ever. It is read once, for its errors.
fn trace(file: &Path, speed: Option<f64>) -> Result<Toml> {
    let selection = lab::trace::Selection::default();
    let mut some = false;
    for record in lab::trace::Trace::open(file, &selection)? {
        record?;
        some = true;
    }
    if !some {
        bail!("{} has no requests", shown(file));
    }
    let path = std::path::absolute(file)?;
    let path = path.to_str().with_context(|| format!("{} is no text", shown(file)))?;
    let mut trace = Toml::new();
    trace.insert("file".into(), path.into());
    trace.insert("fit".into(), "compact".into());
    trace.insert("loop".into(), "forever".into());
    trace.insert("speed".into(), speed.unwrap_or(1.0).into());
    Ok(Toml::from_iter([("trace".to_owned(), TomlValue::Table(trace))]))
}

fn json(args: &AdviseArgs, advice: &Advice, drives: &Drives, text: &Text<'_>) -> Value {
    let row = |row: &lab::advise::Row| {
        json!({
            "name": row.candidate.name,
            "arguments": row.candidate.arguments,
            "beside_plain": row.beside,
            "cost": row.cost(),
            "keeps_up": row.keeps_up(),
            "figures": row.figures,
        })
    };
    let name = |index: usize| advice.rows[index].candidate.name.clone();
    json!({
        "recommended": name(advice.recommended),
        "command": text.command(),
        "runner_up": advice.runner_up.map(name),
        "rows": advice.rows.iter().map(row).collect::<Value>(),
        "others": advice.others.iter().map(row).collect::<Value>(),
        "doubts": advice.doubts,
        "unsure": text.doubts(),
        "fits": drives.fitted.iter().map(Fitted::json).collect::<Value>(),
        "page": args.page.as_deref().map(to_text),
    })
}

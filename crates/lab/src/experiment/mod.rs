//! An experiment: a TOML file with the points to measure, and their variants.
//!
//! The file by itself is one point: an `[array]` or `[log]` (or none, for one SSD alone), an
//! `[ssd]`, a `[workload]` and a `[run]`. `[[variant]]` tables change some of it under a name,
//! `[[axis.KEY]]` tables, which every variant has in turn, too, and `[sweep]` goes through lists of
//! values; every combination is a point, and every point is run with every seed. `[calibrate]` finds
//! the load that makes drives collect garbage for given shares of the time, and `[[expect]]` says what
//! the results should be.

mod calibrate;
mod error;
mod expect;
mod points;
mod task;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashsim::profile::line_of;
use serde::Deserialize;
use toml::{Spanned, Table, Value};

pub(crate) use crate::point::label;
pub use crate::point::{Labelled, Point};
use crate::results::Record;
use crate::run::RunSpec;
use crate::system::{ArraySpec, CachedSpec, DriveSpec, LogSpec, Pdb, PdbSpec};
use crate::workload::Workload;

pub use calibrate::Calibration;
pub(crate) use calibrate::GC_DUTY;
pub use error::ExperimentError;
pub use expect::{Class, Expectation, Gate, Measure, Over};
use points::{Axis, line_in_sweep, named, points};
pub use task::{Task, Validation};

/// What a file asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// A name for people.
    pub title: String,
    /// The purpose of the experiment.
    pub about: String,
    /// The directory that relative paths in it are relative to.
    pub base: PathBuf,
    /// The points to measure; with the initial load if loads are calibrated.
    pub points: Vec<Labelled>,
    /// How their loads are found, if they are.
    pub calibration: Option<Calibration>,
    /// What it is expected to show.
    pub expectations: Vec<Expectation>,
}

/// The structure of the TOML. Points are read a second time, with the changes of variants and
/// sweeps; this first pass is for the lines of errors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    about: String,
    #[serde(rename = "array")]
    _array: Option<ArraySpec>,
    #[serde(rename = "log")]
    _log: Option<LogSpec>,
    #[serde(rename = "pdb")]
    _pdb: Option<PdbSpec>,
    #[serde(rename = "cached")]
    _cached: Option<CachedSpec>,
    #[serde(rename = "ssd")]
    _ssd: DriveSpec,
    #[serde(rename = "workload")]
    _workload: Workload,
    #[serde(rename = "run")]
    _run: RunSpec,
    #[serde(default)]
    sweep: Table,
    #[serde(default)]
    axis: BTreeMap<String, Vec<Spanned<Table>>>,
    #[serde(default)]
    variant: Vec<Spanned<Table>>,
    calibrate: Option<calibrate::Written>,
    #[serde(default)]
    expect: Vec<expect::Written>,
}

impl Experiment {
    /// The experiment in the file at `path`.
    ///
    /// # Errors
    /// If it can't be read, and those of [`Experiment::parse`].
    pub fn load(path: &Path) -> Result<Self, ExperimentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ExperimentError::File { path: path.to_path_buf(), error })?;
        Self::parse(&text, path)
    }

    /// The experiment in a text; `path` is where it is from.
    ///
    /// # Errors
    /// If it is not an experiment: where, what was found, and what was expected.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ExperimentError> {
        let syntax = |error: toml::de::Error| ExperimentError::Syntax {
            path: path.to_path_buf(),
            message: error.to_string().trim_end().to_owned(),
        };
        let file: File = toml::from_str(text).map_err(syntax)?;
        let mut table: Table = toml::from_str(text).map_err(syntax)?;
        table.retain(|key, _| {
            matches!(key, "array" | "log" | "pdb" | "cached" | "ssd" | "workload" | "run")
        });
        let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let wrong = |line: usize, what: &str, message: String| ExperimentError::Point {
            path: path.to_path_buf(),
            line,
            what: what.to_owned(),
            message: message.trim_end().to_owned(),
        };
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let mut axes = Vec::new();
        for (key, values) in file.axis {
            axes.push(Axis::named(key, values, &line, &wrong)?);
        }
        axes.extend(Axis::all(&file.sweep).map_err(|key| {
            wrong(
                line_in_sweep(text, &key),
                &key,
                "a sweep wants a list with at least one value".into(),
            )
        })?);
        let mut variants = named("variant", file.variant, &line, &wrong)?;
        let names: Vec<_> = variants.iter().filter_map(|(name, ..)| name.as_deref()).collect();
        let keys: Vec<&str> = axes.iter().map(|axis| &*axis.key).collect();
        let calibration = file.calibrate.map(|c| c.calibration(&table, &keys, &names));
        let calibration =
            calibration.transpose().map_err(|(at, m)| wrong(line(at), "[calibrate]", m))?;
        axes.extend(calibration.iter().map(|calibration| {
            let duties = calibration.gc_duty.iter().map(|&duty| Value::Float(duty));
            Axis::swept(GC_DUTY.to_owned(), duties.collect())
        }));
        if variants.is_empty() {
            variants.push((None, 1, Table::new()));
        }
        let points = points(&table, &variants, &axes, text, &wrong)?;
        let expect = |written: expect::Written| written.expectation(&points);
        let expectations = file.expect.into_iter().map(expect).collect::<Result<_, _>>();
        let expectations = expectations.map_err(|(at, m)| wrong(line(at), "[[expect]]", m))?;
        let (title, about) = (file.title, file.about);
        let experiment = Self { title, about, base, points, calibration, expectations };
        experiment.check(path, text)?;
        Ok(experiment)
    }

    /// Whether a record is a result of one of its points; with calibration, at any load.
    #[must_use]
    pub fn has(&self, record: &Record) -> bool {
        let same = |l: &&Labelled| l.variant == record.variant && l.swept == record.swept;
        let Some(labelled) = self.points.iter().find(same) else { return false };
        let load = self.calibration.as_ref().and_then(|c| Some((c, c.load(&record.point)?)));
        match load {
            None => labelled.point == record.point,
            Some((c, load)) => c.with_load(&labelled.point, load).as_ref() == Ok(&record.point),
        }
    }

    /// Checks that its points are possible.
    fn check(&self, path: &Path, text: &str) -> Result<(), ExperimentError> {
        for labelled in &self.points {
            let impossible = |key: &str, message: String| ExperimentError::Point {
                path: path.to_path_buf(),
                line: line_of(text, key),
                what: format!("[{}] {}", key.split('.').next().unwrap_or(key), labelled.label())
                    .trim_end()
                    .to_owned(),
                message,
            };
            let Point { array, log, pdb, cached, ssd, run, .. } = &labelled.point;
            let systems = [
                ("array", array.is_some()),
                ("log", log.is_some()),
                ("pdb", pdb.is_some()),
                ("cached", cached.is_some()),
            ];
            let mut systems = systems.iter().filter(|(_, is_there)| *is_there);
            if let (Some((first, _)), Some((second, _))) = (systems.next(), systems.next()) {
                let message = format!("there is a table [{first}], too: a point has one of them");
                return Err(impossible(second, message));
            }
            log.as_ref()
                .map_or(Ok(0), LogSpec::ssds)
                .map_err(|e| impossible("log.members", e.to_string()))?;
            let profile = ssd.profile(&self.base);
            let profile = profile.map_err(|e| impossible(&e.key(ssd), e.to_string()))?;
            let scheme = array.as_ref().map(|a| a.scheme).or(log.as_ref().map(|l| l.scheme));
            let kind = scheme.map_or(Ok(()), |scheme| ssd.is_said_for(scheme.0));
            kind.map_err(|message| impossible("ssd", message))?;
            cached
                .as_ref()
                .map_or(Ok(()), CachedSpec::check)
                .map_err(|e| impossible("cached", e.to_string()))?;
            if let Some(pdb) = pdb {
                let split = pdb.check().and(Pdb::parity_blocks(pdb, profile.geometry.blocks));
                let split = split.map_err(|e| impossible("pdb", e.to_string()))?;
                let possible = profile.with_blocks(split).check();
                possible.map_err(|e| impossible("pdb.parity", e.to_string()))?;
            }
            labelled.point.workload().map_err(|message| impossible("workload", message))?;
            run.check().map_err(|message| impossible("run", message))?;
        }
        Ok(())
    }
}

/// Lets `changes` replace what `table` has, table by table.
pub fn merge(table: &mut Table, changes: &Table) {
    for (key, change) in changes {
        match (table.get_mut(key), change) {
            (Some(Value::Table(inner)), Value::Table(changes)) => merge(inner, changes),
            _ => {
                table.insert(key.clone(), change.clone());
            }
        }
    }
}

/// Sets the value of a dotted key.
fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            let inner = inner.as_table_mut();
            set(inner.ok_or_else(|| format!("{first} is a value, it has no {rest}"))?, rest, value)
        }
    }
}

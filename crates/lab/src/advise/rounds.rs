//! The two rounds, and what follows from them.

use std::path::Path;
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use toml::Value;

use super::candidates::{Candidate, Question, QuestionError, candidates, with_other_chunks};
use super::doubt::Doubt;
use super::judge::{Beside, column};
use crate::measure::Figures;
use crate::results::{Record, VERSION};
use crate::run::RunEnd;
use crate::shard::{ShardError, run_shard};
use crate::sweep::Progress;
use crate::system::{ArraySpec, DriveError, LogSpec, SchemeName};
use crate::trace::TraceError;
use crate::workload::WorkloadError;

/// How many arrays are played in the second round beside plain.
const FINALISTS: usize = 3;

/// What is recommended instead of plain has to come to at most so much of it, and so have its latencies alone:
/// a policy is there for these, and a short run leaves part of what is staged to be written later.
const ENOUGH: f64 = 0.9;

/// A runner-up that is worse by less than this is told to be close.
const CLOSE: f64 = 0.05;

/// With a smaller share of the time in collection there is not much to go around.
const HARDLY: f64 = 0.002;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The question is impossible.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// There are no such drives.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The plain array can't be played.
    #[error("{name}: {error}")]
    Plain {
        /// Its name.
        name: String,
        /// Why not.
        error: ShardError,
    },
}

/// An array that was played.
#[derive(Clone, Debug)]
pub struct Row {
    /// The array.
    pub candidate: Candidate,
    /// Its figures, seed by seed.
    pub figures: Vec<Figures>,
    /// Beside the plain array, seed by seed.
    pub beside: Vec<Beside>,
}

/// What is recommended.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The arrays of the second round, the best first; those that could not keep up come last.
    pub rows: Vec<Row>,
    /// Which of them is recommended.
    pub recommended: usize,
    /// Which of them comes next.
    pub runner_up: Option<usize>,
    /// The other arrays of the first round, which were played briefly, the best first.
    pub others: Vec<Row>,
    /// What is in doubt.
    pub doubts: Vec<Doubt>,
}

impl Row {
    /// The mean over the seeds of its cost beside plain.
    #[must_use]
    pub fn cost(&self) -> f64 {
        mean(self.beside.iter().map(|beside| beside.cost))
    }

    /// The mean over the seeds of its latencies beside plain's.
    #[must_use]
    pub fn latency(&self) -> f64 {
        mean(self.beside.iter().map(|beside| beside.latency))
    }

    /// The mean over the seeds of a figure, by the name of its column in [`COLUMNS`](crate::results::COLUMNS).
    #[must_use]
    pub fn figure(&self, name: &str) -> f64 {
        mean(self.figures.iter().map(column(name).value))
    }

    /// Whether it kept up in each run.
    #[must_use]
    pub fn keeps_up(&self) -> bool {
        self.figures.iter().all(|figures| figures.end != RunEnd::Overloaded)
    }

    /// Whether it is the array that others are compared with.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let point = &self.candidate.point;
        let is_usual = |array: &ArraySpec| array.chunk == LogSpec::CHUNK;
        point
            .array
            .as_ref()
            .is_some_and(|array| array.scheme == SchemeName::default() && is_usual(array))
    }
}

impl Advice {
    /// The second round as results, for a report of that title.
    #[must_use]
    pub fn records(&self, title: &str) -> Vec<Record> {
        let shards = self.rows.iter().map(|row| row.figures.len() as u64).sum();
        let all = self.rows.iter().flat_map(|row| (1..).zip(&row.figures).map(move |of| (row, of)));
        let record = |(shard, (row, (seed, figures))): (u64, (&Row, (u64, &Figures)))| Record {
            version: VERSION,
            experiment: title.to_owned(),
            shard,
            shards,
            variant: Some(row.candidate.name.clone()),
            swept: Vec::<(String, Value)>::new(),
            seed,
            point: row.candidate.point.clone(),
            figures: figures.clone(),
        };
        (0..).zip(all).map(record).collect()
    }
}

/// Answers a question. Relative paths in it are relative to `base`.
///
/// # Errors
/// If the question is impossible, or the plain array can't be played.
pub fn advise(
    question: &Question,
    base: &Path,
    progress: &Progress,
) -> Result<Advice, AdviceError> {
    question.check()?;
    let obeys = question.ssd.profile(base)?.obeys;
    let mut doubts = Vec::new();
    let (question, mut first) = first_round(question, obeys, base, progress, &mut doubts)?;
    sort(&mut first);
    let plain = first.iter().position(Row::is_plain).unwrap_or_default();
    let plain = first.remove(plain);
    let best = first.iter().filter(|row| row.keeps_up()).take(FINALISTS);
    let mut finalists: Vec<Candidate> = best.map(|row| row.candidate.clone()).collect();
    first.retain(|row| !finalists.contains(&row.candidate));
    let array = finalists.iter().find(|candidate| candidate.point.array.is_some());
    let chunks = with_other_chunks(&question, array.unwrap_or(&plain.candidate));
    finalists.insert(0, plain.candidate);
    finalists.extend(chunks);
    let seeds = question.seeds.into();
    let played = play(&finalists, question.requests, seeds, base, progress);
    let mut rows = compared(finalists, played, &mut doubts)?;
    sort(&mut rows);
    Ok(conclude(rows, first, doubts, question.drive_bytes))
}

/// Plays all arrays briefly. A trace that touches more than they have is wrapped.
fn first_round(
    question: &Question,
    obeys: bool,
    base: &Path,
    progress: &Progress,
    doubts: &mut Vec<Doubt>,
) -> Result<(Question, Vec<Row>), AdviceError> {
    let round = |question: &Question| {
        let all = candidates(question, obeys);
        let played = play(&all, (question.requests / 3).max(1), 1, base, progress);
        (all, played)
    };
    let (all, played) = round(question);
    let wider = |outcome: &Outcome| {
        matches!(
            outcome.first(),
            Some(Err(ShardError::Workload(WorkloadError::Trace(
                TraceError::Wider { .. } | TraceError::Beyond { .. }
            ))))
        )
    };
    if !played.iter().any(wider) {
        let rows = compared(all, played, doubts)?;
        return Ok((question.clone(), rows));
    }
    let mut question = question.clone();
    if let Some(Value::Table(trace)) = question.workload.get_mut("trace") {
        trace.insert("fit".into(), "wrap".into());
    }
    doubts.push(Doubt::Wrapped);
    let (all, played) = round(&question);
    let rows = compared(all, played, doubts)?;
    Ok((question, rows))
}

/// What came of an array, seed by seed.
type Outcome = Vec<Result<Figures, ShardError>>;

/// Plays arrays with so many requests and seeds, on all cores.
fn play(
    all: &[Candidate],
    requests: u64,
    seeds: u64,
    base: &Path,
    progress: &Progress,
) -> Vec<Outcome> {
    progress.shards.fetch_add(all.len() as u64 * seeds, Ordering::Relaxed);
    let one = |candidate: &Candidate, seed: u64| {
        let mut point = candidate.point.clone();
        point.run.requests = Some(requests);
        point.run.warmup = requests / 10;
        let figures = run_shard(&point, seed, base, &progress.requests);
        progress.done.fetch_add(1, Ordering::Relaxed);
        figures
    };
    let of = |candidate| (1..=seeds).into_par_iter().map(|seed| one(candidate, seed)).collect();
    all.par_iter().map(of).collect()
}

/// Compares what was played with the first one. What could not be played is left out.
fn compared(
    all: Vec<Candidate>,
    played: Vec<Outcome>,
    doubts: &mut Vec<Doubt>,
) -> Result<Vec<Row>, AdviceError> {
    let mut rows: Vec<Row> = Vec::new();
    for (candidate, outcome) in all.into_iter().zip(played) {
        let figures = match outcome.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(figures) => figures,
            Err(error) if rows.is_empty() => {
                return Err(AdviceError::Plain { name: candidate.name, error });
            }
            Err(error) => {
                let (name, why) = (candidate.name, error.to_string());
                doubts.push(Doubt::Impossible { name, why });
                continue;
            }
        };
        let plain = rows.first().map_or(&figures, |plain| &plain.figures);
        let beside = figures.iter().zip(plain).map(|(figures, plain)| Beside::of(figures, plain));
        let beside = beside.collect();
        rows.push(Row { candidate, figures, beside });
    }
    Ok(rows)
}

/// The best first.
fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| b.keeps_up().cmp(&a.keeps_up()).then(a.cost().total_cmp(&b.cost())));
}

/// What follows from the second round, whose rows are in order.
fn conclude(rows: Vec<Row>, others: Vec<Row>, mut doubts: Vec<Doubt>, drive_bytes: u64) -> Advice {
    let plain = rows.iter().position(Row::is_plain).unwrap_or_default();
    let is_enough = |row: &Row| {
        let beats = row.beside.iter().all(|beside| beside.cost < 1.0);
        let alone = row.keeps_up() && !rows[plain].keeps_up();
        let gains = row.cost() <= ENOUGH && row.latency() <= ENOUGH;
        alone || (row.keeps_up() && beats && gains)
    };
    let recommended = rows.iter().position(is_enough).unwrap_or(plain);
    let best = rows.iter().position(|row| row.keeps_up() && !row.is_plain());
    if let Some(best) = best.filter(|_| recommended == plain).map(|best| &rows[best])
        && best.cost() < 1.0
    {
        doubts.push(Doubt::NotEnough { best: best.candidate.name.clone(), cost: best.cost() });
    }
    let runner_up = (0..rows.len()).find(|&index| index != recommended && rows[index].keeps_up());
    if let Some(next) = runner_up.map(|index| &rows[index]).filter(|_| recommended != plain) {
        let (first, name) = (&rows[recommended], next.candidate.name.clone());
        let by = next.cost() / first.cost() - 1.0;
        let pairs = || next.beside.iter().zip(&first.beside);
        if pairs().any(|(next, first)| next.cost < first.cost) {
            doubts.push(Doubt::SeedsDisagree { runner_up: name });
        } else if by < CLOSE {
            doubts.push(Doubt::Close { runner_up: name, by });
        }
    }
    let duty = rows[plain].figure("GC duty");
    if duty < HARDLY {
        doubts.push(Doubt::HardlyCollects { duty });
    }
    let slow = rows.iter().chain(&others).filter(|row| !row.keeps_up());
    let slow: Vec<_> = slow.map(|row| row.candidate.name.clone()).collect();
    if rows.iter().all(|row| !row.keeps_up()) {
        doubts.push(Doubt::AllOverloaded);
    } else {
        doubts.extend(slow.into_iter().map(|name| Doubt::Overloaded { name }));
    }
    doubts.push(Doubt::Small { bytes: drive_bytes });
    Advice { rows, recommended, runner_up, others, doubts }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

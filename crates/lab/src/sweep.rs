//! Runs the shards of an experiment on all cores.
//!
//! Invariants:
//! - A shard's result is on disk, as a line of its own, before the shard counts as done. So no
//!   shard is repeated after an interruption.
//! - When all are done, the file holds them in order, whatever the order in which they ended.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

use crate::calibrate::{CalibrateError, calibrated};
use crate::experiment::{Experiment, Labelled};
use crate::results::{self, Record, ResultsError, VERSION, read, shards};
use crate::shard::{ShardError, run_shard};

/// Which of the shards to run, and on how many cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Every `of`-th shard, beginning with this one, from 0.
    pub part: u64,
    /// Into how many parts the shards are divided.
    pub of: u64,
    /// Threads; zero is one for each core.
    pub threads: usize,
}

impl Default for Share {
    /// All shards, on all cores.
    fn default() -> Self {
        Self { part: 0, of: 1, threads: 0 }
    }
}

/// Progress, for display.
#[derive(Debug, Default)]
pub struct Progress {
    /// Shards that are to be done.
    pub shards: AtomicU64,
    /// Shards of these that are done, or had been done before.
    pub done: AtomicU64,
    /// Requests that have ended.
    pub requests: AtomicU64,
}

/// Why a sweep ended early.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A shard can't be run.
    #[error("{}seed {seed}: {error}", prefix(label))]
    Shard {
        /// The point; empty if there is only one.
        label: String,
        /// The seed.
        seed: u64,
        /// Why.
        error: ShardError,
    },
    /// The load of a point can't be found.
    #[error("{}{error}", prefix(label))]
    Calibrate {
        /// The swept values.
        label: String,
        /// Why.
        error: CalibrateError,
    },
    /// Results can't be read or written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The file has results of another experiment.
    #[error(
        "{} holds results that this experiment does not have (shard {shard} of \"{experiment}\"): \
         give another file, or begin afresh",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The first such result.
        shard: u64,
        /// Its experiment.
        experiment: String,
    },
    /// There are no threads.
    #[error("threads can't be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

fn prefix(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!("{label}, ") }
}

/// A shard that is to be run.
struct Todo<'a> {
    index: u64,
    labelled: &'a Labelled,
    seed: u64,
}

/// Runs the shards that `out` doesn't have yet, and returns all results of this share in order.
///
/// # Errors
/// If a shard can't be run, or `out` can't be written or has results of another experiment. Results
/// so far are in `out`.
pub fn sweep(
    experiment: &Experiment,
    out: &Path,
    share: Share,
    progress: &Progress,
) -> Result<Vec<Record>, SweepError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(share.threads).build()?;
    let before = if out.exists() { read(out)? } else { Vec::new() };
    let points = pool.install(|| calibrated(experiment, &before, &progress.requests));
    let points = points.map_err(|(label, error)| SweepError::Calibrate { label, error })?;
    let all: Vec<Todo<'_>> = (0..)
        .zip(shards(&points))
        .map(|(index, (labelled, seed))| Todo { index, labelled, seed })
        .collect();
    let count = all.len() as u64;
    let done = done(experiment, out, &before, &all)?;
    let mine = |todo: &&Todo<'_>| todo.index % share.of == share.part;
    let todo: Vec<_> = all.iter().filter(mine).filter(|todo| !done.contains(&todo.index)).collect();
    progress.shards.store((todo.len() + before.len()) as u64, Ordering::Relaxed);
    progress.done.store(before.len() as u64, Ordering::Relaxed);
    // Without a torn last line.
    results::write(out, &before)?;
    let file = OpenOptions::new().append(true).open(out).map_err(|error| file_error(out, error))?;
    let collected = Mutex::new((file, before));
    let failed = AtomicBool::new(false);
    let one = |todo: &&Todo<'_>| -> Result<(), SweepError> {
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Todo { index, labelled, seed } = **todo;
        let result = run_shard(&labelled.point, seed, &experiment.base, &progress.requests);
        let figures = result.map_err(|error| {
            failed.store(true, Ordering::Relaxed);
            SweepError::Shard { label: labelled.label(), seed, error }
        })?;
        let record = Record {
            version: VERSION,
            experiment: experiment.title.clone(),
            shard: index,
            shards: count,
            variant: labelled.variant.clone(),
            swept: labelled.swept.clone(),
            seed,
            point: labelled.point.clone(),
            figures,
        };
        let mut collected = collected.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        append(&mut collected.0, &record).map_err(|error| file_error(out, error))?;
        collected.1.push(record);
        progress.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    // One at a time to each thread: shards differ in length.
    pool.install(|| todo.par_iter().with_max_len(1).try_for_each(one))?;
    let (_, mut records) =
        collected.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    records.sort_by_key(|record| record.shard);
    results::write(out, &records)?;
    Ok(records)
}

/// Which shards have been run before.
fn done(
    experiment: &Experiment,
    out: &Path,
    before: &[Record],
    all: &[Todo<'_>],
) -> Result<BTreeSet<u64>, SweepError> {
    let mut done = BTreeSet::new();
    for record in before {
        let todo = usize::try_from(record.shard).ok().and_then(|index| all.get(index));
        let same = |todo: &&Todo<'_>| record.is_of(todo.labelled, todo.seed);
        let Some(todo) = todo.filter(same).filter(|_| record.experiment == experiment.title) else {
            return Err(SweepError::Foreign {
                path: out.to_path_buf(),
                shard: record.shard,
                experiment: record.experiment.clone(),
            });
        };
        done.insert(todo.index);
    }
    Ok(done)
}

fn append(file: &mut File, record: &Record) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

fn file_error(path: &Path, error: std::io::Error) -> ResultsError {
    ResultsError::File { path: path.to_path_buf(), error }
}

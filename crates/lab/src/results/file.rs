//! Files of results.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Record, VERSION};

/// Why results can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file can't be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A line is not a result.
    #[error("{}, line {line}: this is no result of a shard: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What was expected.
        message: String,
    },
    /// Another version wrote it.
    #[error(
        "{}, line {line}: this result is of version {found}, and this program knows version \
         {VERSION}: run the experiment again",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The line's version.
        found: u64,
    },
    /// The experiment's file has changed since they were made.
    #[error(
        "shard {shard} of \"{experiment}\" is not of the experiment as it is now: run it again"
    )]
    Stale {
        /// The experiment.
        experiment: String,
        /// The first such shard.
        shard: u64,
    },
    /// Two results of the same shard differ.
    #[error(
        "shard {shard} of \"{experiment}\" (seed {seed}) is there twice, with different figures: \
         they are of different versions of the program or of a trace"
    )]
    Conflict {
        /// The experiment.
        experiment: String,
        /// The shard.
        shard: u64,
        /// Its seed.
        seed: u64,
    },
}

/// Reads a file of results. An incomplete last line was cut off when the program was stopped: it is
/// left out.
///
/// # Errors
/// If it can't be read, or holds something else.
pub fn read(path: &Path) -> Result<Vec<Record>, ResultsError> {
    let failed = |error| ResultsError::File { path: path.to_path_buf(), error };
    let text = fs::read_to_string(path).map_err(failed)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| parse(path, index + 1, line)).collect()
}

fn parse(path: &Path, number: usize, line: &str) -> Result<Record, ResultsError> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u64,
    }
    let wrong = |error: serde_json::Error| ResultsError::Line {
        path: path.to_path_buf(),
        line: number,
        message: error.to_string(),
    };
    let Version { version: found } = serde_json::from_str(line).map_err(wrong)?;
    if found != u64::from(VERSION) {
        return Err(ResultsError::Version { path: path.to_path_buf(), line: number, found });
    }
    serde_json::from_str(line).map_err(wrong)
}

/// Writes a file of results, all or nothing.
///
/// # Errors
/// If it can't be written.
pub fn write(path: &Path, records: &[Record]) -> Result<(), ResultsError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let all = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(File::create(&temporary)?);
        for record in records {
            serde_json::to_writer(&mut file, record)?;
            file.write_all(b"\n")?;
        }
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&temporary, path)
    };
    all().map_err(|error| ResultsError::File { path: path.to_path_buf(), error })
}

/// Joins results of several files: each shard once, by experiment, then in order.
///
/// # Errors
/// If the same shard has two different results.
pub fn merge(files: Vec<Vec<Record>>) -> Result<Vec<Record>, ResultsError> {
    let mut titles: Vec<String> = Vec::new();
    let mut keyed: Vec<(usize, Record)> = Vec::new();
    for record in files.into_iter().flatten() {
        let known = titles.iter().position(|title| *title == record.experiment);
        let title = known.unwrap_or_else(|| {
            titles.push(record.experiment.clone());
            titles.len() - 1
        });
        keyed.push((title, record));
    }
    keyed.sort_by_key(|(title, record)| (*title, record.shard));
    let mut merged: Vec<Record> = Vec::new();
    for (_, record) in keyed {
        match merged.last() {
            Some(last) if last.experiment == record.experiment && last.shard == record.shard => {
                if *last != record {
                    let Record { experiment, shard, seed, .. } = record;
                    return Err(ResultsError::Conflict { experiment, shard, seed });
                }
            }
            _ => merged.push(record),
        }
    }
    Ok(merged)
}

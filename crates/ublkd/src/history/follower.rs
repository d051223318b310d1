//! Follows the histories of a machine's arrays, as they are written by other processes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Entry, files, kept, read};

/// A reader that remembers what it has read.
#[derive(Debug)]
pub struct Follower {
    state_dir: PathBuf,
    name: Option<String>,
    seen: BTreeMap<String, Seen>,
}

/// How much of a history is known.
#[derive(Debug, Default)]
struct Seen {
    number: u64,
    /// The file and its length.
    state: Option<(u64, u64)>,
}

impl Follower {
    /// Follows the array called `name`, or all that have a history in `state_dir` or get one.
    #[must_use]
    pub fn new(state_dir: &Path, name: Option<&str>) -> Self {
        Self { state_dir: state_dir.into(), name: name.map(str::to_owned), seen: BTreeMap::new() }
    }

    /// Entries of this array up to a number are known.
    pub fn seen(&mut self, name: &str, number: u64) {
        self.seen.entry(name.to_owned()).or_default().number = number;
    }

    /// The entries that are new, each with its array; the oldest of an array first.
    ///
    /// # Errors
    /// If a history can't be read.
    pub fn news(&mut self) -> io::Result<Vec<(String, Entry)>> {
        let names = match &self.name {
            Some(name) => vec![name.clone()],
            None => kept(&self.state_dir)?,
        };
        let mut news = Vec::new();
        for name in names {
            let seen = self.seen.entry(name.clone()).or_default();
            let [_, file] = files(&self.state_dir, &name);
            let state = fs::metadata(file).ok().map(|file| (file.ino(), file.len()));
            if state.is_none() || state == seen.state {
                continue;
            }
            for entry in read(&self.state_dir, &name, seen.number)? {
                seen.number = entry.number;
                news.push((name.clone(), entry));
            }
            seen.state = state;
        }
        Ok(news)
    }
}

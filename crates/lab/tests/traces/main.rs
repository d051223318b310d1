//! Readers of traces, on small ones written for the purpose.

mod compressed;
mod formats;
mod hostile;
mod info;

use std::fs;
use std::path::{Path, PathBuf};

use lab::trace::{Record, Selection, Trace, TraceError};
use tempfile::TempDir;

/// A directory with traces in it.
struct Shelf(TempDir);

impl Shelf {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn read(path: &Path) -> Result<Vec<Record>, TraceError> {
    select(path, &Selection::default())
}

fn select(path: &Path, selection: &Selection) -> Result<Vec<Record>, TraceError> {
    Trace::open(path, selection)?.collect()
}

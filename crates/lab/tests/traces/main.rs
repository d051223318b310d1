//! Readers of traces, on small handwritten ones.

mod compressed;
mod formats;
mod hostile;
mod info;
mod replay;

use std::fs;
use std::path::{Path, PathBuf};

use lab::trace::{Record, Selection, Trace, TraceError};
use lab::workload::{Arrival, Workload, WorkloadError};
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

    /// The requests of a `[workload.trace]` with these keys.
    fn replay(&self, keys: &str, capacity: u64) -> Result<Vec<Arrival>, WorkloadError> {
        let workload: Workload = toml::from_str(&format!("trace = {{ {keys} }}")).unwrap();
        workload.open(capacity, 1, self.0.path())?.collect()
    }
}

fn read(path: &Path) -> Result<Vec<Record>, TraceError> {
    select(path, &Selection::default())
}

fn select(path: &Path, selection: &Selection) -> Result<Vec<Record>, TraceError> {
    Trace::open(path, selection)?.collect()
}

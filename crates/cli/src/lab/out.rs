//! The files for results.

use std::path::{Path, PathBuf};

use crate::args::Part;

/// The default file for the results of a part of an experiment.
pub(super) fn default_out(experiment: &Path, Part { part, of }: Part) -> PathBuf {
    let name = experiment.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(match of {
        1 => format!("{name}.jsonl"),
        _ => format!("{name}.{part}-of-{of}.jsonl"),
    })
}

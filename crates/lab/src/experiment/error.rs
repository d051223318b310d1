use std::path::PathBuf;

/// Why a file is not an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// It can't be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It is no TOML, or has keys that an experiment doesn't have.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column, and what was expected.
        message: String,
    },
    /// It is an experiment with an impossible point.
    #[error("{}, line {line}: {what}: {message}", path.display())]
    Point {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The table or key, and the variant or swept values.
        what: String,
        /// What is wrong.
        message: String,
    },
}

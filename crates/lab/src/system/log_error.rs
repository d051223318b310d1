//! Why a log array can't be started.

use raidcore::meta::LayoutError;
use raidlog::ShapeError;

/// Why a log array can't be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its groups' shape is impossible.
    #[error("[log]: {0}")]
    Layout(#[from] LayoutError),
    /// The volume's is.
    #[error("[log]: {0}")]
    Shape(#[from] ShapeError),
    /// A size is no whole number of blocks, or too large.
    #[error("log.{0} must be a multiple of 4 KiB, and is at most 1 MiB for a chunk, 64 MiB else")]
    Size(&'static str),
    /// The scheme stages writes, and there is nowhere to.
    #[error("log.scheme = \"{0}\" stages writes, and the arrays under a log have no staging log")]
    NoStaging(String),
    /// The number of SSDs is missing.
    #[error("log.members is missing: how many SSDs does {0} have?")]
    Members(raidlog::Layout),
}

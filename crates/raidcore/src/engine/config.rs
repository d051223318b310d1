//! How an engine works: what it takes, and how fast it goes in the background.

use core::time::Duration;

use super::{Pace, RebuildOrder, Slowdown};

/// The sizes of the engine's tables, and its pace.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Requests that users can have in flight; their tags are below it.
    pub tags: u16,
    /// Stripes that can be worked on at once.
    pub jobs: u16,
    /// Stripes of these that are kept for background work: fewer than all.
    pub background_jobs: u16,
    /// Scratch memory in blocks, at least what one stripe needs is taken.
    pub scratch_blocks: u32,
    /// Memory in blocks, in addition to the scratch memory, for old data and parity of what is written
    /// again and again. With 0, each partial write reads them.
    pub warm_blocks: u32,
    /// Memory in blocks, in addition to that, for what is staged: it is copied there, and what comes home or is
    /// read by users is not read from the staging log. With 0, all of it is.
    pub staged_blocks: u32,
    /// How many blocks of each member a reshape moves at a time; users' requests for what is being moved
    /// wait. At least one stripe is.
    pub reshape_blocks: u32,
    /// The pace of background work.
    pub pace: Pace,
    /// How much users may feel of it: as long as they do not feel more, it goes faster than the least pace.
    pub slowdown: Option<Slowdown>,
    /// In which order redundancy is brought back.
    pub rebuild_order: &'static RebuildOrder,
    /// How long a region is left alone before its bit is cleared, how often the watermark of a rebuild is
    /// made durable, how long after the last write was staged they come home while users are busy, and for
    /// how long what was written again and again is kept in memory afterwards.
    pub quiesce_delay: Duration,
    /// What was discarded may read as anything once it is written again and a crash cuts that
    /// short; otherwise it reads as zeros, which costs a flush when it is written again.
    pub undefined_discards: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tags: 128,
            jobs: 256,
            background_jobs: 16,
            scratch_blocks: 8192,
            warm_blocks: 0,
            staged_blocks: 0,
            reshape_blocks: 256,
            pace: Pace::default(),
            slowdown: Some(Slowdown::default()),
            rebuild_order: <&RebuildOrder>::default(),
            quiesce_delay: Duration::from_secs(5),
            undefined_discards: false,
        }
    }
}

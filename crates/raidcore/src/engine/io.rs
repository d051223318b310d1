//! What a job reads and writes: a plan's I/Os become devices' I/Os.

use alloc::vec::Vec;

use crate::plan::{Bad, SubIo};
use crate::units::MemberId;

/// A block of a failed read that is being tried by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// Which of the plan's reads it is.
    pub(super) index: u16,
    /// The blocks after it.
    pub(super) rest: Option<SubIo>,
}

/// What was tried of a job's reads that failed.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// Which of the plan's reads failed on which members, and were tried on others.
    pub(super) tried: Vec<(u16, MemberId)>,
    /// What was read from another copy then.
    pub(super) weak: Vec<Bad>,
    /// Reads that failed and are to be tried block by block.
    pub(super) scans: Vec<SubIo>,
    /// The block being tried.
    pub(super) scan: Option<Scan>,
}

impl Retries {
    pub(super) fn clear(&mut self) {
        self.tried.clear();
        self.weak.clear();
        self.scans.clear();
        self.scan = None;
    }
}

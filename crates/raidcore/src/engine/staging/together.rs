//! Writes that go to the staging log at the same moment, and share a header there (group commit: DeWitt et al.,
//! "Implementation techniques for main memory database systems"). None waits longer for it: they are
//! gathered until the host has told all that has happened by then.

use alloc::vec::Vec;

use det::Instant;

use super::Size;
use crate::engine::JobId;
use crate::meta::SHARED_MAX;

/// The most blocks of a write that is gathered: of a larger one the header is a small part.
const LARGEST: u32 = 16;

/// The most blocks of payload that share a header: what is written last waits for the first of them.
const MOST: u32 = 128;

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Together {
    jobs: Vec<JobId>,
    size: Size,
    since: Instant,
}

impl Together {
    /// Whether a write of this size is one that others may share a header with.
    pub(in crate::engine) fn takes(size: Size) -> bool {
        size.entries().1 <= LARGEST
    }

    /// How large all are with one more; none if they would be too many.
    pub(in crate::engine) fn with(&self, size: Size) -> Option<Size> {
        let all = self.size.plus(size);
        let (writes, blocks) = all.entries();
        (writes <= SHARED_MAX && blocks <= MOST).then_some(all)
    }

    /// A job waits for others at this moment, which makes them so large.
    pub(in crate::engine) fn add(&mut self, id: JobId, all: Size, now: Instant) {
        if self.jobs.is_empty() {
            self.since = now;
        }
        self.size = all;
        self.jobs.push(id);
    }

    /// When they are to wait no more.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        (!self.jobs.is_empty()).then_some(self.since)
    }

    /// Those that have waited, and how large they are. [`Together::end`] takes them back.
    pub(in crate::engine) fn begin(&mut self) -> (Vec<JobId>, Size) {
        (core::mem::take(&mut self.jobs), core::mem::take(&mut self.size))
    }

    /// They have been seen to.
    pub(in crate::engine) fn end(&mut self, mut jobs: Vec<JobId>) {
        jobs.clear();
        self.jobs = jobs;
    }
}

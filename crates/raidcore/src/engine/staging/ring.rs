//! The part of the staging log that a member has.

use alloc::collections::VecDeque;

/// A member's part of the log, or a staging device's.
#[derive(Debug)]
pub(super) struct Ring {
    /// Its blocks.
    pub(super) len: u64,
    pub(super) head: u64,
    /// The entries that are there, each with where it begins.
    pub(super) entries: VecDeque<(u64, u64)>,
}

impl Ring {
    /// An empty one of so many blocks.
    pub(super) fn new(len: u64) -> Self {
        Self { len, head: 0, entries: VecDeque::new() }
    }

    /// Where so many contiguous blocks are free.
    pub(super) fn room(&self, blocks: u64) -> Option<u64> {
        let len = self.len;
        let Some(&(_, oldest)) = self.entries.front() else {
            let at = if self.head + blocks <= len { self.head } else { 0 };
            return (blocks <= len).then_some(at);
        };
        if self.head <= oldest {
            (self.head + blocks <= oldest).then_some(self.head)
        } else if self.head + blocks <= len {
            Some(self.head)
        } else {
            (blocks <= oldest).then_some(0)
        }
    }

    pub(super) fn used(&self) -> u64 {
        let oldest = self.entries.front().map_or(self.head, |&(_, at)| at);
        if self.entries.is_empty() || self.head > oldest {
            self.head - oldest
        } else {
            self.len + self.head - oldest
        }
    }
}

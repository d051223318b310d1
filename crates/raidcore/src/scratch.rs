//! Scratch buffers by number. A job gets all that it needs at once, first come, first served.
//!
//! Invariants: a buffer is free or belongs to one job. Jobs are served in the order in which they
//! wait, so none starves. A job waits for buffers only while it holds none.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The free buffers, and the jobs that wait for some.
pub struct Scratch<J> {
    free: Vec<u16>,
    total: usize,
    waiters: VecDeque<(J, usize)>,
}

impl<J: Copy> Scratch<J> {
    /// Buffers `0..count`, and a queue with room for `waiters`.
    #[must_use]
    pub fn new(count: u16, waiters: usize) -> Self {
        Self {
            free: (0..count).rev().collect(),
            total: usize::from(count),
            waiters: VecDeque::with_capacity(waiters),
        }
    }

    /// How many buffers there are.
    #[must_use]
    pub fn total(&self) -> u16 {
        self.total as u16
    }

    /// The free buffers. Their content is void.
    #[must_use]
    pub fn free(&self) -> &[u16] {
        &self.free
    }

    /// Takes `count` buffers through `take`, or joins the queue; returns whether they were taken.
    ///
    /// # Panics
    /// If there are not that many in all.
    pub fn acquire(&mut self, job: J, count: usize, take: impl FnMut(u16)) -> bool {
        assert!(count <= self.total, "a job fits into the scratch buffers");
        if count == 0 {
            return true;
        }
        if !self.waiters.is_empty() || self.free.len() < count {
            self.waiters.push_back((job, count));
            return false;
        }
        self.free.drain(self.free.len() - count..).for_each(take);
        true
    }

    /// Gives a buffer back.
    pub fn release(&mut self, buffer: u16) {
        self.free.push(buffer);
        assert!(self.free.len() <= self.total, "a buffer was given back twice");
    }

    /// The first job in the queue, if there are enough buffers for it now. It leaves the queue and
    /// must take its buffers through [`Scratch::take`] at once.
    pub fn next_served(&mut self) -> Option<J> {
        let &(job, count) = self.waiters.front()?;
        (self.free.len() >= count).then(|| {
            self.waiters.pop_front();
            job
        })
    }

    /// Takes the buffers that [`Scratch::next_served`] has promised.
    ///
    /// # Panics
    /// If they are not there.
    pub fn take(&mut self, count: usize, take: impl FnMut(u16)) {
        let rest = self.free.len().checked_sub(count).expect("the buffers were promised");
        self.free.drain(rest..).for_each(take);
    }

    /// Whether all buffers are free and no job waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.total && self.waiters.is_empty()
    }
}

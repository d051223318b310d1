//! The events to come, ordered by time; those of equal times in the order in which they were
//! scheduled.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A die is done, unless it has begun something else since.
    Die { die: u32, begun: u32 },
    /// A die has been idle for as long as background collection waits, unless it was busy in
    /// between.
    Idle { die: u32, begun: u32 },
    /// A command has arrived, with its data.
    Arrived { command: u32 },
    /// The answer to a command has reached the host.
    Answered { command: u32 },
    /// A use of a channel that brings commands has ended.
    Channel { channel: u32 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
}

impl Events {
    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.heap.push(Reverse((time, self.scheduled, event)));
        self.scheduled += 1;
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    /// The next event that is due at `now`.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, Event)> {
        if self.first()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

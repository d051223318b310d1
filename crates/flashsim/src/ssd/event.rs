//! The events to come, ordered by time; those of equal times in the order in which they were
//! scheduled.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// An event with its time and its number. What comes first is the greatest, as the heap wants it.
#[derive(Clone, Copy, Debug)]
struct Scheduled {
    time: u64,
    number: u64,
    event: Event,
}

impl Scheduled {
    /// Time and number as one number: no two have the same.
    fn key(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.number)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Scheduled>,
    scheduled: u64,
}

impl Events {
    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.heap.push(Scheduled { time, number: self.scheduled, event });
        self.scheduled += 1;
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.heap.peek().map(|first| first.time)
    }

    /// The next event that is due at `now`.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, Event)> {
        if self.first()? > now {
            return None;
        }
        self.heap.pop().map(|Scheduled { time, event, .. }| (time, event))
    }
}

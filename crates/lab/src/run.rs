//! One run: a workload on a system, from the first request to the last.
//!
//! A request's latency counts from its arrival, not from when there was room for it. So in an open
//! loop the requests that arrive during a stall count, too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use det::Instant;
use flashsim::Ssd;
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::measure::Meter;
use crate::system::{Request, System, Told};
use crate::workload::{Arrival, Kind, Pace, WorkloadError};

/// `[run]`: its length, and the number of seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Requests to measure. A trace may end before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// The time that is measured, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Requests before the measurement.
    #[serde(default)]
    pub warmup: u64,
    /// The queue depth of the system: other requests wait outside, as in the kernel's queue.
    #[serde(default = "depth")]
    pub queue_depth: u16,
    /// How often to repeat the run with other random numbers.
    #[serde(default = "one")]
    pub seeds: u32,
}

fn depth() -> u16 {
    256
}

fn one() -> u32 {
    1
}

/// The most requests that may wait outside: with an overloaded system their number would grow
/// without bound.
pub const WAITING_MAX: usize = 1_000_000;

impl RunSpec {
    /// Checks it.
    ///
    /// # Errors
    /// What is impossible, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.queue_depth == 0 {
            return Err("run.queue_depth is 0, but must be at least 1".into());
        }
        if self.seeds == 0 {
            return Err("run.seeds is 0, but must be at least 1".into());
        }
        match self.seconds {
            Some(seconds) if !(seconds > 0.0 && seconds <= 1e9) => {
                Err(format!("run.seconds is {seconds}, but must be positive and at most 1e9"))
            }
            _ => Ok(()),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// With the last request that was wanted.
    Done,
    /// With the last one of the workload.
    Exhausted,
    /// More than [`WAITING_MAX`] requests were waiting: the system is overloaded.
    Overloaded,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    kind: Kind,
    came: Instant,
    blocks: u32,
    measured: bool,
}

/// See [`run`].
struct Runner<'a, T> {
    system: &'a mut T,
    spec: &'a RunSpec,
    meter: Meter,
    told: Told,
    now: Instant,
    start: Instant,
    free: Vec<u16>,
    flights: Vec<Flight>,
    /// Requests that have come and found no room.
    waiting: VecDeque<(Flight, u64)>,
    came: u64,
    last: Option<u64>,
    under_way: usize,
    uncounted: u64,
}

/// Runs a workload on a system from `start` on, and returns the measurements. `told` has the events
/// of the system so far; `count` is updated with the number of requests that have ended.
///
/// # Errors
/// If the workload can't be read on.
pub fn run<T: System>(
    system: &mut T,
    start: Instant,
    workload: impl Iterator<Item = Result<Arrival, WorkloadError>>,
    pace: Pace,
    spec: &RunSpec,
    told: Told,
    count: &AtomicU64,
) -> Result<(Meter, RunEnd), WorkloadError> {
    let depth = system.depth();
    let mut runner = Runner {
        meter: Meter::new(system.ssds().count()),
        system,
        spec,
        told,
        now: start,
        start,
        free: (0..depth).rev().collect(),
        flights: vec![
            Flight { kind: Kind::Flush, came: start, blocks: 0, measured: false };
            depth.into()
        ],
        waiting: VecDeque::new(),
        came: 0,
        last: spec.requests.map(|requests| spec.warmup + requests),
        under_way: 0,
        uncounted: 0,
    };
    let end = match pace {
        Pace::Open => runner.open(workload, count),
        Pace::Closed { depth, think } => runner.closed(workload, depth, think, count),
    }?;
    let Runner { mut meter, system, now, .. } = runner;
    meter.finish(now, system);
    Ok((meter, end))
}

/// Requests that end between updates of the counter.
const COUNT_EVERY: u64 = 1024;

impl<T: System> Runner<'_, T> {
    fn open(
        &mut self,
        mut workload: impl Iterator<Item = Result<Arrival, WorkloadError>>,
        count: &AtomicU64,
    ) -> Result<RunEnd, WorkloadError> {
        let mut upcoming = workload.next().transpose()?;
        let mut end = RunEnd::Exhausted;
        loop {
            if upcoming.is_some_and(|arrival| self.is_late(self.start + since(arrival.at))) {
                (upcoming, end) = (None, RunEnd::Done);
            }
            if self.waiting.len() > WAITING_MAX {
                (upcoming, end) = (None, RunEnd::Overloaded);
                self.waiting.clear();
            }
            let arrives = upcoming.map(|arrival| self.start + since(arrival.at));
            match (arrives, self.system.next()) {
                (Some(at), next) if next.is_none_or(|next| at <= next) => {
                    self.now = self.now.max(at);
                    if let Some(arrival) = upcoming {
                        self.come(&arrival, at);
                    }
                    upcoming = workload.next().transpose()?;
                }
                (_, Some(next)) if upcoming.is_some() || self.under_way > 0 => {
                    self.happen(next, arrives);
                }
                _ => return Ok(end),
            }
            self.flow(count);
        }
    }

    fn closed(
        &mut self,
        mut workload: impl Iterator<Item = Result<Arrival, WorkloadError>>,
        depth: u32,
        think: Duration,
        count: &AtomicU64,
    ) -> Result<RunEnd, WorkloadError> {
        // When each waiting user sends the next request; in order, since all have the same think
        // time.
        let mut users: VecDeque<Instant> = (0..depth).map(|_| self.start).collect();
        let mut end = RunEnd::Done;
        loop {
            let next = self.system.next();
            match users.front() {
                Some(&at) if next.is_none_or(|next| at <= next) => {
                    users.pop_front();
                    let arrival = if self.is_late(at) { None } else { workload.next() };
                    let Some(arrival) = arrival.transpose()? else {
                        if !self.is_late(at) {
                            end = RunEnd::Exhausted;
                        }
                        users.clear();
                        // A user that returns finds no more requests.
                        self.last = Some(self.came);
                        continue;
                    };
                    self.now = self.now.max(at);
                    self.come(&arrival, at);
                }
                _ if self.under_way == 0 && users.is_empty() => return Ok(end),
                _ => {
                    let Some(next) = next else { return Ok(end) };
                    self.happen(next, users.front().copied());
                }
            }
            let back = self.now + think;
            users.extend((0..self.flow(count)).map(|_| back));
        }
    }

    /// Whether requests at `at` are after the end.
    fn is_late(&self, at: Instant) -> bool {
        let time = self.spec.seconds.map(Duration::from_secs_f64);
        self.system.rebuilt().is_end
            || self.last.is_some_and(|last| self.came >= last)
            || time.zip(self.meter.start()).is_some_and(|(time, start)| at >= start + time)
    }

    /// A request has come.
    fn come(&mut self, arrival: &Arrival, at: Instant) {
        if self.came == self.spec.warmup {
            self.system.begin(self.now, &mut self.told);
            self.meter.begin(self.now);
        }
        self.came += 1;
        let measured = self.came > self.spec.warmup;
        let (lba, blocks) = self.blocks(arrival);
        let aligned = arrival.kind == Kind::Flush
            || arrival.offset.is_multiple_of(BLOCK_BYTES as u64)
                && arrival.bytes.is_multiple_of(BLOCK_BYTES as u32);
        if measured {
            self.meter.came(at, arrival.kind, (lba, blocks), aligned);
            if self.system.ssds().any(Ssd::is_erasing) {
                self.meter.came_during_erase();
            }
        }
        self.waiting.push_back((Flight { kind: arrival.kind, came: at, blocks, measured }, lba));
    }

    /// The blocks that a request touches, within the system.
    fn blocks(&self, arrival: &Arrival) -> (u64, u32) {
        if arrival.kind == Kind::Flush {
            return (0, 0);
        }
        let block = BLOCK_BYTES as u64;
        let end = arrival.offset.saturating_add(arrival.bytes.into()).div_ceil(block);
        let end = end.clamp(1, self.system.blocks());
        let first = (arrival.offset / block).min(end - 1);
        (first, (end - first) as u32)
    }

    /// Processes the next event, and those after it until requests end or the next one comes.
    fn happen(&mut self, next: Instant, comes: Option<Instant>) {
        let until = comes.unwrap_or(Instant(u64::MAX));
        self.now = self.system.poll_until(self.now.max(next), until, &mut self.told);
    }

    /// Processes completions and submits waiting requests, as long as there are any. Returns how
    /// many requests have ended.
    fn flow(&mut self, count: &AtomicU64) -> usize {
        let mut ended = 0;
        loop {
            ended += self.take_in(count);
            if self.waiting.is_empty() || self.free.is_empty() {
                return ended;
            }
            self.admit();
        }
    }

    fn admit(&mut self) {
        while !self.waiting.is_empty()
            && let Some(tag) = self.free.pop()
            && let Some((flight, lba)) = self.waiting.pop_front()
        {
            self.flights[usize::from(tag)] = flight;
            self.under_way += 1;
            let Flight { kind, blocks, .. } = flight;
            let request = Request { tag, kind, lba, blocks };
            self.system.submit(self.now, request, &mut self.told);
        }
    }

    fn take_in(&mut self, count: &AtomicU64) -> usize {
        for change in self.told.gc.drain(..) {
            self.meter.gc(change);
        }
        let ended = self.told.ended.len();
        for end in self.told.ended.drain(..) {
            let Flight { kind, came, measured, .. } = self.flights[usize::from(end.tag)];
            self.free.push(end.tag);
            self.under_way -= 1;
            if measured {
                self.meter.ended(self.now, kind, self.now - came, end);
            }
        }
        self.uncounted += ended as u64;
        if self.uncounted >= COUNT_EVERY || self.under_way == 0 {
            count.fetch_add(core::mem::take(&mut self.uncounted), Ordering::Relaxed);
        }
        ended
    }
}

fn since(at: Instant) -> Duration {
    at - Instant::ORIGIN
}

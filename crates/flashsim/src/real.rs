//! A drive in real time: the same model, driven by a clock, and addressed in bytes.
//!
//! The data is elsewhere, say in a file. The caller does its I/O there, begins the same request
//! here, and completes it when both have ended. This drive holds no data and so can't lose any: it
//! only says how long requests take.
//!
//! Invariants:
//! - Every request ends exactly once. A request that the model would keep for ever, because a die
//!   has no room and nothing to collect, ends when that is certain.
//! - The model sees each event at the event's own time, however late the caller polls: reported
//!   times are the model's.
//! - Memory is bounded.

use core::time::Duration;
use std::collections::VecDeque;

use det::Instant;
use serde::{Deserialize, Serialize};

use crate::ssd::{Command, Completion, GcOrder, Op, Pool, Ssd};
use crate::stats::Stats;

/// How many of the latest stretches of garbage collection are remembered.
pub const LOG_KEPT: usize = 1 << 15;

/// What is asked of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Read bytes.
    Read,
    /// Write bytes. Of pages that are written in part, the rest is read first.
    Write {
        /// They survive a power failure when it ends.
        durable: bool,
        /// Their [stream](Command::stream).
        stream: u16,
    },
    /// Forget the pages that lie within these bytes.
    Discard,
    /// All that was written before survives a power failure when it ends.
    Flush,
}

/// A request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The tag that it was begun with.
    pub tag: u64,
    /// When, on the caller's clock.
    pub at: Instant,
    /// Whether it had to wait for garbage collection.
    pub delayed_by_gc: bool,
}

/// A stretch of time during which at least one die collected garbage, in nanoseconds of the clock
/// of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcInterval {
    /// When it began.
    pub began: u64,
    /// When it ended; now, if it has not.
    pub ended: u64,
}

/// How a drive is. Unless said otherwise, since it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its profile's name.
    pub profile: String,
    /// Whether it tells the host when it collects.
    #[serde(default)]
    pub told: bool,
    /// Whether it takes orders of the host when to collect.
    #[serde(default)]
    pub obeys: bool,
    /// Pages programmed for each page that was written to it.
    pub waf: f64,
    /// Pages written to it.
    pub pages_written: u64,
    /// Pages that garbage collection moved.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks that are free now.
    pub free_blocks: u32,
    /// Blocks that there are.
    pub blocks: u32,
    /// How often a die collected without a break.
    pub gc_stretches: u64,
    /// The longest of these stretches.
    pub gc_longest_ns: u64,
    /// How long at least one die collected, since it was opened.
    pub gc_ns: u64,
    /// For how long it has been open.
    pub open_ns: u64,
    /// Commands that waited for garbage collection.
    pub delayed_by_gc: u64,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// Tells it from others at the same place.
    serial: u32,
    tag: u64,
    stage: NextStep,
    page: u32,
    pages: u32,
    /// Whether a flush follows the write.
    durable: bool,
    /// Of a write.
    stream: u16,
    /// Commands that have not ended.
    left: u32,
    delayed_by_gc: bool,
}

/// What a request does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    /// Carry out this.
    Do(Op),
    /// Read the pages at these ends that are written in part.
    ReadEdges { first: bool, last: bool },
    /// Nothing more.
    End,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct RealTime {
    ssd: Ssd,
    /// The same moment on the caller's clock, and in the model.
    opened: (Instant, Instant),
    before: Stats,
    flights: Pool<Flight>,
    serial: u32,
    ended: Vec<Ended>,
    log: VecDeque<GcInterval>,
    collecting_since: Option<Instant>,
    /// Scratch space.
    completions: Vec<Completion>,
}

impl RealTime {
    /// The drive goes on at `now`.
    #[must_use]
    pub fn new(ssd: Ssd, now: Instant) -> Self {
        Self {
            opened: (now, ssd.now()),
            before: ssd.stats(),
            flights: Pool::default(),
            serial: 0,
            ended: Vec::new(),
            log: VecDeque::new(),
            collecting_since: ssd.gc_state().since,
            completions: Vec::new(),
            ssd,
        }
    }

    /// Begins a request for `bytes` bytes from byte `at` on. What is beyond the drive's end ends at
    /// once.
    pub fn begin(&mut self, now: Instant, tag: u64, io: Io, at: u64, bytes: u64) {
        self.advance(now);
        let page_bytes = u64::from(self.ssd.geometry().page_bytes);
        let end = at.saturating_add(bytes);
        let (first, last) = (!at.is_multiple_of(page_bytes), !end.is_multiple_of(page_bytes));
        let (page, page_end) = match io {
            Io::Discard => (at.div_ceil(page_bytes), end / page_bytes),
            Io::Read | Io::Write { .. } => (at / page_bytes, end.div_ceil(page_bytes)),
            Io::Flush => (0, 0),
        };
        let volatile = self.ssd.profile().buffer.is_some_and(|buffer| !buffer.power_safe);
        let (durable, stream) = match io {
            Io::Write { durable, stream } => (durable && volatile, stream),
            Io::Read | Io::Discard | Io::Flush => (false, 0),
        };
        let stage = match io {
            Io::Read => NextStep::Do(Op::Read),
            Io::Write { .. } if first || last => NextStep::ReadEdges { first, last },
            Io::Write { .. } => NextStep::Do(Op::Write),
            Io::Discard => NextStep::Do(Op::Trim),
            Io::Flush => NextStep::Do(Op::Flush),
        };
        self.serial = self.serial.wrapping_add(1);
        let id = self.flights.add(Flight {
            serial: self.serial,
            tag,
            stage,
            page: u32::try_from(page).unwrap_or(u32::MAX),
            pages: u32::try_from(page_end.saturating_sub(page)).unwrap_or(u32::MAX),
            durable,
            stream,
            left: 0,
            delayed_by_gc: false,
        });
        self.proceed(id);
        self.observe();
    }

    /// When [`RealTime::poll`] is to be called next. Not at all if nothing is waited for:
    /// garbage that is collected meanwhile is caught up on later.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        if !self.ended.is_empty() {
            return Some(self.to_host(self.ssd.now()));
        }
        if self.flights.count() == 0 {
            return None;
        }
        Some(self.to_host(self.ssd.next().unwrap_or(self.ssd.now())))
    }

    /// Lets everything happen up to `now`, and appends the requests that have ended.
    pub fn poll(&mut self, now: Instant, ended: &mut Vec<Ended>) {
        self.advance(now);
        ended.append(&mut self.ended);
    }

    /// How it is at `now`.
    pub fn report(&mut self, now: Instant) -> Report {
        self.advance(now);
        let (stats, space) = (self.ssd.stats(), self.ssd.space());
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Report {
            profile: self.ssd.profile().name.clone(),
            told: self.ssd.profile().told,
            obeys: self.ssd.profile().obeys,
            waf: stats.waf(),
            pages_written: stats.pages_written,
            pages_moved: stats.flash.moved,
            erases: stats.flash.erases,
            free_blocks: space.free_blocks,
            blocks: space.blocks,
            gc_stretches: stats.gc.count,
            gc_longest_ns: nanos(stats.gc.longest),
            gc_ns: nanos(stats.gc_time.saturating_sub(self.before.gc_time)),
            open_ns: nanos(now.since(self.opened.0)),
            delayed_by_gc: stats.delayed_by_gc,
        }
    }

    /// The latest stretches of garbage collection that had not ended before `since`, the oldest
    /// first; of those that did not fit, the newest [`LOG_KEPT`].
    pub fn gc_log(&mut self, now: Instant, since: Instant) -> Vec<GcInterval> {
        self.advance(now);
        let going_on = self.collecting_since.map(|began| GcInterval {
            began: self.to_host(began).0,
            ended: self.to_host(self.ssd.now()).0,
        });
        let all = self.log.iter().copied().chain(going_on);
        all.filter(|interval| interval.ended >= since.0).collect()
    }

    /// Whether at least one die collects garbage, as of the last call.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        self.collecting_since.is_some()
    }

    /// The model, as of the last call.
    #[must_use]
    pub fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    /// Says what decides when garbage is collected, from `now` on, as [`Ssd::order_gc`] does.
    pub fn order_gc(&mut self, now: Instant, order: GcOrder) {
        self.advance(now);
        self.ssd.order_gc(self.ssd.now(), order);
        self.observe();
    }

    /// The drive's state, for [`Ssd::restore`].
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.ssd.save()
    }

    /// Lets everything happen up to `now`, each event at its time.
    fn advance(&mut self, now: Instant) {
        let now = self.to_model(now);
        while let Some(at) = self.ssd.next().filter(|&at| at <= now) {
            let mut completions = std::mem::take(&mut self.completions);
            self.ssd.poll(at, &mut completions);
            for completion in completions.drain(..) {
                self.completed(completion);
            }
            self.completions = completions;
            self.observe();
        }
        self.ssd.poll(now, &mut self.completions);
        if self.ssd.next().is_none() && self.flights.count() > 0 {
            self.release_all();
        }
    }

    fn completed(&mut self, completion: Completion) {
        let (serial, id) = ((completion.tag >> 32) as u32, completion.tag as u32);
        let flight = &mut self.flights[id];
        // Those that were released are gone.
        if flight.serial != serial || flight.left == 0 {
            return;
        }
        flight.left -= 1;
        flight.delayed_by_gc |= completion.delayed_by_gc;
        if flight.left == 0 {
            self.proceed(id);
        }
    }

    /// Begins the next stage that has something to do, or ends the request.
    fn proceed(&mut self, id: u32) {
        while self.flights[id].left == 0 {
            let Flight { stage, page, pages, durable, .. } = self.flights[id];
            match stage {
                NextStep::ReadEdges { first, last } => {
                    self.flights[id].stage = NextStep::Do(Op::Write);
                    if first || pages == 1 {
                        self.submit(id, Op::Read, page, 1);
                    }
                    if last && pages > 1 {
                        self.submit(id, Op::Read, page.saturating_add(pages - 1), 1);
                    }
                }
                NextStep::Do(op) => {
                    let flush = op == Op::Write && durable;
                    let next = if flush { NextStep::Do(Op::Flush) } else { NextStep::End };
                    self.flights[id].stage = next;
                    self.submit(id, op, page, pages);
                }
                NextStep::End => return self.end(id),
            }
        }
    }

    /// Gives the model a command, if it is one that the model can carry out.
    fn submit(&mut self, id: u32, op: Op, page: u32, pages: u32) {
        let Flight { serial, stream, .. } = self.flights[id];
        let tag = u64::from(serial) << 32 | u64::from(id);
        let command = Command { tag, op, page, pages, stream };
        if self.ssd.submit(self.ssd.now(), command).is_ok() {
            self.flights[id].left += 1;
        }
    }

    fn end(&mut self, id: u32) {
        let Flight { tag, delayed_by_gc, .. } = self.flights[id];
        self.flights.remove(id);
        self.ended.push(Ended { tag, at: self.to_host(self.ssd.now()), delayed_by_gc });
    }

    /// Ends what the model will never end.
    fn release_all(&mut self) {
        for id in 0..self.flights.places() {
            if self.flights[id].left > 0 {
                self.flights[id].left = 0;
                self.end(id);
            }
        }
    }

    /// Remembers a stretch of collection that has ended.
    fn observe(&mut self) {
        let since = self.ssd.gc_state().since;
        if since.is_some() == self.collecting_since.is_some() {
            return;
        }
        if let Some(began) = std::mem::replace(&mut self.collecting_since, since) {
            if self.log.len() == LOG_KEPT {
                self.log.pop_front();
            }
            let ended = self.to_host(self.ssd.now()).0;
            self.log.push_back(GcInterval { began: self.to_host(began).0, ended });
        }
    }

    /// Never before what the model was told last.
    fn to_model(&self, now: Instant) -> Instant {
        (self.opened.1 + now.since(self.opened.0)).max(self.ssd.now())
    }

    fn to_host(&self, at: Instant) -> Instant {
        self.opened.0 + at.since(self.opened.1)
    }
}

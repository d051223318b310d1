//! A write cache in memory above an array: the volatile cache of a disk.
//!
//! A [`WriteCache`] is a sans-IO state machine between users and an array, of which it knows that it is a
//! block device with a volatile cache of its own. A [`CachedArray`] is the cache and the engine below it
//! as one machine. Small writes are acknowledged when they are in memory. What is held of a stripe of the
//! array is a *group*; a *trip* brings blocks of a group home, from memory of its own that no later write
//! changes.
//!
//! Invariants:
//! - A block that is held is read from memory, whatever is at home.
//! - A flush ends after everything that was acknowledged before it is at home and the array has flushed
//!   it; or with an error, if some of it could not be brought home.
//! - Requests that go past the cache (large writes, those with FUA, discards, write-zeroes) are ordered
//!   with what is held of their blocks: they begin when no trip with an older content is under way, none
//!   begins before they end, and then the older content is dropped.
//! - A trip that ends drops what it has brought home, and nothing that was written meanwhile. One that
//!   fails drops nothing.
//! - Room comes only from what is at home or was written over. Writes wait for room.

mod api;
mod array;
mod held;
mod home;
mod memory;
mod own;
mod past;
mod reads;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::engine::{Hold, Op, Request, RequestError};
use raidcore::geometry::Geometry;
use raidcore::units::{Mem, Tag};

pub use api::{Action, CacheConfig, CacheCounters, CacheStatus};
pub use array::CachedArray;
use held::Held;
use home::Trips;
use own::{Carried, Own};
use past::Past;
use reads::Reads;

/// How long after a trip that failed what it carried is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Something could not be brought home.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// When it is tried again.
    retry: Instant,
    /// The array takes no writes: until then nothing else is tried, either.
    pauses: bool,
}

/// See the [module](self). Each input comes with whether the array takes writes now.
pub struct WriteCache {
    config: CacheConfig,
    held: Held,
    trips: Trips,
    /// Requests that go past what is held of their blocks.
    past: Past,
    reads: Reads,
    /// Requests of its own to the array.
    own: Own,
    /// Writes that wait for room, in the order in which they came.
    waiting: VecDeque<Request>,
    /// Flushes that wait for what was acknowledged up to a write to be at home.
    flushes: Vec<(Tag, u64)>,
    /// The number of the last write that was acknowledged from memory.
    writes: u64,
    /// What was written up to this one is to come home now.
    wanted: u64,
    trouble: Option<Trouble>,
    /// Whether writes are held at all.
    holds: bool,
    stopping: bool,
    /// A trip has failed since the stop began.
    gave_up: bool,
    counters: CacheCounters,
}

impl WriteCache {
    /// An empty cache above an array of this geometry. Its scratch buffers are numbered from `first` on.
    /// What it holds comes home in this order when room is wanted, the oldest first without one.
    #[must_use]
    pub fn new(
        config: CacheConfig,
        geometry: &Geometry,
        first: u16,
        order: Option<Box<dyn Hold>>,
    ) -> Self {
        let shape = (geometry.stripe_blocks(), geometry.chunk());
        let (memory, trips) = Trips::and_memory(&config, shape.0, first);
        Self {
            held: Held::new(memory, shape, order),
            trips,
            past: Past::default(),
            reads: Reads::new(config.tags),
            own: Own::new(config.tags, config.own_tags),
            waiting: VecDeque::new(),
            flushes: Vec::new(),
            writes: 0,
            wanted: 0,
            trouble: None,
            holds: true,
            stopping: false,
            gave_up: false,
            counters: CacheCounters::default(),
            config,
        }
    }

    /// A user's request comes, for blocks that the array has.
    pub fn request(&mut self, now: Instant, request: Request, takes: bool, out: &mut Vec<Action>) {
        let Request { tag, op, fua, blocks, .. } = request;
        if self.stopping {
            out.push(Action::Complete { tag, result: Err(RequestError::Stopping) });
            return;
        }
        match op {
            Op::Read => self.read(request, out),
            Op::Write if takes && !fua && (1..=self.config.most_blocks).contains(&blocks) => {
                self.waiting.push_back(request);
            }
            Op::Write | Op::Discard | Op::WriteZeroes => self.go_past(request, out),
            Op::Flush if !takes && !self.held.is_empty() => {
                out.push(Action::Complete { tag, result: Err(RequestError::Io) });
            }
            Op::Flush => {
                self.try_again();
                self.flushes.push((tag, self.writes));
            }
        }
        self.go_on(now, out);
        let waits = op == Op::Write && self.waiting.back().is_some_and(|last| last.tag == tag);
        self.counters.waits += u64::from(waits);
    }

    /// A request to the array has ended: a user's, or one of the cache's own.
    pub fn ended(
        &mut self,
        now: Instant,
        tag: Tag,
        result: Result<(), RequestError>,
        takes: bool,
        out: &mut Vec<Action>,
    ) {
        match self.own.ended(tag, out) {
            Some(Carried::Read { tag, .. }) => self.reads.part_ended(tag, result, out),
            Some(Carried::Trip { trip, .. }) => self.part_is_home((now, takes), trip, result, out),
            None => {
                if let Some(done) = self.past.ended(tag)
                    && result.is_ok()
                {
                    self.counters.dropped_blocks +=
                        self.held.drop_older(done.range(), done.writes());
                }
                out.push(Action::Complete { tag, result });
            }
        }
        self.go_on(now, out);
    }

    /// The time of [`WriteCache::deadline`] has come.
    pub fn tick(&mut self, now: Instant, takes: bool, out: &mut Vec<Action>) {
        match &mut self.trouble {
            Some(trouble) if trouble.retry > now => {}
            Some(trouble) if !takes => trouble.retry = now + RETRY,
            Some(_) => self.try_again(),
            None => {}
        }
        self.go_on(now, out);
    }

    /// Everything that is held comes home now, as far as it can. Later requests fail.
    pub fn stop(&mut self, now: Instant, takes: bool, out: &mut Vec<Action>) {
        self.stopping = true;
        if takes {
            self.try_again();
        } else {
            self.pause(now, out);
        }
        self.go_on(now, out);
    }

    /// Everything that is held now comes home.
    pub fn bring_home(&mut self, now: Instant, takes: bool, out: &mut Vec<Action>) {
        self.wanted = self.writes;
        if takes {
            self.try_again();
        }
        self.go_on(now, out);
    }

    fn try_again(&mut self) {
        self.trouble = None;
        self.held.unstick();
    }

    /// The array takes no writes: nothing can come home.
    fn pause(&mut self, now: Instant, out: &mut Vec<Action>) {
        self.trouble = Some(Trouble { retry: now + RETRY, pauses: true });
        self.gave_up |= self.stopping && !self.held.is_empty();
        if let Some((oldest, _)) = self.held.oldest() {
            self.fail_flushes(oldest, out);
        }
    }

    fn is_paused(&self) -> bool {
        self.trouble.is_some_and(|trouble| trouble.pauses)
    }

    /// From now on writes are held, or go past.
    pub(crate) fn set_holds(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// When it wants a [`WriteCache::tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let retry = self.trouble.filter(|_| !self.stopping).map(|trouble| trouble.retry);
        if self.is_paused() || !self.trips.has_room() {
            return retry;
        }
        let due = self.held.first_able(&self.past);
        let due = due.map(|since| since + self.config.linger);
        due.into_iter().chain(retry).min()
    }

    /// It comes home in another order from now on when room is wanted, the oldest first without one.
    pub fn set_order(&mut self, order: Option<Box<dyn Hold>>) {
        self.held.set_order(order);
    }

    /// How many trips have failed.
    pub(crate) fn failed_trips(&self) -> u64 {
        self.counters.failed_trips
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// After a stop, whether nothing is held and nothing under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.held.is_empty() && self.is_idle()
    }

    /// After a stop, whether something that is held can't be brought home, and nothing is under way.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.flushes.is_empty()
            && self.past.is_empty()
            && self.own.is_idle()
            && self.trips.is_idle()
    }

    /// Does what can be done now.
    fn go_on(&mut self, now: Instant, out: &mut Vec<Action>) {
        self.hold_waiting(now, out);
        self.past.begin(|range| self.held.some_leave(range), out);
        self.pass_flushes(out);
        self.send_home(now, out);
    }

    /// Takes writes that wait, as long as there is room. If something can't be brought home, they go past:
    /// what would be acknowledged might be lost as well.
    fn hold_waiting(&mut self, now: Instant, out: &mut Vec<Action>) {
        while let Some(&request) = self.waiting.front() {
            if self.held.is_stuck() || !self.holds {
                self.go_past(request, out);
            } else if self.held.has_room(past::range(&request)) {
                self.hold(now, request, out);
            } else {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn hold(&mut self, now: Instant, request: Request, out: &mut Vec<Action>) {
        let Request { tag, lba, blocks, .. } = request;
        self.writes += 1;
        let from = Mem::Payload { tag, at: 0 };
        let again = self.held.write((self.writes, now), lba, blocks, |at, to, blocks| {
            out.push(Action::Copy { from: from.plus(at), to, blocks });
        });
        self.counters.held_blocks += u64::from(blocks);
        self.counters.rewritten_blocks += u64::from(again);
        out.push(Action::Complete { tag, result: Ok(()) });
    }

    /// A request goes to the array, when the order with what is held of its blocks permits it.
    fn go_past(&mut self, request: Request, out: &mut Vec<Action>) {
        self.counters.past_requests += 1;
        if self.held.holds_some(past::range(&request)) {
            self.past.came(request, self.writes);
        } else {
            out.push(Action::Ask(request));
        }
    }

    fn read(&mut self, request: Request, out: &mut Vec<Action>) {
        let range = past::range(&request);
        if !self.held.holds_some(range.clone()) {
            out.push(Action::Ask(request));
            return;
        }
        let Self { held, reads, own, counters, .. } = self;
        let memory = Mem::Payload { tag: request.tag, at: 0 };
        let mut parts = 0;
        held.runs(range, |at, blocks, held| {
            let to = memory.plus(at);
            if let Some(from) = held {
                counters.read_blocks += u64::from(blocks);
                out.push(Action::Copy { from, to, blocks });
            } else {
                parts += 1;
                let carried = Carried::Read { tag: request.tag, memory: to };
                own.ask(carried, (Op::Read, request.lba.0 + u64::from(at), blocks), out);
            }
        });
        reads.came(request.tag, parts, out);
    }

    /// Passes on the flushes for which everything is at home.
    fn pass_flushes(&mut self, out: &mut Vec<Action>) {
        let oldest = self.held.oldest().map_or(u64::MAX, |(write, _)| write);
        self.flushes.retain(|&(tag, writes)| {
            let waits = oldest <= writes;
            if !waits {
                out.push(Action::Ask(flush(tag)));
            }
            waits
        });
    }

    /// Ends the flushes that cover what could not be brought home.
    fn fail_flushes(&mut self, oldest: u64, out: &mut Vec<Action>) {
        self.flushes.retain(|&(tag, writes)| {
            let fails = oldest <= writes;
            if fails {
                out.push(Action::Complete { tag, result: Err(RequestError::Io) });
            }
            !fails
        });
    }
}

fn flush(tag: Tag) -> Request {
    Request { tag, op: Op::Flush, lba: raidcore::units::Lba(0), blocks: 0, fua: false }
}

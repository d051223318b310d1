//! Trips: blocks of a group come home.

use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::{Op, RequestError};
use raidcore::units::{Mem, Stripe};

use super::api::{Action, CacheConfig, CacheStatus};
use super::memory::{Memory, runs};
use super::own::Carried;
use super::{RETRY, Trouble, WriteCache};
use crate::machine::Pool;

/// The most trips at a time.
pub(super) const TRIPS: usize = 16;

/// Blocks of a group on their way home.
#[derive(Debug)]
struct Trip {
    stripe: Stripe,
    blocks: Vec<u64>,
    /// Requests to the array that have not ended.
    left: u32,
    failed: bool,
}

/// Trips under way, each with a buffer, which no write changes.
pub(super) struct Trips {
    /// The number of the first buffer, and its blocks.
    first: u16,
    each: u32,
    trips: Vec<Option<Trip>>,
}

impl Trips {
    /// The memory of a cache, and that of what is on its way home, for stripes of so many blocks. Buffers
    /// are numbered from `first` on.
    pub(super) fn and_memory(config: &CacheConfig, stripe: u32, first: u16) -> (Memory, Self) {
        let each = stripe.min(config.blocks / 4 / TRIPS as u32).max(1);
        let slots = config.blocks.saturating_sub(each * TRIPS as u32).max(config.most_blocks);
        // As many as there are numbers.
        let most = u32::from(u16::MAX - first) - TRIPS as u32;
        let memory = Memory::new(first, slots, most);
        let trips = (0..TRIPS).map(|_| None).collect();
        let trips = Self { first: memory.end(), each, trips };
        (memory, trips)
    }

    pub(super) fn pool(&self) -> Pool {
        Pool { count: TRIPS as u16, blocks: self.each }
    }

    /// The buffers of no trip.
    pub(super) fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        let trips = (self.first..).zip(&self.trips);
        trips.filter(|(_, trip)| trip.is_none()).map(|(buffer, _)| buffer)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way() == 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.under_way() < TRIPS
    }

    fn under_way(&self) -> usize {
        self.trips.iter().flatten().count()
    }
}

impl WriteCache {
    /// Begins trips: with what was asked for, with what makes room, and with what has been held for long.
    pub(super) fn send_home(&mut self, now: Instant, out: &mut Vec<Action>) {
        while !self.held.is_empty()
            && !self.is_paused()
            && let Some(place) = self.trips.trips.iter().position(Option::is_none)
            && let Some(stripe) = self.next_home(now)
        {
            self.leave(place, stripe, out);
        }
    }

    fn next_home(&mut self, now: Instant) -> Option<Stripe> {
        let Self { held, past, config, .. } = self;
        let flushes = self.flushes.iter().map(|&(_, writes)| writes);
        let asked = flushes.max().unwrap_or(0).max(self.wanted);
        let asked = if self.stopping { u64::MAX } else { asked };
        if let Some(stripe) = held.first_of(past, |(write, _)| write <= asked) {
            return Some(stripe);
        }
        let is_full = !self.waiting.is_empty() || held.len() > held.memory().slots() / 2;
        if is_full
            && self.trips.under_way() < held.width()
            && let Some(stripe) = held.next(past)
        {
            return Some(stripe);
        }
        held.first_of(past, |(_, since)| since + config.linger <= now)
    }

    /// Blocks of a group are copied to where nothing changes them, and written home.
    fn leave(&mut self, place: usize, stripe: Stripe, out: &mut Vec<Action>) {
        let Self { held, past, trips, own, .. } = self;
        let (mut blocks, mut from) = (Vec::new(), Vec::new());
        held.leave(stripe, trips.each, past, |lba, memory| {
            blocks.push(lba);
            from.push(memory);
        });
        let to = Mem::Scratch { buffer: trips.first + place as u16, at: 0 };
        runs(from.into_iter(), |at, from, blocks| {
            out.push(Action::Copy { from, to: to.plus(at), blocks });
        });
        let (mut at, mut left) = (0, 0);
        for run in blocks.chunk_by(|a, b| a + 1 == *b) {
            let carried = Carried::Trip { trip: place, memory: to.plus(at) };
            own.ask(carried, (Op::Write, run[0], run.len() as u32), out);
            at += run.len() as u32;
            left += 1;
        }
        trips.trips[place] = Some(Trip { stripe, blocks, left, failed: false });
    }

    /// A request of a trip has ended.
    pub(super) fn part_is_home(
        &mut self,
        (now, takes): (Instant, bool),
        place: usize,
        result: Result<(), RequestError>,
        out: &mut Vec<Action>,
    ) {
        let Some(trip) = &mut self.trips.trips[place] else { return };
        trip.left -= 1;
        trip.failed |= result.is_err();
        if trip.left > 0 {
            return;
        }
        let Some(Trip { stripe, blocks, failed, .. }) = self.trips.trips[place].take() else {
            return;
        };
        if failed {
            self.counters.failed_trips += 1;
            self.gave_up |= self.stopping;
            let oldest = self.held.are_stuck(stripe, &blocks);
            if !takes {
                self.pause(now, out);
            } else if let Some(oldest) = oldest {
                self.trouble = Some(Trouble { retry: now + RETRY, pauses: false });
                self.fail_flushes(oldest, out);
            }
        } else {
            self.counters.trips += 1;
            self.counters.home_blocks += blocks.len() as u64;
            self.held.are_home(stripe, &blocks);
        }
    }

    /// The scratch buffers that the host provides, in the order of their numbers.
    pub(crate) fn pools(&self) -> [Pool; 2] {
        [self.held.memory().pool(), self.trips.pool()]
    }

    /// Those of them that are in no use.
    pub(crate) fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        self.held.memory().free_buffers().chain(self.trips.free_buffers())
    }

    /// Where the memory is that the array names.
    pub(crate) fn place(&self, mem: Mem) -> Mem {
        self.own.place(mem)
    }

    /// The user's request that a request to the array is for, if there is one.
    pub(crate) fn user_of(&self, tag: raidcore::units::Tag) -> Option<raidcore::units::Tag> {
        match self.own.carried(tag) {
            Some(Carried::Read { tag, .. }) => Some(tag),
            Some(Carried::Trip { .. }) => None,
            None => (tag.0 < self.config.tags).then_some(tag),
        }
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        let oldest = self.held.oldest();
        let asked = |(write, _)| write <= self.wanted;
        CacheStatus {
            room: self.held.memory().slots(),
            held: self.held.len(),
            oldest: oldest.map(|(_, since)| since),
            holds: self.holds,
            stuck: self.held.stuck(),
            waiting: self.waiting.len() as u32,
            flushing: oldest.is_some_and(asked),
            counters: self.counters,
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        self.held.check();
    }
}

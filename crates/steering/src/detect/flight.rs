//! The I/Os under way, in a table of fixed size, and which of them is due next.
//!
//! Invariants: `heap` names every occupant of `slots` once, and each knows its place in it; no
//! entry is due before its parent, which is at half its place.

use alloc::vec::Vec;
use core::time::Duration;

use det::{Id, Instant, Slots};
use raidcore::units::MemberId;

use super::tuning::Kind;

/// How far an I/O speaks for its member being BUSY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lateness {
    /// It is not late.
    #[default]
    InTime,
    /// It is.
    Late,
    /// So late that it alone makes the member BUSY.
    Enough,
}

/// An I/O under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) member: MemberId,
    pub(super) kind: Kind,
    pub(super) blocks: u32,
    pub(super) begun: Instant,
    /// What it adds to the work of its member.
    pub(super) weight: u64,
    /// Its own weight, and that of the I/Os under way before it.
    pub(super) work: u64,
    /// The expected latency in nanoseconds; zero if it can't be judged.
    pub(super) usual: u64,
    /// The I/O is late after this many nanoseconds.
    pub(super) limit: u64,
    pub(super) stage: Lateness,
    /// Whether its member was BUSY when it began.
    pub(super) into_busy: bool,
    due: Instant,
    place: usize,
}

impl Flight {
    /// An I/O that has not been judged.
    pub(super) fn new(member: MemberId, kind: Kind, blocks: u32, begun: Instant) -> Self {
        Self {
            member,
            kind,
            blocks,
            begun,
            weight: 0,
            work: 0,
            usual: 0,
            limit: 0,
            stage: Lateness::InTime,
            into_busy: false,
            due: Instant(u64::MAX),
            place: 0,
        }
    }

    /// It is due once it has been under way for `age` nanoseconds.
    pub(super) fn due_at(&mut self, age: u64) {
        self.due = self.begun + Duration::from_nanos(age);
    }

    pub(super) fn age(&self, now: Instant) -> u64 {
        now.0.saturating_sub(self.begun.0)
    }
}

pub(super) struct Flights {
    slots: Slots<Flight>,
    heap: Vec<Id<Flight>>,
}

impl Flights {
    pub(super) fn new(capacity: usize) -> Self {
        let none = Flight::new(MemberId(0), Kind::Read, 0, Instant::ORIGIN);
        Self { slots: Slots::new(capacity, || none), heap: Vec::with_capacity(capacity) }
    }

    /// Takes one in, unless there are too many.
    pub(super) fn insert(&mut self, flight: Flight) -> Option<Id<Flight>> {
        let id = self.slots.occupy()?;
        let place = self.heap.len();
        self.slots[id] = Flight { place, ..flight };
        self.heap.push(id);
        self.rise(place);
        Some(id)
    }

    /// Removes it, unless it has been removed already.
    pub(super) fn remove(&mut self, id: Id<Flight>) -> Option<Flight> {
        let flight = *self.slots.get(id)?;
        self.slots.vacate(id);
        self.heap.swap_remove(flight.place);
        if flight.place < self.heap.len() {
            self.slots[self.heap[flight.place]].place = flight.place;
            self.settle(flight.place);
        }
        Some(flight)
    }

    /// The I/O that is due first, and when. One that can't be judged is never due.
    pub(super) fn first(&self) -> Option<(Instant, Id<Flight>)> {
        let first = self.heap.first().map(|&id| (self.slots[id].due, id));
        first.filter(|(due, _)| due.0 < u64::MAX)
    }

    /// Changes one that is under way, and perhaps when it is due.
    pub(super) fn update(&mut self, id: Id<Flight>, change: impl FnOnce(&mut Flight)) -> Flight {
        let flight = &mut self.slots[id];
        change(flight);
        let changed = *flight;
        self.settle(changed.place);
        changed
    }

    /// One of `member` that is under way.
    pub(super) fn any_of(&self, member: MemberId) -> Option<Id<Flight>> {
        self.slots.iter().find(|(_, flight)| flight.member == member).map(|(id, _)| id)
    }

    pub(super) fn check(&self) {
        assert_eq!(self.heap.len(), self.slots.occupied());
        for (place, &id) in self.heap.iter().enumerate() {
            assert_eq!(self.slots[id].place, place);
            assert!(place == 0 || self.due(place) >= self.due((place - 1) / 2));
        }
    }

    fn due(&self, place: usize) -> Instant {
        self.slots[self.heap[place]].due
    }

    fn settle(&mut self, place: usize) {
        let place = self.rise(place);
        self.sink(place);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 && self.due(place) < self.due((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1)..(2 * place + 3).min(self.heap.len());
            let Some(first) = children.min_by_key(|&child| self.due(child)) else { return };
            if self.due(first) >= self.due(place) {
                return;
            }
            self.swap(place, first);
            place = first;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.slots[self.heap[place]].place = place;
        }
    }
}

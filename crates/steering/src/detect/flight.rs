//! The I/Os under way, in a table of fixed size, and which of them is due next.
//!
//! Invariants: `heap` names every occupant of `slots` once with when it is due, and each knows its place in it; no
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
    /// Its place in the heap.
    place: u32,
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
    heap: Vec<(Instant, Id<Flight>)>,
}

impl Flights {
    pub(super) fn new(capacity: usize) -> Self {
        let none = Flight::new(MemberId(0), Kind::Read, 0, Instant::ORIGIN);
        Self { slots: Slots::new(capacity, || none), heap: Vec::with_capacity(capacity) }
    }

    /// Takes one in, unless there are too many.
    pub(super) fn insert(&mut self, flight: impl FnOnce() -> Flight) -> Option<Id<Flight>> {
        let id = self.slots.occupy()?;
        let (flight, place) = (flight(), self.heap.len());
        self.heap.push((flight.due, id));
        self.slots[id] = flight;
        self.rise(place);
        Some(id)
    }

    /// Removes it, unless it has been removed already.
    pub(super) fn remove(&mut self, id: Id<Flight>) -> Option<Flight> {
        let flight = *self.slots.get(id)?;
        self.slots.vacate(id);
        let place = flight.place as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
        }
        Some(flight)
    }

    /// The I/O that is due first, and when. One that can't be judged is never due.
    pub(super) fn first(&self) -> Option<(Instant, Id<Flight>)> {
        self.heap.first().copied().filter(|(due, _)| due.0 < u64::MAX)
    }

    /// Changes one that is under way, and perhaps when it is due.
    pub(super) fn update(&mut self, id: Id<Flight>, change: impl FnOnce(&mut Flight)) -> Flight {
        let flight = &mut self.slots[id];
        change(flight);
        let changed = *flight;
        let place = changed.place as usize;
        self.heap[place].0 = changed.due;
        self.settle(place);
        changed
    }

    /// One of `member` that is under way.
    pub(super) fn any_of(&self, member: MemberId) -> Option<Id<Flight>> {
        self.slots.iter().find(|(_, flight)| flight.member == member).map(|(id, _)| id)
    }

    pub(super) fn check(&self) {
        assert_eq!(self.heap.len(), self.slots.occupied());
        for (place, &(due, id)) in self.heap.iter().enumerate() {
            assert_eq!((self.slots[id].place as usize, self.slots[id].due), (place, due));
            assert!(place == 0 || due >= self.due((place - 1) / 2));
        }
    }

    fn due(&self, place: usize) -> Instant {
        self.heap[place].0
    }

    /// One whose time to be due has changed goes where it belongs.
    fn settle(&mut self, place: usize) {
        let place = self.rise(place);
        self.sink(place);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 && entry.0 < self.due((place - 1) / 2) {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let children = (2 * place + 1)..(2 * place + 3).min(self.heap.len());
            let first = children.min_by_key(|&child| self.due(child));
            let Some(first) = first.filter(|&first| self.due(first) < entry.0) else { break };
            self.put(place, self.heap[first]);
            place = first;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Instant, Id<Flight>)) {
        self.heap[place] = entry;
        self.slots[entry.1].place = place as u32;
    }
}

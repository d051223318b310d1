//! Which members are busy, told from latencies alone.
//!
//! Drives don't say when they collect garbage. The host tells a [`Detector`] when each I/O of each
//! member begins and ends. The detector says which members keep their I/Os waiting: [`Mood::Busy`].
//! It has no clock, decides nothing about requests, and allocates only when it is made. Equal calls
//! give equal answers.
//!
//! An I/O's *usual* latency is the larger of
//!
//! - the median latency of its kind and size on its member;
//! - the median latency *for each unit of work* of that kind and size, times its own work and that
//!   queued before it on the member. Work counts I/Os and their blocks.
//!
//! So a deep queue explains long waits in proportion, however many I/Os the drive serves in
//! parallel. The queue explains lateness only as far as it was there when the first late I/O began:
//! what queues behind a late I/O does not count.
//!
//! ```text
//!            an I/O is late                a very late one,
//!            (late × usual, ≥ floor)       or several late ones in a short time
//!   FREE ──────────────────────► SUSPECT ──────────────────────────────────────────► BUSY
//!    ▲                            │   ▲                                             │  │
//!    │  some in time, or quiet    │   └──── quiet: nothing late for `probe` ────────┘  │
//!    └────────────────────────────┘                                                    │
//!    └──────────────────────── some in time, and none under way late ──────────────────┘
//! ```
//!
//! Lateness is seen by an I/O's age while it is under way: [`Detector::deadline`] says when to
//! check. Each verdict is kept with its outcome ([`DecisionLog`]). A second, slow comparison
//! ([`Detector::advice`]) covers days, compares members, and steers nothing.
//!
//! The constants, and how well all this does on drives that are known to collect, are in
//! `docs/results/detection.md`.
//!
//! Invariant: only BUSY members are avoided, and at most as many as parity can stand in for.

mod flight;
mod log;
mod member;
mod slow;
mod tuning;

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use det::{Id, Instant};
use raidcore::units::{MemberId, Set};

use flight::{Flight, Flights};
pub use log::{Cause, Decision, DecisionLog, End, Outcome, Score};
use member::Member;
pub use slow::Advice;
use slow::Slow;
pub use tuning::{Kind, Mood, Tuning};

/// The most members that a [`Detector`] can watch.
pub const MEMBERS_MAX: usize = u64::BITS as usize;

/// An I/O that was reported to a [`Detector`]. A handle of an I/O that was not followed, or has
/// ended, names nothing and does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle(Option<Id<Flight>>);

/// Says which members are busy.
pub struct Detector {
    tuning: Tuning,
    members: Vec<Member>,
    flights: Flights,
    /// The members that are not FREE.
    restless: Set<MemberId>,
    avoided: Set<MemberId>,
    log: DecisionLog,
    slow: Slow,
    now: Instant,
}

impl Detector {
    /// A detector for an array of so many members, of which nothing is known yet.
    ///
    /// # Panics
    /// If there are more than [`MEMBERS_MAX`], or more than `u32::MAX` I/Os to be followed.
    #[must_use]
    pub fn new(members: usize, tuning: Tuning) -> Self {
        assert!(members <= MEMBERS_MAX, "{members} members, at most {MEMBERS_MAX}");
        Self {
            members: (0..members).map(|_| Member::new(&tuning)).collect(),
            flights: Flights::new(tuning.in_flight),
            restless: Set::EMPTY,
            avoided: Set::EMPTY,
            log: DecisionLog::new(members, tuning.decisions),
            slow: Slow::new(members),
            now: Instant::ORIGIN,
            tuning,
        }
    }

    /// An I/O of `blocks` blocks is sent to `member`.
    ///
    /// Here and in all other calls, a time before that of an earlier call is taken as the latter.
    pub fn began(&mut self, now: Instant, member: MemberId, kind: Kind, blocks: u32) -> Handle {
        self.tick(now);
        let Some(state) = self.members.get_mut(member.index()) else { return Handle(None) };
        let now = self.now;
        Handle(self.flights.insert(|| {
            let mut flight = Flight::new(member, kind, blocks, now);
            state.begin(&mut flight, &self.tuning);
            flight
        }))
    }

    /// An I/O has ended well.
    pub fn ended(&mut self, now: Instant, handle: Handle) {
        self.tick(now);
        let Some(flight) = handle.0.and_then(|id| self.flights.remove(id)) else { return };
        self.slow.add(flight.member, flight.kind, flight.age(self.now));
        self.members[flight.member.index()].end(self.now, &flight, &self.tuning, &mut self.log);
        self.look_at_mood(flight.member);
    }

    /// An I/O has failed, or is no longer waited for. Its latency is not learnt from.
    pub fn dropped(&mut self, now: Instant, handle: Handle) {
        self.tick(now);
        let Some(flight) = handle.0.and_then(|id| self.flights.remove(id)) else { return };
        self.members[flight.member.index()].leave(&flight);
    }

    /// The member is another device from now on. Its I/Os under way are forgotten.
    pub fn replaced(&mut self, now: Instant, member: MemberId) {
        self.tick(now);
        let Some(state) = self.members.get_mut(member.index()) else { return };
        while let Some(id) = self.flights.any_of(member) {
            self.flights.remove(id).iter().for_each(|flight| state.leave(flight));
        }
        state.make_free(self.now, End::Replaced, &mut self.log);
        state.reset();
        self.slow.reset(member);
        self.look_at_mood(member);
    }

    /// When [`Detector::tick`] is to be called, unless another call comes first.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let quiet_at = |member: MemberId| self.members[member.index()].quiet_at(&self.tuning);
        let quiet = self.restless.filter_map(quiet_at).min();
        quiet.into_iter().chain(self.flights.first().map(|(due, _)| due)).min()
    }

    /// Looks at what has become late, or quiet, until `now`.
    pub fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        self.slow.advance(now);
        while let Some((_, id)) = self.flights.first().filter(|&(due, _)| due <= now) {
            let flight = self.flights.update(id, |flight| {
                let state = &mut self.members[flight.member.index()];
                state.overdue(now, flight, &self.tuning, &mut self.log);
            });
            self.look_at_mood(flight.member);
        }
        for member in self.restless {
            let state = &mut self.members[member.index()];
            if state.quiet_at(&self.tuning).is_some_and(|at| at <= now) {
                state.quiet(now, &mut self.log);
                self.look_at_mood(member);
            }
        }
    }

    /// What is thought of a member; one that doesn't exist is FREE.
    #[must_use]
    pub fn mood(&self, member: MemberId) -> Mood {
        self.members.get(member.index()).map_or(Mood::Free, |state| state.mood)
    }

    /// The members to go around: BUSY ones, at most `parity`. If there are more, those come first
    /// whose I/Os exceed their usual latency the most. A member that was returned before stays
    /// until it is no longer BUSY: I/Os have been kept from it, so it shows less excess.
    pub fn avoid(&mut self, now: Instant, parity: usize) -> Set<MemberId> {
        self.tick(now);
        let excess = |member: &MemberId| self.members[member.index()].excess;
        while self.avoided.len() > parity {
            let Some(least) = self.avoided.min_by_key(excess) else { break };
            self.avoided = self.avoided.without(least);
        }
        while self.avoided.len() < parity {
            let others = self.restless.minus(self.avoided);
            let busy = others.filter(|&member| self.mood(member) == Mood::Busy);
            // The first of several.
            let Some(worst) = busy.min_by_key(|member| Reverse(excess(member))) else { break };
            self.avoided = self.avoided.with(worst);
        }
        self.avoided
    }

    /// The usual latency of I/Os of this kind and size on a member, with the usual queue before
    /// them; `None` if too few of them were seen.
    #[must_use]
    pub fn usual(&self, member: MemberId, kind: Kind, blocks: u32) -> Option<Duration> {
        let usual = self.members.get(member.index())?.alone(kind, blocks, &self.tuning)?;
        Some(Duration::from_nanos(usual))
    }

    /// How many I/Os of `member` are under way, without those that could not be followed.
    #[must_use]
    pub fn in_flight(&self, member: MemberId) -> u32 {
        self.members.get(member.index()).map_or(0, |state| state.in_flight)
    }

    /// What was decided, and what became of it.
    #[must_use]
    pub fn log(&self) -> &DecisionLog {
        &self.log
    }

    /// Members that have been slower than their peers for two days.
    pub fn advice(&self) -> impl Iterator<Item = Advice> {
        self.slow.advice()
    }

    /// Asserts all invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        self.flights.check();
        self.members.iter().for_each(Member::check);
        assert!(self.avoided.into_iter().all(|member| self.mood(member) == Mood::Busy));
        let restless = Set::first(self.members.len()).filter(|&m| self.mood(m) != Mood::Free);
        assert!(restless.eq(self.restless), "it is known which members are not FREE");
    }

    /// A member's mood may have changed. One that is no longer BUSY is no longer avoided.
    fn look_at_mood(&mut self, member: MemberId) {
        let mood = self.mood(member);
        let others = self.restless.without(member);
        self.restless = if mood == Mood::Free { others } else { others.with(member) };
        if mood != Mood::Busy {
            self.avoided = self.avoided.without(member);
        }
    }
}

//! A scheme at work: looks at the members, orders them when to collect, and says which are busy.
//!
//! Invariant: a scheme that does not redirect reads runs no detector.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use det::Instant;
use raidcore::engine::{Io, IoId, Judged, LatencyTotals};
use raidcore::units::{MemberId, Set};

use crate::Signals;
use crate::collect::{Flash, Limits, Order, Watch, Windows};
use crate::scheme::Scheme;
use crate::turn_trial::TurnTrial;

/// An array's members, as a [`Controller`] sees them.
#[derive(Clone, PartialEq, Debug)]
pub struct Members {
    /// How many there are.
    pub count: usize,
    /// How many missing members redundancy can stand in for.
    pub redundancy: usize,
    /// Those that report when they collect garbage.
    pub telling: Set<MemberId>,
    /// Those that take orders when to collect.
    pub obeying: Set<MemberId>,
    /// Those of both that tell nothing else.
    pub windows: Windows,
    /// The limits of each; the default's if it takes no orders, or doesn't report them.
    pub limits: Vec<Limits>,
    /// The [optimal age](crate::wear::optimal_ages) of each, without staging devices; none if the scheme does not ask
    /// for it.
    pub optimal: Vec<f64>,
}

impl Members {
    /// Whether all report when they collect garbage.
    #[must_use]
    pub fn all_tell(&self) -> bool {
        self.telling == Set::first(self.count)
    }
}

/// Runs a scheme: whose turn it is to collect garbage, and which members are busy.
pub struct Controller {
    scheme: Scheme,
    members: Members,
    watch: Option<Watch>,
    /// The trial whether turns should rest, if the scheme has it.
    rest: Option<TurnTrial>,
    /// None if no member is to be watched.
    signals: Option<Signals>,
    telling: Set<MemberId>,
    collecting: Set<MemberId>,
    busy: Set<MemberId>,
    /// For each member: since when it is busy, and its total busy time before.
    busy_times: Vec<(Instant, Duration)>,
}

impl Controller {
    /// For a scheme, and members that have been given no order yet.
    #[must_use]
    pub fn new(scheme: Scheme, members: Members, now: Instant) -> Self {
        let mut controller = Self {
            scheme,
            busy_times: alloc::vec![(now, Duration::ZERO); members.count],
            members: members.clone(),
            watch: None,
            rest: None,
            signals: None,
            telling: Set::EMPTY,
            collecting: Set::EMPTY,
            busy: Set::EMPTY,
        };
        controller.changed(now, members, Set::EMPTY);
        controller
    }

    /// The members `other` are new devices from now on, which have been given no order.
    pub fn changed(&mut self, now: Instant, members: Members, other: Set<MemberId>) {
        let (count, redundancy, telling) = (members.count, members.redundancy, members.telling);
        let all_tell = members.all_tell();
        let collect = self.scheme.collect(&members);
        self.watch = collect.map(|policy| Watch::new(policy, now));
        let tries = self.scheme.tries_turns() && self.watch.is_some();
        self.rest = tries.then(TurnTrial::default);
        self.members = members;
        self.telling = telling;
        if !self.scheme.goes_around() || all_tell {
            self.signals = None;
        } else if let Some(signals) = &mut self.signals {
            signals.replaced(now, other, telling);
        } else {
            self.signals = Some(Signals::new(count, telling, redundancy));
        }
    }

    /// An I/O on a member begins.
    pub fn began(&mut self, now: Instant, member: MemberId, io: &Io) {
        if let Some(signals) = &mut self.signals {
            signals.began(now, member, io);
        }
    }

    /// An I/O has ended, well or not. Its begin may never have been reported.
    pub fn ended(&mut self, now: Instant, io: IoId, well: bool) {
        if let Some(signals) = &mut self.signals {
            signals.ended(now, io, well);
        }
    }

    /// When the next look is due, if no member begins or ends collecting and no I/O ends.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let watch = self.watch.as_ref().map(Watch::next);
        watch.into_iter().chain(self.signals.as_ref().and_then(Signals::next)).min()
    }

    /// Whether it has to know which members report that they collect.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.watch.is_some() || (self.scheme.goes_around() && !self.telling.is_empty())
    }

    /// Whether a decision is due now, given the members that collect.
    #[must_use]
    pub fn is_due(&self, now: Instant, collecting: Set<MemberId>) -> bool {
        let changed = collecting != self.collecting;
        self.watch.as_ref().is_some_and(|watch| changed || watch.next() <= now)
    }

    /// Looks at the members, and gives orders to some. `missing` is whether one is missing; `totals` is the
    /// latency of requests so far, measured by the [policy](Scheme::place) of the same scheme.
    pub fn decide(
        &mut self,
        now: Instant,
        members: &[Flash],
        missing: bool,
        totals: &LatencyTotals,
        order: &mut dyn FnMut(usize, Order),
    ) {
        let Some(watch) = &mut self.watch else { return };
        let rests = self.rest.as_mut().is_some_and(|rest| rest.look(now, members, totals));
        if rests != watch.rests() {
            watch.set(if rests { None } else { self.scheme.collect(&self.members) });
            if rests {
                (0..members.len()).for_each(|member| order(member, Order::Auto));
            }
        }
        watch.look(now, members, missing, order);
    }

    /// Tells of turns, if it judges them.
    pub fn tell(&self, judged: &mut dyn FnMut(Judged)) {
        self.rest.iter().map(TurnTrial::judged).for_each(judged);
    }

    /// Takes note of the members that report that they collect. Returns the busy ones, if the
    /// engine is to be told.
    pub fn busy(&mut self, now: Instant, collecting: Set<MemberId>) -> Option<Set<MemberId>> {
        self.collecting = collecting;
        if !self.scheme.goes_around() {
            return None;
        }
        let busy = match &mut self.signals {
            Some(signals) => signals.busy(now, collecting),
            None if self.watch.is_none() && self.scheme.goes_around_some() => {
                self.some_of(collecting)
            }
            None => collecting,
        };
        let busy = busy.or(self.watch.as_ref().map_or(Set::EMPTY, Watch::turns));
        let before = mem::replace(&mut self.busy, busy);
        busy.minus(before).for_each(|member| self.busy_times[member.index()].0 = now);
        for member in before.minus(busy) {
            let (since, time) = &mut self.busy_times[member.index()];
            *time += now - *since;
        }
        (before != busy).then_some(busy)
    }

    /// The share of free blocks from which on the scheme has a member collect, if it goes by one now.
    #[must_use]
    pub fn threshold(&self, member: MemberId) -> Option<f64> {
        self.watch.as_ref()?.threshold(member.index())
    }

    /// As many of these members as redundancy can stand in for, those first that were busy before: what would
    /// meet several busy members has no way around all of them, and meets one less so.
    fn some_of(&self, collecting: Set<MemberId>) -> Set<MemberId> {
        let begin = collecting.minus(self.busy);
        collecting.and(self.busy).chain(begin).take(self.members.redundancy).collect()
    }

    /// The [optimal age](crate::wear::optimal_ages) of each member; none if the scheme does not ask for it.
    #[must_use]
    pub fn optimal(&self) -> &[f64] {
        &self.members.optimal
    }

    /// The members that tell whether they collect, and nothing else, and take orders.
    #[must_use]
    pub fn windows(&self) -> Set<MemberId> {
        self.members.windows.members
    }

    /// The busy members, as they were last found.
    #[must_use]
    pub fn who_is_busy(&self) -> Set<MemberId> {
        self.busy
    }

    /// For how long a member has been busy by now, if it is.
    #[must_use]
    pub fn busy_for(&self, now: Instant, member: MemberId) -> Option<Duration> {
        self.busy.has(member).then(|| now - self.busy_times[member.index()].0)
    }

    /// For how long a member has been busy in all.
    #[must_use]
    pub fn busy_time(&self, now: Instant, member: MemberId) -> Duration {
        let (since, time) = self.busy_times[member.index()];
        if self.busy.has(member) { time + (now - since) } else { time }
    }

    /// What is known from latencies, if any member is watched.
    #[must_use]
    pub fn signals(&self) -> Option<&Signals> {
        self.signals.as_ref()
    }
}

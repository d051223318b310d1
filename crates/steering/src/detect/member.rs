//! What is known of a member, and its mood.
//!
//! Work is counted in units that depend only on sizes, so that old measurements can be compared
//! with what is under way now.
//!
//! Invariants: `work` is the sum of the weights of the member's I/Os under way, `in_flight` their
//! number and `overdue` the number of late ones. A member with late I/Os is not FREE, unless it was
//! replaced or the I/O was dropped.

use core::time::Duration;

use det::Instant;

use super::flight::{Flight, Lateness};
use super::log::{Cause, Decision, DecisionLog, End};
use super::tuning::{Kind, Mood, Tuning};
use crate::histogram::Histogram;

/// Size classes: 1, up to 4, up to 16, up to 64, and more blocks.
pub(super) const SIZES: usize = 5;

/// The unit of paces is this part of a nanosecond per unit of work: a histogram begins at 1024.
const PACE: u64 = 1024;

/// Of I/Os of a kind and size.
#[derive(Clone, Debug)]
struct Class {
    latency: Histogram,
    /// The latency for each unit of work: that of the I/O, and of those before it.
    pace: Histogram,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    classes: [[Class; SIZES]; 2],
    pub(super) mood: Mood,
    pub(super) in_flight: u32,
    overdue: u32,
    /// Work under way.
    work: u64,
    /// `work` when the I/O began that made the member SUSPECT. What has queued behind it since does
    /// not explain lateness.
    excuse: u64,
    /// Late I/Os in close succession.
    late_in_a_row: u8,
    /// Completions in a row that were not late.
    calm: u8,
    /// When an I/O last became late.
    late: Option<Instant>,
    /// When something last supported its mood.
    evidence: Instant,
    /// The largest excess over the usual latency since it became BUSY, in nanoseconds.
    pub(super) excess: u64,
    /// The verdict, while it is BUSY.
    decision: Option<Decision>,
}

impl Member {
    pub(super) fn new(tuning: &Tuning) -> Self {
        let class = || Class {
            latency: Histogram::new(tuning.window),
            pace: Histogram::new(tuning.window),
        };
        Self {
            classes: core::array::from_fn(|_| core::array::from_fn(|_| class())),
            mood: Mood::Free,
            in_flight: 0,
            overdue: 0,
            work: 0,
            excuse: 0,
            late_in_a_row: 0,
            calm: 0,
            late: None,
            evidence: Instant::ORIGIN,
            excess: 0,
            decision: None,
        }
    }

    /// Forgets what was learnt: the device was replaced. Nothing is under way.
    pub(super) fn reset(&mut self) {
        for class in self.classes.iter_mut().flatten() {
            class.latency.clear();
            class.pace.clear();
        }
        (self.late, self.late_in_a_row, self.calm) = (None, 0, 0);
    }

    /// The expected latency of an I/O with nothing before it, in nanoseconds, if it is known.
    pub(super) fn alone(&self, kind: Kind, blocks: u32, tuning: &Tuning) -> Option<u64> {
        self.expected(kind, blocks, 0, tuning)
    }

    /// An I/O begins: computes its expected latency.
    pub(super) fn begin(&mut self, flight: &mut Flight, tuning: &Tuning) {
        flight.into_busy = self.mood == Mood::Busy;
        flight.weight = weight_of(flight.blocks);
        flight.work = self.work + flight.weight;
        let before = if self.mood == Mood::Free { self.work } else { self.work.min(self.excuse) };
        if let Some(usual) = self.expected(flight.kind, flight.blocks, before, tuning) {
            flight.usual = usual;
            let late = usual.saturating_mul(u64::from(tuning.late));
            flight.limit = late.max(nanos(tuning.floor));
            flight.due_at(flight.limit);
        }
        self.work = flight.work;
        self.in_flight += 1;
    }

    /// The expected latency of an I/O with this much work before it, in nanoseconds: the median
    /// latency of its class, or what so much work usually takes if that is longer.
    fn expected(&self, kind: Kind, blocks: u32, before: u64, tuning: &Tuning) -> Option<u64> {
        let classes = &self.classes[kind.index()];
        let size = size_of(blocks);
        let known = |at: &usize| classes[*at].latency.total() >= u32::from(tuning.warm);
        let class = &classes[(0..=size).rev().chain(size + 1..SIZES).find(known)?];
        let work = before.saturating_add(weight_of(blocks));
        Some(class.latency.median().max(class.pace.median().saturating_mul(work) / PACE))
    }

    /// An I/O that is still under way has become late, or later. It is due again when it would mean
    /// more.
    pub(super) fn overdue(
        &mut self,
        now: Instant,
        flight: &mut Flight,
        tuning: &Tuning,
        log: &mut DecisionLog,
    ) {
        let enough = flight.limit.saturating_mul(u64::from(tuning.alone.max(1)));
        if flight.stage == Lateness::InTime {
            flight.stage = Lateness::Late;
            self.overdue += 1;
            self.note_late(now, flight, tuning, log);
        }
        if flight.stage == Lateness::Late && flight.age(now) >= enough {
            flight.stage = Lateness::Enough;
            self.make_busy(now, Cause::Alone, flight, log);
        }
        self.note_excess(now, flight, log);
        let again = match flight.stage {
            Lateness::InTime | Lateness::Late => enough,
            Lateness::Enough => flight.age(now).saturating_mul(2),
        };
        flight.due_at(again.max(flight.age(now).saturating_add(1)));
    }

    /// An I/O has ended.
    pub(super) fn end(
        &mut self,
        now: Instant,
        flight: &Flight,
        tuning: &Tuning,
        log: &mut DecisionLog,
    ) {
        self.leave(flight);
        let class = &mut self.classes[flight.kind.index()][size_of(flight.blocks)];
        class.latency.add(flight.age(now));
        class.pace.add(flight.age(now).saturating_mul(PACE) / flight.work);
        if flight.usual == 0 {
            return;
        }
        log.count_ended(flight);
        if flight.stage > Lateness::InTime {
            self.note_excess(now, flight, log);
            return;
        }
        self.calm = self.calm.saturating_add(1);
        if self.mood != Mood::Free && self.overdue == 0 && self.calm >= tuning.calm {
            self.make_free(now, End::Calm, log);
        }
    }

    /// An I/O is no longer under way.
    pub(super) fn leave(&mut self, flight: &Flight) {
        self.work -= flight.weight;
        self.in_flight -= 1;
        self.overdue -= u32::from(flight.stage > Lateness::InTime);
    }

    /// When the member's mood changes if nothing else happens; `None` if it does not.
    pub(super) fn quiet_at(&self, tuning: &Tuning) -> Option<Instant> {
        (self.mood != Mood::Free && self.overdue == 0).then(|| self.evidence + tuning.probe)
    }

    /// Nothing late was seen for long enough.
    pub(super) fn quiet(&mut self, now: Instant, log: &mut DecisionLog) {
        if self.mood == Mood::Busy {
            self.make_free(now, End::Quiet, log);
            self.mood = Mood::Suspect;
            self.evidence = now;
        } else {
            self.make_free(now, End::Quiet, log);
        }
    }

    /// Makes it FREE.
    pub(super) fn make_free(&mut self, now: Instant, end: End, log: &mut DecisionLog) {
        self.mood = Mood::Free;
        self.excess = 0;
        if let Some(decision) = self.decision.take() {
            log.left(decision, now, end);
        }
    }

    pub(super) fn check(&self) {
        assert!(self.overdue <= self.in_flight);
        assert!(self.in_flight > 0 || self.work == 0);
        assert!(self.overdue == 0 || self.mood != Mood::Free);
        assert_eq!(self.decision.is_some(), self.mood == Mood::Busy);
    }

    fn note_late(&mut self, now: Instant, flight: &Flight, tuning: &Tuning, log: &mut DecisionLog) {
        let closely = self.late.is_some_and(|last| now - last <= tuning.again);
        self.late_in_a_row = if closely { self.late_in_a_row.saturating_add(1) } else { 1 };
        self.late = Some(now);
        self.calm = 0;
        self.evidence = now;
        if self.mood == Mood::Free {
            self.mood = Mood::Suspect;
            self.excuse = flight.work - flight.weight;
        }
        if tuning.repeated > 0 && self.late_in_a_row >= tuning.repeated {
            self.make_busy(now, Cause::Repeated, flight, log);
        }
    }

    fn make_busy(&mut self, now: Instant, cause: Cause, flight: &Flight, log: &mut DecisionLog) {
        if self.mood != Mood::Busy {
            self.mood = Mood::Busy;
            self.decision = Some(log.entered(now, cause, flight));
        }
    }

    /// A late I/O supports the verdict, if there is one.
    fn note_excess(&mut self, now: Instant, flight: &Flight, log: &mut DecisionLog) {
        self.evidence = now;
        if let Some(decision) = &mut self.decision {
            self.excess = self.excess.max(flight.age(now).saturating_sub(flight.usual));
            log.waited(decision, now, flight);
        }
    }
}

fn size_of(blocks: u32) -> usize {
    match blocks {
        0..=1 => 0,
        2..=4 => 1,
        5..=16 => 2,
        17..=64 => 3,
        _ => 4,
    }
}

/// The work of an I/O: its blocks, plus eight blocks for the I/O itself.
fn weight_of(blocks: u32) -> u64 {
    8 + u64::from(blocks)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! Every BUSY verdict with its outcome, and how often verdicts are right.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use det::Instant;
use raidcore::units::MemberId;

use super::flight::{Flight, Lateness};
use super::tuning::Kind;

/// Why a member became BUSY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// One I/O was very late.
    Alone,
    /// Several were late, shortly after each other.
    Repeated,
}

/// Why a member is not BUSY any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Several I/Os in a row were not late.
    Calm,
    /// Nothing late was seen for a while. Maybe no I/O was sent to it.
    Quiet,
    /// It was replaced.
    Replaced,
}

/// What became of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not known yet: the member is BUSY, and no late I/O has gained from that so far.
    Open,
    /// Late I/Os waited on for at least as long as they usually take in all.
    Right {
        /// From the beginning of the I/O that led to the verdict until the last late one was seen.
        stall: Duration,
    },
    /// The late I/O ended shortly after the verdict: nothing could be gained.
    Wrong,
}

/// A verdict that a member is BUSY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Counts from zero.
    pub number: u64,
    /// About which member.
    pub member: MemberId,
    /// When it became BUSY.
    pub at: Instant,
    /// Why.
    pub cause: Cause,
    /// What the I/O that led to it does.
    pub kind: Kind,
    /// How many blocks it has.
    pub blocks: u32,
    /// For how long it had been under way.
    pub age: Duration,
    /// How long it usually takes.
    pub usual: Duration,
    /// What became of it.
    pub outcome: Outcome,
    /// Since when, and why, it is not BUSY any more.
    pub ended: Option<(Instant, End)>,
}

/// The reason of the verdict and its outcome, in words.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Read => "read",
            Kind::Write => "write",
        };
        let cause = match self.cause {
            Cause::Alone => "",
            Cause::Repeated => ", not the first to be late",
        };
        write!(
            f,
            "a {kind} of {} block{} was under way for {:.1?} instead of {:.1?}{cause}; ",
            self.blocks,
            if self.blocks == 1 { "" } else { "s" },
            self.age,
            self.usual
        )?;
        match self.outcome {
            Outcome::Open => write!(f, "not known yet whether that was right")?,
            Outcome::Right { stall } => write!(f, "right, it stalled for {stall:.1?}")?,
            Outcome::Wrong => write!(f, "wrong, nothing waited much longer")?,
        }
        let Some((at, end)) = self.ended else { return Ok(()) };
        let end = match end {
            End::Calm => "it answered in time again",
            End::Quiet => "nothing late was seen any more",
            End::Replaced => "it was replaced",
        };
        write!(f, "; over after {:.1?}, {end}", at - self.at)
    }
}

/// How good the verdicts are, as far as latencies alone can tell. An I/O is late by the detector's
/// own standard, so collection that delays nothing does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Verdicts that were right.
    pub right: u64,
    /// Verdicts that were wrong.
    pub wrong: u64,
    /// I/Os that have ended and could be judged.
    pub judged: u64,
    /// Of these, late ones.
    pub late: u64,
    /// I/Os that were sent to a BUSY member and have ended.
    pub into_busy: u64,
    /// Of these, late ones.
    pub late_into_busy: u64,
}

impl Score {
    /// The share of settled verdicts that were right; `None` if there are none.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        share(self.right, self.right + self.wrong)
    }

    /// The share of I/Os into BUSY members that were late, which going around would have avoided;
    /// `None` if there were none.
    #[must_use]
    pub fn precision_of_ios(&self) -> Option<f64> {
        share(self.late_into_busy, self.into_busy)
    }

    /// The share of I/Os into members that were not BUSY that were late; `None` if there were none.
    #[must_use]
    pub fn late_otherwise(&self) -> Option<f64> {
        share(self.late - self.late_into_busy, self.judged - self.into_busy)
    }

    /// The share of late I/Os that began while their member was BUSY; `None` if there were none.
    /// Reads that go around a BUSY member can't be late on it, so this is lower with steering than
    /// without.
    #[must_use]
    pub fn recall_of_ios(&self) -> Option<f64> {
        share(self.late_into_busy, self.late)
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            judged: self.judged + other.judged,
            late: self.late + other.late,
            into_busy: self.into_busy + other.into_busy,
            late_into_busy: self.late_into_busy + other.late_into_busy,
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The last verdicts, and the [`Score`] of all, by member.
#[derive(Clone, Debug)]
pub struct DecisionLog {
    /// A ring: decision `n` is at `n` modulo the capacity.
    ring: Vec<Decision>,
    capacity: usize,
    count: u64,
    /// By member.
    scores: Vec<Score>,
}

impl DecisionLog {
    pub(super) fn new(members: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let scores = alloc::vec![Score::default(); members];
        Self { ring: Vec::with_capacity(capacity), capacity, count: 0, scores }
    }

    /// The verdicts that are kept, the newest first.
    pub fn recent(&self) -> impl Iterator<Item = &Decision> {
        let kept = self.ring.len() as u64;
        (self.count - kept..self.count).rev().map(|number| &self.ring[self.place(number)])
    }

    /// How many verdicts there have been.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How good they were.
    #[must_use]
    pub fn score(&self) -> Score {
        self.scores.iter().fold(Score::default(), |sum, score| sum.plus(score))
    }

    /// How good those about a member were; of one that doesn't exist there were none.
    #[must_use]
    pub fn score_of(&self, member: MemberId) -> Score {
        self.scores.get(member.index()).copied().unwrap_or_default()
    }

    pub(super) fn entered(&mut self, now: Instant, cause: Cause, flight: &Flight) -> Decision {
        let decision = Decision {
            number: self.count,
            member: flight.member,
            at: now,
            cause,
            kind: flight.kind,
            blocks: flight.blocks,
            age: Duration::from_nanos(flight.age(now)),
            usual: Duration::from_nanos(flight.usual),
            outcome: Outcome::Open,
            ended: None,
        };
        self.count += 1;
        let place = self.place(decision.number);
        if place < self.ring.len() {
            self.ring[place] = decision;
        } else {
            self.ring.push(decision);
        }
        decision
    }

    /// A late I/O was seen while the verdict stood; it is still under way or has just ended.
    pub(super) fn waited(&mut self, decision: &mut Decision, now: Instant, flight: &Flight) {
        let gained = now - decision.at.max(flight.begun);
        if gained >= Duration::from_nanos(flight.usual) {
            decision.outcome = Outcome::Right { stall: decision.age + (now - decision.at) };
            self.keep(decision);
        }
    }

    pub(super) fn left(&mut self, mut decision: Decision, now: Instant, end: End) {
        decision.ended = Some((now, end));
        let score = &mut self.scores[decision.member.index()];
        match decision.outcome {
            Outcome::Right { .. } => score.right += 1,
            Outcome::Open | Outcome::Wrong => {
                decision.outcome = Outcome::Wrong;
                score.wrong += 1;
            }
        }
        self.keep(&decision);
    }

    pub(super) fn count_ended(&mut self, flight: &Flight) {
        let late = u64::from(flight.stage > Lateness::InTime);
        let score = &mut self.scores[flight.member.index()];
        score.judged += 1;
        score.late += late;
        score.into_busy += u64::from(flight.into_busy);
        score.late_into_busy += u64::from(flight.into_busy) * late;
    }

    fn place(&self, number: u64) -> usize {
        (number % self.capacity as u64) as usize
    }

    /// Stores the outcome of a decision, unless the ring has overwritten it.
    fn keep(&mut self, decision: &Decision) {
        let place = self.place(decision.number);
        if let Some(kept) = self.ring.get_mut(place).filter(|kept| kept.number == decision.number) {
            *kept = *decision;
        }
    }
}

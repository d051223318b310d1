//! Whether it pays that members take turns: found out by doing without for a while.
//!
//! Turns pay if requests go around the member whose turn it is, and no other member collects
//! meanwhile. Then requests take about as long as calm ones, nothing could be gained without turns,
//! and no trial is made. If requests take much longer again and again, members are left alone for a
//! while, and the better way is kept. Turns lose if drives ignore their orders and collect together
//! when they run out of space, or if there is more to collect than fits into turns.
//!
//! The comparison is between mean latencies of requests. A period with turns lasts until every
//! member has collected a few times; one without turns is as long as the last one with them. After
//! a change a whole period does not count, since members take a while to reach their new steady
//! state. A comparison that confirms the one before delays the next one. Turns rest only after two
//! comparisons in a row say so.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, Judged, LatencyTotals};

use crate::collect::Flash;

/// How often each member has to collect in a period.
const ROUNDS: u32 = 2;

/// Requests that have to end in a period ...
const ENOUGH: u64 = 256;

/// ... and its minimal length: members that run out of space collect often, and a little.
const LEAST: Duration = Duration::from_secs(5);

/// Requests take much longer if they take this many times as long as calm ones.
const MUCH: u32 = 3;

/// Members are left alone after this many such periods in a row: a burst passes sooner. The
/// comparison is with this many.
const PATIENCE: usize = 3;

/// The other way is tried again after this many periods; after twice as many each time that the
/// trial has changed nothing ...
const AGAIN: usize = 8;

/// ... up to this many.
const AGAIN_MAX: usize = 512;

/// The share of the latency by which another way has to be better.
const GAIN: f64 = 0.1;

/// A trial ends early if its latency is this many times that of the other way: if there is much
/// more to collect than members can, turns spread the load.
const WORSE: u32 = 4;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct TurnTrial {
    /// Whether turns are found to lose, and when that last changed.
    rests: bool,
    since: Option<Instant>,
    /// Whether the other way is being tried.
    tries: bool,
    /// When the last trial began, and the latency of requests by then.
    tried: Option<(Instant, LatencyTotals)>,
    /// Whether this period does not count.
    settles: bool,
    /// When this period began; none before the first look.
    begun: Option<Instant>,
    /// The latency of requests at the beginnings of the last periods that count, this one included.
    marks: Vec<LatencyTotals>,
    /// The latency in the last such periods: with turns, and without.
    ways: [Option<LatencyTotals>; 2],
    /// The length of the last period with turns.
    length: Duration,
    /// The members that collected at the last look, and how often each member has begun to collect
    /// in this period.
    collecting: Vec<bool>,
    rounds: Vec<u32>,
    /// Periods in a row that call for a comparison, and how many of them it takes.
    calls: usize,
    wanted: usize,
    /// Whether doing without was better at the last comparison. It has to be better twice, with
    /// turns losing again in between: the first time, the cause may just have passed.
    won: bool,
}

impl TurnTrial {
    /// Looks at the members, and at the latency of all requests. Tells whether to leave the members
    /// alone.
    pub fn look(&mut self, now: Instant, members: &[Flash], totals: &LatencyTotals) -> bool {
        self.count(members);
        let Some(begun) = self.begun else {
            self.begin(now, *totals);
            return self.leaves_alone();
        };
        if self.is_hopeless(now, totals) {
            self.stays();
            self.turned();
            return self.leaves_alone();
        }
        let spent = self.marks.last().map_or(LatencyTotals::default(), |mark| totals.since(mark));
        let is_long = match self.leaves_alone() {
            true => now - begun >= self.length,
            false => self.rounds.iter().all(|&rounds| rounds >= ROUNDS),
        };
        if is_long && now - begun >= LEAST && spent.requests() >= ENOUGH {
            if !self.leaves_alone() {
                self.length = now - begun;
            }
            if !self.settles {
                self.ended(now, &spent, totals);
            } else {
                self.settles = false;
                self.marks.clear();
            }
            self.begun = None;
        }
        self.leaves_alone()
    }

    fn leaves_alone(&self) -> bool {
        self.rests != self.tries
    }

    fn count(&mut self, members: &[Flash]) {
        self.collecting.resize(members.len(), false);
        self.rounds.resize(members.len(), 0);
        for (index, member) in members.iter().enumerate() {
            self.rounds[index] += u32::from(member.collecting && !self.collecting[index]);
            self.collecting[index] = member.collecting;
        }
    }

    fn begin(&mut self, now: Instant, totals: LatencyTotals) {
        self.begun = Some(now);
        self.rounds.fill(0);
        if self.marks.len() == PATIENCE {
            self.marks.remove(0);
        }
        self.marks.push(totals);
    }

    /// A period that counts has ended.
    fn ended(&mut self, now: Instant, spent: &LatencyTotals, totals: &LatencyTotals) {
        let alone = self.leaves_alone();
        self.ways[usize::from(alone)] = self.marks.first().map(|first| totals.since(first));
        if self.tries {
            self.compare(now);
        } else if self.rests || spent.mean() > spent.calm().map(|calm| calm * MUCH) {
            self.calls += 1;
            self.tries = self.calls >= self.wanted.max(PATIENCE);
        } else {
            (self.calls, self.won) = (0, false);
            self.marks.clear();
        }
        if self.leaves_alone() != alone {
            self.tried = Some((now, *totals));
            self.turned();
        }
    }

    /// Members are left alone from now on, or not any more.
    fn turned(&mut self) {
        self.settles = true;
        self.marks.clear();
        self.begun = None;
    }

    /// Whether the trial is clearly worse before its end.
    fn is_hopeless(&self, now: Instant, totals: &LatencyTotals) -> bool {
        let Some((begun, before)) = self.tried.filter(|_| self.tries) else { return false };
        let tried = totals.since(&before);
        let seen = now - begun >= LEAST && tried.requests() >= ENOUGH;
        let stays = self.ways[usize::from(self.rests)];
        seen && tried.mean() > stays.and_then(|way| way.mean()).map(|mean| mean * WORSE)
    }

    /// Both ways were tried: keeps the better one.
    fn compare(&mut self, now: Instant) {
        let [stays, tried] = [self.rests, !self.rests].map(|alone| {
            let mean = self.ways[usize::from(alone)].and_then(|way| way.mean());
            mean.unwrap_or_default().as_secs_f64()
        });
        let is_better = tried < (1.0 - GAIN) * stays;
        if is_better && !self.rests && !self.won {
            (self.tries, self.calls, self.wanted, self.won) = (false, 0, PATIENCE, true);
        } else if is_better {
            self.won = false;
            self.rests = !self.rests;
            self.since = Some(now);
            (self.tries, self.calls, self.wanted) = (false, 0, AGAIN);
        } else {
            self.stays();
        }
    }

    /// The current way is not worse than the other one, which is not tried again so soon.
    fn stays(&mut self) {
        (self.tries, self.calls, self.won) = (false, 0, false);
        self.wanted = (2 * self.wanted).clamp(AGAIN, AGAIN_MAX);
    }

    /// The findings.
    #[must_use]
    pub fn judged(&self) -> Judged {
        let [turns, alone] = self.ways;
        Judged {
            choice: Choice::Turns,
            on: !self.rests,
            since: self.since,
            calm: turns.or(alone).and_then(|way| way.calm()),
            around: turns.and_then(|way| way.mean()),
            home: alone.and_then(|way| way.mean()),
        }
    }
}

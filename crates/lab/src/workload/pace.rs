//! The times of requests: in a closed or an open loop.

use std::time::Duration;

use det::Instant;
use serde::Deserialize;

use super::random::Random;
use super::{Pace, WorkloadError, range};
use crate::units::Span;

/// When the next request comes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// When one has ended: a fixed number of users wait for their answers.
    Closed(Closed),
    /// By the clock, independent of completions.
    Open(Open),
}

impl Default for Pacing {
    /// One request at a time.
    fn default() -> Self {
        Self::Closed(Closed { depth: 1, think: Span::default() })
    }
}

impl Pacing {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        match self {
            Self::Closed(closed) => closed.check(),
            Self::Open(open) => open.check(),
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        match self {
            Self::Closed(closed) => closed.pace(),
            Self::Open(_) => Pace::Open,
        }
    }
}

/// A closed loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// How many requests are under way at any time.
    pub depth: u32,
    /// The think time: from the end of a request to the next one in its place.
    #[serde(default)]
    pub think: Span,
}

impl Closed {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        range("closed.depth", f64::from(self.depth), self.depth > 0, "at least 1")
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace::Closed { depth: self.depth, think: self.think.0 }
    }
}

/// An open loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Requests a second, in the mean.
    pub rate: f64,
    /// How the times between them are distributed.
    #[serde(default)]
    pub gaps: Gaps,
}

impl Open {
    fn check(&self) -> Result<(), WorkloadError> {
        let rate = (1e-6..=1e9).contains(&self.rate);
        range("open.rate", self.rate, rate, "from a millionth to a billion a second")?;
        let Gaps::Bursts(Bursts { peak, share, dwell }) = &self.gaps else { return Ok(()) };
        range("bursts.share", *share, (1e-6..1.0).contains(share), "from a millionth to below 1")?;
        let fits = *peak >= 1.0 && peak * share <= 1.0 + 1e-9;
        range("bursts.peak", *peak, fits, "at least 1 and at most 1 / share")?;
        // Shorter states could not be told from a constant rate, and would take long to simulate.
        let Some(Span(dwell)) = dwell else { return Ok(()) };
        let seconds = dwell.as_secs_f64();
        range("bursts.dwell", seconds, seconds * self.rate >= 1.0, "at least 1 / rate seconds")
    }
}

/// Times between requests, by their distribution.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// Exponential: requests are independent.
    #[default]
    Poisson,
    /// All the same.
    Constant,
    /// Between zero and twice the mean.
    Uniform,
    /// Poisson, at a rate that is high for a while, then low.
    Bursts(Bursts),
}

/// A Poisson process with two rates. The current one is drawn again after exponentially distributed
/// times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// The rate in a burst over the mean rate. The rate outside follows from it; it is 0 if
    /// `peak` × `share` is 1.
    pub peak: f64,
    /// The share of time in bursts.
    pub share: f64,
    /// The mean time after which it is drawn again whether there is a burst; if absent, as long
    /// as 200 requests take at the mean rate.
    pub dwell: Option<Span>,
}

/// Computes the times of requests.
#[derive(Debug)]
pub(crate) struct Clock {
    law: Law,
    now: u64,
    /// The fraction of a nanosecond that was rounded off, to keep the mean exact.
    rest: f64,
}

/// All times in nanoseconds.
#[derive(Debug)]
enum Law {
    Closed,
    Poisson { mean: f64 },
    Constant { gap: f64 },
    Uniform { most: f64 },
    Bursts(Box<Bursting>),
}

#[derive(Debug)]
struct Bursting {
    share: f64,
    /// Mean gaps in a burst and outside; infinite if the rate is 0.
    busy: f64,
    quiet: f64,
    dwell: f64,
    burst: bool,
    /// The remaining time of this state after the last request.
    left: f64,
}

impl Clock {
    /// `pacing` has been checked.
    pub(crate) fn new(pacing: &Pacing) -> Self {
        let law = match pacing {
            Pacing::Closed(_) => Law::Closed,
            Pacing::Open(open) => Law::new(open),
        };
        Self { law, now: 0, rest: 0.0 }
    }

    /// When the next one comes; in a closed loop always the start.
    pub(crate) fn next(&mut self, random: &mut Random) -> Instant {
        let gap = match &mut self.law {
            Law::Closed => return Instant::ORIGIN,
            Law::Poisson { mean } => random.exponential(*mean),
            Law::Constant { gap } => *gap,
            Law::Uniform { most } => random.unit() * *most,
            Law::Bursts(bursting) => bursting.gap(random),
        };
        let exact = gap + self.rest;
        let whole = exact.floor();
        self.rest = exact - whole;
        self.now = self.now.saturating_add(whole as u64);
        Instant(self.now)
    }
}

impl Law {
    fn new(open: &Open) -> Self {
        let mean = 1e9 / open.rate;
        match &open.gaps {
            Gaps::Poisson => Self::Poisson { mean },
            Gaps::Constant => Self::Constant { gap: mean },
            Gaps::Uniform => Self::Uniform { most: 2.0 * mean },
            Gaps::Bursts(Bursts { peak, share, dwell }) => {
                let outside = ((1.0 - peak * share) / (1.0 - share)).max(0.0);
                let dwell = dwell.map_or(200.0 * mean, |Span(dwell)| nanos(dwell));
                let (busy, quiet) = (mean / peak, mean / outside);
                let bursting =
                    Bursting { share: *share, busy, quiet, dwell, burst: false, left: 0.0 };
                Self::Bursts(Box::new(bursting))
            }
        }
    }
}

impl Bursting {
    fn gap(&mut self, random: &mut Random) -> f64 {
        let mut waited = 0.0;
        loop {
            // An exponential distribution has no memory: after a change of state the time to the
            // next request may be drawn again.
            let gap = match if self.burst { self.busy } else { self.quiet } {
                mean if mean.is_finite() => random.exponential(mean),
                never => never,
            };
            if gap <= self.left {
                self.left -= gap;
                return waited + gap;
            }
            waited += self.left;
            self.burst = random.chance(self.share);
            self.left = random.exponential(self.dwell);
        }
    }
}

fn nanos(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

//! How fast background work may go so that users hardly feel it: what their requests take meanwhile is
//! compared with what they take in calm.
//!
//! Of reads and of writes some quantiles are followed. In calm, when no member is missing and nothing goes
//! on in the background, they are learnt. While a pass goes on, each quantile has a rate of its own, which
//! falls with each request that takes longer than it may, and grows with each that does not: in the long run
//! as many take longer as the quantile leaves. The lowest of the rates holds. Both are stochastic
//! approximations (Robbins and Monro, 1951): a step for each request, and no memory of any.

use core::time::Duration;

/// How many times as long users' requests may take while background work goes on, in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slowdown(u32);

impl Slowdown {
    /// So many percent of the time that requests take in calm: more than 100.
    #[must_use]
    pub fn percent(percent: u32) -> Option<Self> {
        (percent > 100).then_some(Self(percent))
    }

    /// In percent.
    #[must_use]
    pub fn as_percent(self) -> u32 {
        self.0
    }
}

impl Default for Slowdown {
    /// Twice as long.
    fn default() -> Self {
        Self(200)
    }
}

/// Of each quantile, how many of a thousand requests take longer.
const LONGER: [u64; 3] = [500, 100, 10];

/// A quantile is known when so many requests should have taken longer.
const TELLING: u64 = 10;

/// By which part of it a quantile moves at most with a request: 1/32.
const STEP: u64 = 32;

/// By which part of it a rate falls at most with a request: 1/8.
const RATE_STEP: u64 = 8;

/// Between these a rate moves, in bytes per second.
const RATES: [u64; 2] = [1 << 12, 1 << 32];

/// A quantile of what requests take, and the rate at which background work leaves it where it may be.
#[derive(Clone, Copy, Debug, Default)]
struct Quantile {
    /// In calm, in nanoseconds.
    calm: u64,
    /// In bytes per second.
    rate: u64,
}

/// What requests of a kind take.
#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    quantiles: [Quantile; LONGER.len()],
    /// How many were learnt from.
    learnt: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Response {
    reads: Latency,
    writes: Latency,
    /// The rate that holds, in bytes per second; nothing as long as no quantile is known.
    rate: Option<u64>,
}

impl Latency {
    fn learn(&mut self, took: u64) {
        for (quantile, longer) in self.quantiles.iter_mut().zip(LONGER) {
            let calm = quantile.calm;
            quantile.calm = if self.learnt == 0 {
                took
            } else if took > calm {
                calm + calm * (1000 - longer) / (1000 * STEP) + 1
            } else {
                calm - calm * longer / (1000 * STEP)
            };
        }
        self.learnt += 1;
    }

    /// The quantiles that are known, and how many of a thousand requests take longer.
    fn known(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let learnt = self.learnt;
        let each = LONGER.into_iter().enumerate();
        each.filter(move |&(_, longer)| learnt * longer >= 1000 * TELLING)
    }

    fn adapt(&mut self, took: u64, slowdown: Slowdown) {
        for (index, longer) in self.known() {
            let Quantile { calm, rate } = &mut self.quantiles[index];
            let may = (*calm / 100).saturating_mul(slowdown.0.into());
            let moved = if took > may {
                *rate - *rate * (1000 - longer) / (1000 * RATE_STEP)
            } else {
                *rate + *rate * longer / (1000 * RATE_STEP)
            };
            *rate = moved.clamp(RATES[0], RATES[1]);
        }
    }

    /// The lowest rate, if one is known.
    fn rate(&self) -> Option<u64> {
        self.known().map(|(index, _)| self.quantiles[index].rate).min()
    }
}

impl Response {
    fn of(&mut self, read: bool) -> &mut Latency {
        if read { &mut self.reads } else { &mut self.writes }
    }

    /// A read or write has ended in calm.
    pub(super) fn learn(&mut self, read: bool, took: Duration) {
        self.of(read).learn(nanos(took));
    }

    /// Background work begins, at this rate in bytes per second.
    pub(super) fn begin(&mut self, rate: u64) {
        for latency in [&mut self.reads, &mut self.writes] {
            latency.quantiles.iter_mut().for_each(|quantile| quantile.rate = rate);
        }
        self.find_rate();
    }

    /// A read or write has ended while background work goes on.
    pub(super) fn adapt(&mut self, read: bool, took: Duration, slowdown: Slowdown) {
        self.of(read).adapt(nanos(took), slowdown);
        self.find_rate();
    }

    fn find_rate(&mut self) {
        self.rate = self.reads.rate().into_iter().chain(self.writes.rate()).min();
    }

    /// The rate of background work that users bear, in bytes per second; nothing if it is not known what
    /// they are used to.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }
}

fn nanos(time: Duration) -> u64 {
    // Days: what is multiplied does not overflow.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(1 << 48)
}

#[cfg(test)]
mod tests {
    use det::Prng;

    use super::*;

    const USUAL: Duration = Duration::from_micros(100);

    /// Requests as long as usual, and one of fifty ten times as long, have ended in calm.
    fn learnt(requests: u32) -> Response {
        let mut response = Response::default();
        (0..requests).for_each(|request| {
            response.learn(true, if request % 50 == 7 { 10 * USUAL } else { USUAL });
        });
        response.begin(1 << 20);
        response
    }

    #[test]
    fn a_rate_is_known_when_enough_was_learnt() {
        assert_eq!(learnt(19).rate(), None);
        assert_eq!(learnt(20).rate(), Some(1 << 20));
    }

    #[test]
    fn quantiles_are_what_so_many_requests_take() {
        let mut prng = Prng::new(1);
        let mut latency = Latency::default();
        // From 1 to 1001 microseconds, each as often.
        (0..100_000).for_each(|_| latency.learn(1000 + prng.below(1_000_000)));
        let calm = latency.quantiles.map(|quantile| quantile.calm / 1000);
        for (found, right) in calm.into_iter().zip([501, 901, 991]) {
            assert!(found.abs_diff(right) < right / 8, "{found} instead of {right}");
        }
    }

    #[test]
    fn the_rate_grows_while_requests_take_what_they_may() {
        let mut response = learnt(5000);
        (0..10_000).for_each(|_| response.adapt(true, USUAL * 19 / 10, Slowdown::default()));
        assert!(response.rate() > Some(RATES[1] / 2));
    }

    #[test]
    fn the_rate_falls_when_half_of_the_requests_take_too_long() {
        let mut response = learnt(5000);
        let took = |request| if request % 3 == 0 { USUAL } else { USUAL * 21 / 10 };
        (0..1000).for_each(|request| response.adapt(true, took(request), Slowdown::default()));
        assert!(response.rate() < Some(2 * RATES[0]));
    }

    #[test]
    fn the_rate_falls_when_a_few_requests_take_much_too_long() {
        let mut response = learnt(30_000);
        let took = |request| if request % 50 == 0 { 21 * USUAL } else { USUAL };
        (0..5000).for_each(|request| response.adapt(true, took(request), Slowdown::default()));
        assert!(response.rate() < Some(2 * RATES[0]));
        // As many as in calm, and no longer than they may.
        let took = |request| if request % 50 == 0 { 19 * USUAL } else { USUAL };
        (0..20_000).for_each(|request| response.adapt(true, took(request), Slowdown::default()));
        assert!(response.rate() > Some(RATES[1] / 2));
    }

    #[test]
    fn writes_count_beside_reads() {
        let mut response = learnt(5000);
        (0..100).for_each(|_| response.learn(false, 10 * USUAL));
        response.begin(1 << 20);
        (0..1000).for_each(|_| response.adapt(true, USUAL, Slowdown::default()));
        (0..100).for_each(|_| response.adapt(false, 30 * USUAL, Slowdown::default()));
        assert!(response.rate() < Some(2 * RATES[0]));
    }
}

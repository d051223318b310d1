//! How fast background work may go so that users hardly feel it: what their requests take meanwhile is
//! compared with what they take in calm.
//!
//! Of reads and of writes some quantiles are followed. In calm, when no member is missing and nothing goes
//! on in the background, they are learnt. While a pass goes on, each quantile has a rate of its own, which
//! falls with each request that takes longer than it may, and grows with each that does not: in the long run
//! as many take longer as the quantile leaves. The lowest of the rates holds. Both are stochastic
//! approximations (Robbins and Monro, 1951): a step for each request, and no memory of any.

use core::time::Duration;

use det::Instant;

use super::Pace;

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
const TELLING: u64 = 100;

/// By which part of it a quantile moves at most with a request: half as long as not even half of these have
/// been seen, so that it does not matter how the first request went; then 1/32.
const STEPS: [u64; 2] = [2, 32];

/// By which part of it a rate falls at most with a request: 1/8.
const RATE_STEP: u64 = 8;

/// A kind of requests counts for so long after one has ended.
const COUNTS: Duration = Duration::from_secs(1);

/// Between these a rate moves, in bytes per second.
const RATES: [u64; 2] = [1 << 12, 1 << 32];

/// A quantile of what requests take, and the rate of background work at which it stays where it may be.
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
    /// When one has ended last while background work went on.
    ended: Option<Instant>,
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
            let is_early = 2 * self.learnt * longer < 1000 * TELLING;
            let step = STEPS[usize::from(!is_early)];
            quantile.calm = if self.learnt == 0 {
                took
            } else if took > calm {
                calm + calm * (1000 - longer) / (1000 * step) + 1
            } else {
                calm - calm * longer / (1000 * step)
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

    fn adapt(&mut self, took: u64, slowdown: Slowdown, rates: [u64; 2]) {
        for (index, longer) in self.known() {
            let Quantile { calm, rate } = &mut self.quantiles[index];
            let may = (*calm / 100).saturating_mul(slowdown.0.into());
            let moved = if took > may {
                *rate - *rate * (1000 - longer) / (1000 * RATE_STEP)
            } else {
                *rate + *rate * longer / (1000 * RATE_STEP)
            };
            *rate = moved.clamp(rates[0], rates[1]);
        }
    }

    /// The lowest rate, if one is known and such requests come.
    fn rate(&self, now: Instant) -> Option<u64> {
        self.ended.filter(|&ended| now - ended < COUNTS)?;
        self.known().map(|(index, _)| self.quantiles[index].rate).min()
    }
}

impl Response {
    /// The rate of background work that users do not feel at all.
    pub(super) const GREATEST: u64 = RATES[1];

    fn of(&mut self, read: bool) -> &mut Latency {
        if read { &mut self.reads } else { &mut self.writes }
    }

    /// A read or write has ended in calm.
    pub(super) fn learn(&mut self, read: bool, took: Duration) {
        self.of(read).learn(nanos(took));
    }

    /// Background work begins, at the least pace.
    pub(super) fn begin(&mut self, pace: Pace) {
        for latency in [&mut self.reads, &mut self.writes] {
            latency.quantiles.iter_mut().for_each(|quantile| quantile.rate = rates(pace)[0]);
            latency.ended = None;
        }
        self.rate = None;
    }

    /// A read or write has ended while background work goes on.
    pub(super) fn adapt(
        &mut self,
        (now, read, took): (Instant, bool, Duration),
        slowdown: Slowdown,
        pace: Pace,
    ) {
        let latency = self.of(read);
        latency.ended = Some(now);
        latency.adapt(nanos(took), slowdown, rates(pace));
        self.rate = self.reads.rate(now).into_iter().chain(self.writes.rate(now)).min();
    }

    /// The rate of background work that users bear, in bytes per second; nothing if it is not known what
    /// they are used to.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }
}

/// Between which rates a pace leaves something to be found out.
fn rates(Pace { min, max }: Pace) -> [u64; 2] {
    let least = min.clamp(RATES[0], RATES[1]);
    [least, max.clamp(least, RATES[1])]
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
    const ANY: Pace = Pace { min: 0, max: u64::MAX };

    /// Requests as long as usual, and one of fifty ten times as long, have ended in calm; the first took a
    /// second.
    fn learnt(requests: u32) -> Response {
        let mut response = Response::default();
        response.learn(true, Duration::from_secs(1));
        (1..requests).for_each(|request| {
            response.learn(true, if request % 50 == 7 { 10 * USUAL } else { USUAL });
        });
        response.begin(ANY);
        response
    }

    /// So many reads take what they take, a millisecond after each other, and twice as long is allowed.
    fn adapt(response: &mut Response, requests: u32, took: impl Fn(u32) -> Duration) {
        for request in 0..requests {
            let now = Instant::ORIGIN + Duration::from_millis(request.into());
            response.adapt((now, true, took(request)), Slowdown::default(), ANY);
        }
    }

    #[test]
    fn a_rate_is_known_when_enough_was_learnt() {
        for (requests, known) in [(199, None), (200, Some(RATES[0]))] {
            let mut response = learnt(requests);
            adapt(&mut response, 1, |_| USUAL);
            assert_eq!(response.rate().is_some(), known.is_some());
        }
    }

    #[test]
    fn how_the_first_request_went_does_not_matter() {
        for (requests, index) in [(200, 0), (1000, 1), (10_000, 2)] {
            let calm = learnt(requests).reads.quantiles[index].calm / 1000;
            let right = if index == 2 { 1000 } else { 100 };
            assert!(calm.abs_diff(right) < right / 4, "{calm} us instead of {right}");
        }
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
        let mut response = learnt(30_000);
        adapt(&mut response, 20_000, |_| USUAL * 19 / 10);
        assert!(response.rate() > Some(RATES[1] / 2));
    }

    #[test]
    fn the_rate_falls_when_half_of_the_requests_take_too_long() {
        let mut response = learnt(30_000);
        adapt(&mut response, 20_000, |_| USUAL);
        adapt(&mut response, 1000, |request| if request % 3 == 0 { USUAL } else { USUAL * 5 / 2 });
        assert!(response.rate() < Some(2 * RATES[0]));
    }

    #[test]
    fn the_rate_falls_when_a_few_requests_take_much_too_long() {
        let mut response = learnt(30_000);
        adapt(&mut response, 20_000, |_| USUAL);
        let took = |long| move |request| if request % 50 == 0 { long * USUAL } else { USUAL };
        adapt(&mut response, 20_000, took(25));
        assert!(response.rate() < Some(2 * RATES[0]));
        // As many as in calm, and no longer than they may.
        adapt(&mut response, 20_000, took(15));
        assert!(response.rate() > Some(RATES[1] / 2));
    }

    #[test]
    fn writes_count_beside_reads_as_long_as_there_are_any() {
        let mut response = learnt(30_000);
        (0..1000).for_each(|_| response.learn(false, 10 * USUAL));
        adapt(&mut response, 20_000, |_| USUAL);
        let last = Instant::ORIGIN + Duration::from_millis(19_999);
        (0..100).for_each(|_| {
            response.adapt((last, false, 30 * USUAL), Slowdown::default(), ANY);
        });
        assert!(response.rate() < Some(2 * RATES[0]));
        let later = last + COUNTS;
        response.adapt((later, true, USUAL), Slowdown::default(), ANY);
        assert!(response.rate() > Some(RATES[1] / 2));
    }

    #[test]
    fn a_pace_bounds_the_rate() {
        for pace in [Pace { min: u64::MAX, max: u64::MAX }, Pace { min: 1 << 20, max: 1 << 21 }] {
            let mut response = learnt(30_000);
            response.begin(pace);
            for took in [USUAL, 100 * USUAL] {
                for _ in 0..10_000 {
                    response.adapt((Instant::ORIGIN, true, took), Slowdown::default(), pace);
                    let rate = response.rate().expect("it is known");
                    assert!((rates(pace)[0]..=rates(pace)[1]).contains(&rate));
                }
            }
        }
    }
}

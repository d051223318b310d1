//! Whether detours around busy members pay: found out from request latencies.
//!
//! To compare, some requests would have to wait for a busy member on purpose, and become the tail.
//! So none waits as long as waiting can't be much better: while a detour takes about as long as a
//! request without a busy member in its way, and costs others nothing. A detour can take much longer, if the other
//! members are overloaded or the request is so large that the detour is most of the work. Then one request
//! in some goes the other way, and the better way is taken from then on.
//!
//! A detour may have the other members do more. Each of these I/Os delays what waits behind it, by about as much
//! as a calm request takes: under a light load by next to nothing, and by a lot where there are queues. So a
//! detour of such a price has to win more than that, however short it is.
//!
//! A comparison that confirms the one before delays the next one: where the worse way is known, few
//! requests take it.
//!
//! Small and large requests are judged apart.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, Judged, Way};

/// Requests of more blocks are large.
const SMALL: u32 = 16;

/// Requests that have to have ended before they are judged.
const ENOUGH: u32 = 32;

/// A detour takes much longer if it takes this many times as long as a calm request.
const MUCH: u32 = 3;

/// One request in this many goes the way that seems worse, while the ways are compared ...
const PROBE: u32 = 32;

/// ... and one in this many once comparisons have repeatedly had the same result.
const PROBE_MAX: u32 = 4096;

/// The weight of the last request in a mean is one in this many.
const MEMORY: u32 = 32;

/// Values beyond this many means count as this many: one outlier says little, several say much.
const FAR: f64 = 8.0;

/// The mean latency of recent requests.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    nanos: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, took: Duration) {
        self.count = self.count.saturating_add(1);
        let weight = 1.0 / f64::from(self.count.min(MEMORY));
        let nanos = took.as_nanos() as f64;
        let far = if self.count > MEMORY { FAR * self.nanos } else { f64::INFINITY };
        self.nanos += (nanos.min(far) - self.nanos) * weight;
    }

    fn known(&self) -> Option<f64> {
        (self.count >= ENOUGH).then_some(self.nanos)
    }

    fn duration(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.nanos as u64))
    }
}

/// Requests of one size.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    calm: Mean,
    around: Mean,
    home: Mean,
    /// Which way seems better, how many requests have come since one went the other way, and how
    /// often the comparison has changed nothing.
    around_is_better: bool,
    /// How many calm requests cost others as much as a detour.
    price: u32,
    asked: u32,
    confirmed: u32,
}

impl Class {
    /// Whether to make a detour of this price.
    fn choose(&mut self, price: u32) -> bool {
        self.price = price;
        if !self.is_in_question(price) {
            return true;
        }
        let around_is_better = self.is_better();
        if self.around_is_better != around_is_better {
            (self.around_is_better, self.asked, self.confirmed) = (around_is_better, 0, 0);
        }
        self.asked += 1;
        let probes = self.asked >= (PROBE << self.confirmed).min(PROBE_MAX);
        if probes {
            self.asked = 0;
            let more = self.has_home() && PROBE << self.confirmed < PROBE_MAX;
            self.confirmed += u32::from(more);
        }
        around_is_better != probes
    }

    fn is_in_question(&self, price: u32) -> bool {
        let (Some(calm), Some(around)) = (self.calm.known(), self.around.known()) else {
            return false;
        };
        price > 0 || around > f64::from(MUCH) * calm
    }

    /// Whether detours are found to lose.
    fn rests(&self) -> bool {
        self.is_in_question(self.price) && !self.is_better()
    }

    fn is_better(&self) -> bool {
        let around = self.around.known();
        let price = f64::from(self.price) * self.calm.nanos;
        around.is_none_or(|around| !self.has_home() || around + price <= self.home.nanos)
    }

    /// Whether the latency of requests that wait is known: a few are enough.
    fn has_home(&self) -> bool {
        self.home.count >= ENOUGH / 4
    }
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct DetourTrial {
    classes: [Class; 2],
    turned: [Turned; 2],
}

/// When the choice for requests of one size last changed.
#[derive(Clone, Copy, Debug, Default)]
struct Turned {
    rests: bool,
    at: Option<Instant>,
}

impl DetourTrial {
    fn class(&mut self, blocks: u32) -> &mut Class {
        &mut self.classes[usize::from(blocks > SMALL)]
    }

    /// Whether a detour of a request with this many blocks may lose: it has other members do as much as `price` calm
    /// requests of its kind, or detours take much longer than requests without a busy member in their way, as the
    /// other members have much to do, or the requests are large.
    #[must_use]
    pub fn is_in_question(&self, blocks: u32, price: u32) -> bool {
        self.classes[usize::from(blocks > SMALL)].is_in_question(price)
    }

    /// Whether a request of this many blocks makes a detour of this [price](Self::is_in_question), if it could.
    pub fn choose(&mut self, blocks: u32, price: u32) -> bool {
        self.class(blocks).choose(price)
    }

    /// Takes note of when detours of requests with this many blocks begin and cease to rest.
    pub fn look(&mut self, now: Instant, blocks: u32) {
        let rests = self.class(blocks).rests();
        let turned = &mut self.turned[usize::from(blocks > SMALL)];
        if turned.rests != rests {
            *turned = Turned { rests, at: Some(now) };
        }
    }

    /// Both: whether a request of this many blocks makes a detour of this price.
    pub fn pays(&mut self, now: Instant, blocks: u32, price: u32) -> bool {
        self.look(now, blocks);
        self.choose(blocks, price)
    }

    /// The latency of requests with this many blocks without a busy member in their way, once it is
    /// known.
    #[must_use]
    pub fn calm(&self, blocks: u32) -> Option<Duration> {
        let calm = self.classes[usize::from(blocks > SMALL)].calm;
        calm.known().and(calm.duration())
    }

    /// A request has ended.
    pub fn ended(&mut self, blocks: u32, way: Way, took: Duration) {
        let class = self.class(blocks);
        match way {
            Way::Calm => class.calm.add(took),
            Way::Around => class.around.add(took),
            Way::Home => class.home.add(took),
        }
    }

    /// The findings on this choice for small and for large requests.
    pub fn judged(&self, choice: impl Fn(bool) -> Choice) -> impl Iterator<Item = Judged> {
        let classes = self.classes.into_iter().zip(self.turned);
        classes.zip([true, false]).map(move |((class, turned), small)| Judged {
            choice: choice(small),
            on: !class.rests(),
            since: turned.at.filter(|_| turned.rests == class.rests()),
            calm: class.calm.duration(),
            around: class.around.duration(),
            home: class.home.duration(),
        })
    }
}

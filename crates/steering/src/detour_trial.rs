//! Whether it pays to lead requests around busy members: found out from how long they take.
//!
//! To compare, some requests would have to wait for a busy member on purpose, and be the tail. So
//! none waits as long as there is nothing to be gained by it: while a request that is led around
//! takes about as long as one without a busy member in its way, waiting can't be better by much. When it
//! takes much longer (the others are overloaded, or the request is so large that to lead it around
//! is most of the work), one in some goes the other way, and the better way is taken from then on.
//!
//! A comparison that ends as the one before is not made again so soon: few requests go the worse way
//! where it is known which one that is.
//!
//! Small and large requests are judged apart.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Part, Way};

/// Requests of more blocks are large.
const SMALL: u32 = 16;

/// So many requests have to have ended before anything is judged by them.
const ENOUGH: u32 = 32;

/// Led around, a request takes much longer if it takes so many times as long as a calm one.
const MUCH: u32 = 3;

/// One in so many goes the way that seems worse, while they are compared ...
const PROBE: u32 = 32;

/// ... and one in so many once they have been, again and again, with the same result.
const PROBE_MAX: u32 = 4096;

/// A mean weighs what ended last as one in so many.
const MEMORY: u32 = 32;

/// What takes longer than so many times the mean weighs as if it took that: one that is far out
/// says little, several say much.
const FAR: f64 = 8.0;

/// How long requests take, of late.
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
    /// Which way seems better, how many have come since one went the other, and how often that has
    /// changed nothing.
    around_is_better: bool,
    asked: u32,
    confirmed: u32,
}

impl Class {
    /// Whether to lead around.
    fn choose(&mut self) -> bool {
        if !self.is_in_question() {
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

    fn is_in_question(&self) -> bool {
        let (Some(calm), Some(around)) = (self.calm.known(), self.around.known()) else {
            return false;
        };
        around > f64::from(MUCH) * calm
    }

    /// Whether leading around is found to lose.
    fn rests(&self) -> bool {
        self.is_in_question() && !self.is_better()
    }

    fn is_better(&self) -> bool {
        let around = self.around.known();
        around.is_none_or(|around| !self.has_home() || around <= self.home.nanos)
    }

    /// Whether it is known how long those take that wait: a few tell enough.
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

/// When what is done with requests of one size has changed last.
#[derive(Clone, Copy, Debug, Default)]
struct Turned {
    rests: bool,
    at: Option<Instant>,
}

impl DetourTrial {
    fn class(&mut self, blocks: u32) -> &mut Class {
        &mut self.classes[usize::from(blocks > SMALL)]
    }

    /// Whether requests of so many blocks take much longer if they are led around than without a
    /// busy member in their way: the others have much to do, or the requests are a burden by themselves.
    #[must_use]
    pub fn is_in_question(&self, blocks: u32) -> bool {
        self.classes[usize::from(blocks > SMALL)].is_in_question()
    }

    /// Whether to lead a request of so many blocks around, which could be.
    pub fn choose(&mut self, blocks: u32) -> bool {
        self.class(blocks).choose()
    }

    /// Takes note of when leading requests of so many blocks around begins and ceases to rest.
    pub fn look(&mut self, now: Instant, blocks: u32) {
        let rests = self.class(blocks).rests();
        let turned = &mut self.turned[usize::from(blocks > SMALL)];
        if turned.rests != rests {
            *turned = Turned { rests, at: Some(now) };
        }
    }

    /// How long requests of so many blocks take without a busy member in their way, as soon as that
    /// is known.
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

    /// What was found out; `names` are of what is done with small requests and with large ones.
    pub fn parts(&self, names: [&'static str; 2]) -> impl Iterator<Item = Part> {
        let classes = self.classes.into_iter().zip(self.turned);
        classes.zip(names).map(|((class, turned), name)| Part {
            name,
            ways: ["led around", "waiting"],
            on: !class.rests(),
            since: turned.at.filter(|_| turned.rests == class.rests()),
            calm: class.calm.duration(),
            around: class.around.duration(),
            home: class.home.duration(),
        })
    }
}

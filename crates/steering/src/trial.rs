//! Whether it pays to lead requests around busy members: found out from how long they take.
//!
//! To compare, some requests would have to wait for a busy member on purpose, and be the tail. So
//! nobody waits as long as there is nothing to be gained by it: while a request that is led around
//! takes about as long as one that nobody is in the way of, waiting can't be better by much. When it
//! takes much longer (the others are overloaded, or the request is so large that to lead it around
//! is most of the work), one in some goes the other way, and the better way is taken from then on.
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

/// One in so many goes the way that seems worse, while they are compared.
const PROBE: u32 = 32;

/// A mean weighs what ended last as one in so many.
const MEMORY: u32 = 32;

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
        self.nanos += (took.as_nanos() as f64 - self.nanos) * weight;
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
    asked: u32,
}

impl Class {
    /// Whether to lead around.
    fn choose(&mut self) -> bool {
        let around_is_better = self.is_better();
        if !self.is_in_question() {
            return true;
        }
        self.asked = self.asked.wrapping_add(1);
        let probes = self.asked.is_multiple_of(PROBE);
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
        // A few that had to wait tell enough.
        let home = (self.home.count >= ENOUGH / 4).then_some(self.home.nanos);
        match (self.around.known(), home) {
            (Some(around), Some(home)) => around <= home,
            _ => true,
        }
    }
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    classes: [Class; 2],
    turned: [Turned; 2],
}

/// When what is done with requests of one size has changed last.
#[derive(Clone, Copy, Debug, Default)]
struct Turned {
    rests: bool,
    at: Option<Instant>,
}

impl Trial {
    fn class(&mut self, blocks: u32) -> &mut Class {
        &mut self.classes[usize::from(blocks > SMALL)]
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
            on: !class.rests(),
            since: turned.at.filter(|_| turned.rests == class.rests()),
            calm: class.calm.duration(),
            around: class.around.duration(),
            home: class.home.duration(),
        })
    }
}

//! Scenarios that can be played.

use std::fmt;
use std::ops::AddAssign;
use std::rc::Rc;

use det::Instant;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::source::Source;

/// A scenario that can be played.
pub trait Playable: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Play {
    /// The name of its seeds in messages.
    const NAME: &'static str;

    /// Makes the choices of a seed's scenario differ from those of its run.
    const SALT: u64;

    /// A seed's scenario.
    #[must_use]
    fn draw(seed: u64) -> Self {
        Self::choose(&mut Source::seed(seed ^ Self::SALT))
    }

    /// A scenario from a source of choices.
    #[must_use]
    fn choose(source: &mut Source) -> Self;

    /// Simpler scenarios, the largest steps first.
    #[must_use]
    fn simpler(&self) -> Vec<Self>;
}

/// How a run goes; see [`Playable`].
pub trait Play {
    /// The counters of a run.
    type Summary: AddAssign + Default + Copy + PartialEq + fmt::Debug + Send;

    /// The whole run. A check that fails panics.
    fn play(&self, source: Source, sink: Option<Sink>) -> Self::Summary;
}

/// Receives events and their times.
pub type Sink = Rc<dyn Fn(Instant, fmt::Arguments<'_>)>;

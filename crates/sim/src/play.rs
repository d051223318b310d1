//! What can be played.

use std::fmt;
use std::ops::AddAssign;
use std::rc::Rc;

use det::Instant;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::source::Source;

/// What a run is about, and can be played.
pub trait Playable: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Play {
    /// What its seeds are called in messages.
    const NAME: &'static str;

    /// What makes the choices of a seed's scenario others than those of its run.
    const SALT: u64;

    /// What a seed is about.
    #[must_use]
    fn draw(seed: u64) -> Self {
        Self::choose(&mut Source::seed(seed ^ Self::SALT))
    }

    /// What a source chooses.
    #[must_use]
    fn choose(source: &mut Source) -> Self;

    /// What is a little simpler, the boldest steps first.
    #[must_use]
    fn simpler(&self) -> Vec<Self>;
}

/// How a run goes; see [`Playable`].
pub trait Play {
    /// What happened in it.
    type Summary: AddAssign + Default + Copy + PartialEq + fmt::Debug + Send;

    /// All of it. A check that fails panics.
    fn play(&self, source: Source, sink: Option<Sink>) -> Self::Summary;
}

/// What is told what happens, and when.
pub type Sink = Rc<dyn Fn(Instant, fmt::Arguments<'_>)>;

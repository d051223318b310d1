//! The requests to an array or an SSD, and their times.
//!
//! A [`Workload`] is a description, from a table of an experiment's file. A [`Stream`] has its
//! requests for a system of a certain size. `docs/workloads.md` lists every key.
//!
//! Invariants: equal workloads, capacities and seeds give equal streams. All requests of a stream
//! lie within the system, and times in an open loop never go back.

mod address;
mod error;
mod mix;
mod pace;
mod paper;
mod random;
mod sizes;
mod synthetic;
mod ycsb;

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

pub use address::{Address, HotCold, Regions, ZipfExtents};
pub use error::WorkloadError;
use error::{range, share};
pub use mix::{Mix, Part};
use pace::Clock;
pub use pace::{Bursts, Closed, Gaps, Open, Pacing};
pub use paper::{Model, Paper};
pub(crate) use random::Random;
pub use sizes::Sizes;
pub use synthetic::Synthetic;
pub use ycsb::{Letter, Ycsb};

pub use crate::arrival::{Arrival, Kind};
use crate::trace::{Player, Replay};

/// What decides when the next request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The requests themselves, by [`Arrival::at`].
    Open,
    /// The end of an earlier one.
    Closed {
        /// How many are under way at any time.
        depth: u32,
        /// The time from the end of one to the next in its place.
        think: Duration,
    },
}

/// The workload: the table `[workload]` of an experiment, which contains one of these tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// A synthetic workload.
    Synthetic(Box<Synthetic>),
    /// A stand-in for a paper's workload.
    Paper(Paper),
    /// One of YCSB's workloads.
    Ycsb(Ycsb),
    /// Several of these, by weight.
    Mix(Mix),
    /// A recorded trace.
    Trace(Replay),
}

impl Workload {
    /// Checks it, for any system.
    ///
    /// # Errors
    /// The first invalid key, and what it could be.
    pub fn check(&self) -> Result<(), WorkloadError> {
        match self {
            Self::Synthetic(synthetic) => synthetic.check(),
            Self::Paper(paper) => paper.check(),
            Self::Ycsb(ycsb) => ycsb.check(),
            Self::Mix(mix) => mix.check(),
            Self::Trace(replay) => replay.check(),
        }
    }

    /// Opens it for a system of `capacity` bytes. Paths of traces are relative to `base`, the
    /// directory of the experiment's file.
    ///
    /// # Errors
    /// What [`check`](Self::check) finds, a system that is too small, or a trace that can't be
    /// read.
    pub fn open(&self, capacity: u64, seed: u64, base: &Path) -> Result<Stream, WorkloadError> {
        self.check()?;
        let mut random = Random::new(seed);
        let generated = |pacing: Option<&Pacing>, source, random| {
            let pacing = pacing.cloned().unwrap_or_default();
            let (pace, clock) = (pacing.pace(), Clock::new(&pacing));
            let generated = Box::new(Generated { clock, source, random });
            Stream { pace, source: Source::Generated(generated) }
        };
        Ok(match self {
            Self::Synthetic(synthetic) => {
                let source = synthetic::Generator::new(synthetic, capacity, &mut random)?;
                generated(synthetic.pace.as_ref(), Generator::Synthetic(source), random)
            }
            Self::Paper(paper) => {
                let synthetic = paper.synthetic();
                let source = synthetic::Generator::new(&synthetic, capacity, &mut random)?;
                generated(synthetic.pace.as_ref(), Generator::Synthetic(source), random)
            }
            Self::Ycsb(ycsb) => {
                let source = ycsb::Generator::new(ycsb, capacity, &mut random)?;
                generated(ycsb.pace.as_ref(), Generator::Ycsb(source), random)
            }
            Self::Mix(mix) => {
                let source = mix::Generator::new(mix, capacity, &mut random)?;
                generated(mix.pace.as_ref(), Generator::Mix(source), random)
            }
            Self::Trace(replay) => {
                let player = replay.open(capacity, base)?;
                Stream { pace: replay.pace(), source: Source::Trace(Box::new(player)) }
            }
        })
    }
}

/// The requests of a workload, in the order in which they come. Generated ones never end. After
/// an error there are no more.
#[derive(Debug)]
pub struct Stream {
    pace: Pace,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Generated(Box<Generated>),
    Trace(Box<Player>),
}

#[derive(Debug)]
struct Generated {
    clock: Clock,
    source: Generator,
    random: Random,
}

#[derive(Debug)]
enum Generator {
    Synthetic(synthetic::Generator),
    Ycsb(ycsb::Generator),
    Mix(mix::Generator),
}

impl Stream {
    /// What decides when the next request comes.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }
}

impl Iterator for Stream {
    type Item = Result<Arrival, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.source {
            Source::Generated(generated) => Some(Ok(generated.next())),
            Source::Trace(player) => player.next().map(|arrival| Ok(arrival?)),
        }
    }
}

impl Generated {
    fn next(&mut self) -> Arrival {
        let random = &mut self.random;
        let Ask { kind, offset, bytes } = match &mut self.source {
            Generator::Synthetic(generator) => generator.next(random),
            Generator::Ycsb(generator) => generator.next(random),
            Generator::Mix(generator) => generator.next(random),
        };
        Arrival { at: self.clock.next(random), kind, offset, bytes }
    }
}

/// An [`Arrival`] without its time.
#[derive(Clone, Copy, Debug)]
struct Ask {
    kind: Kind,
    offset: u64,
    bytes: u32,
}

impl Ask {
    const FLUSH: Self = Self { kind: Kind::Flush, offset: 0, bytes: 0 };
}

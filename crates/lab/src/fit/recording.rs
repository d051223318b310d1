//! What is asked of a drive, and what was recorded.

use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

/// The shortest probe, in seconds: a step of it is some tens of milliseconds.
const SECONDS_MIN: f64 = 1.0;

/// The longest probe, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// The fewest blocks of 4 KiB that a drive to be probed has: 16 MiB.
const BLOCKS_MIN: u64 = 4096;

/// Writes that are under way at a time in [`Step::Sustained`] and [`Step::Rested`].
pub(super) const WRITERS: u32 = 32;

/// A part of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Writes in sequence, until the time is over or all is written once.
    Fill,
    /// Random reads, so many at a time.
    Reads {
        /// How many are under way.
        depth: u32,
    },
    /// Random writes of a block, one at a time.
    Alone,
    /// Random writes of a block, 32 at a time, and one read at a time beside them.
    Sustained,
    /// As [`Step::Alone`], after [`Step::Sustained`]: the drive has to collect, and is not kept busy, so that
    /// one stall has ended before the next begins.
    Single,
    /// Nothing.
    Idle,
    /// As [`Step::Sustained`]; after idling.
    Rested,
}

/// What is asked of a drive at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Reads under way.
    pub readers: u32,
    /// Writes under way.
    pub writers: u32,
    /// The blocks of 4 KiB of each request.
    pub blocks: u32,
    /// Whether each write begins where the last one ended, and the step ends with the area.
    pub in_sequence: bool,
}

impl Step {
    /// What is asked of the drive.
    #[must_use]
    pub fn load(self) -> Load {
        let random = |readers, writers| Load { readers, writers, blocks: 1, in_sequence: false };
        match self {
            Self::Fill => Load { readers: 0, writers: 4, blocks: 32, in_sequence: true },
            Self::Reads { depth } => random(depth, 0),
            Self::Alone | Self::Single => random(0, 1),
            Self::Sustained | Self::Rested => random(1, WRITERS),
            Self::Idle => random(0, 0),
        }
    }
}

/// Why there is no such plan.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The time is out of range.
    #[error("a probe takes from {SECONDS_MIN} to {SECONDS_MAX} seconds, not {0}")]
    Seconds(f64),
    /// The drive is too small.
    #[error("a drive of {0} bytes is too small to be probed: it has to have at least 16 MiB")]
    Small(u64),
}

/// What is asked of a drive, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps and their seconds.
    pub steps: Vec<(Step, f64)>,
    /// How much of the drive may be used, from its start on, in blocks of 4 KiB.
    pub blocks: u64,
}

impl Plan {
    /// A probe of so many seconds of a drive with so many bytes, which writes or only reads.
    ///
    /// # Errors
    /// If the time is out of range or the drive is too small.
    pub fn new(seconds: f64, writes: bool, bytes: u64) -> Result<Self, PlanError> {
        if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
            return Err(PlanError::Seconds(seconds));
        }
        let blocks = bytes / BLOCK_BYTES as u64;
        if blocks < BLOCKS_MIN {
            return Err(PlanError::Small(bytes));
        }
        let reads = [1, 4, 16, 64].map(|depth| Step::Reads { depth });
        let steps = match writes {
            false => reads.map(|step| (step, seconds / 4.0)).into(),
            true => {
                let part = |step, part: f64| (step, part * seconds);
                let mut steps = vec![part(Step::Fill, 0.2)];
                steps.extend(reads.map(|step| part(step, 0.03)));
                steps.extend([
                    part(Step::Alone, 0.03),
                    part(Step::Sustained, 0.4),
                    part(Step::Single, 0.1),
                    part(Step::Idle, 0.1),
                    part(Step::Rested, 0.05),
                ]);
                steps
            }
        };
        Ok(Self { steps, blocks })
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.steps.iter().any(|(step, _)| step.load().writers > 0)
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it began, in nanoseconds since the step did.
    pub at: u64,
    /// How long it took, in nanoseconds.
    pub took: u64,
    /// Whether it was a read.
    pub read: bool,
}

impl Sample {
    /// When it ended, in nanoseconds since the step began.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.took)
    }
}

/// A step, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The step.
    pub step: Step,
    /// How long it lasted, in seconds: until no new request was begun.
    pub seconds: f64,
    /// Its requests, in the order in which they ended.
    pub samples: Vec<Sample>,
}

impl Recorded {
    /// Requests that ended, a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.samples.len() as f64 / self.seconds } else { 0.0 }
    }
}

/// What was recorded of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The drive's size in blocks of 4 KiB.
    pub blocks: u64,
    /// How many of them were filled and then overwritten at random; all if nothing was written.
    pub area: u64,
    /// The steps, in order.
    pub steps: Vec<Recorded>,
}

impl Recording {
    /// The most requests of a step that are recorded: it ends with them.
    pub const SAMPLES_MAX: usize = 4_000_000;

    /// What was recorded in a step, if there is any of it.
    #[must_use]
    pub fn step(&self, step: Step) -> Option<&Recorded> {
        let found = self.steps.iter().find(|recorded| recorded.step == step);
        found.filter(|recorded| !recorded.samples.is_empty())
    }
}

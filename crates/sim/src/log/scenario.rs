//! The scenario of a run: each seed draws its own.

use std::time::Duration;

use raidlog::{Choice, Cleaning, Config, Wish};
use serde::{Deserialize, Serialize};

use crate::play::Playable;
use crate::simpler::Simpler;
use crate::source::Source;

/// The scenario of a run. Kinds of requests have weights.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogScenario {
    /// The volume's parameters.
    #[serde(with = "WishParts")]
    pub wish: Wish,
    /// The most requests in flight.
    pub tags: u16,
    /// Segments of memory for users' writes.
    pub buffers: u16,
    /// Which segment a cleaner takes.
    #[serde(with = "ChoiceName")]
    pub choice: Choice,
    /// When a volume with one group cleans.
    #[serde(with = "CleaningName")]
    pub cleaning: Cleaning,
    /// Blocks of users' log between checkpoints.
    pub checkpoint: u64,
    /// The least ratio of those to the size of a checkpoint.
    pub checkpoint_share: u32,
    /// The most blocks of discards in a step.
    pub forget: u32,
    /// How many requests there are in all.
    pub requests: u32,
    /// How many lives: between two of them the power fails, or the volume is stopped.
    pub lives: u32,
    /// The most blocks of a request.
    pub blocks: u32,
    /// Half of all requests go to this many blocks.
    pub hot: u64,
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards.
    pub discard: u64,
    /// One write in this many has FUA; 0 is none.
    pub fua: u64,
    /// One read of groups in this many fails; 0 is none.
    pub bad_reads: u64,
    /// One write or flush of groups in this many fails; 0 is none.
    pub bad_writes: u64,
    /// Whether a power failure leaves blocks that are half written.
    pub torn: bool,
    /// The share of events, in percent, that are ends of I/O, where users don't decide it.
    pub pace: u64,
}

impl Playable for LogScenario {
    const NAME: &'static str = "log seed";
    const SALT: u64 = 0x6c6f_675f_766f_6c00;

    fn choose(source: &mut Source) -> Self {
        let groups = source.one_of(&[1, 1, 2, 3, 4]);
        let stripe = source.one_of(&[1, 3, 4, 8, 12]);
        let segment = source.one_of(&[8, 16, 24, 48]);
        let spare = source.one_of(&[200, 333, 500]);
        let wish = wish(groups, stripe, segment, spare, source.below(24));
        Self {
            wish,
            tags: source.one_of(&[1, 3, 8, 16]),
            buffers: source.one_of(&[2, 3, 6]),
            choice: source.one_of(&[Choice::Greedy, Choice::Greedy, Choice::CostBenefit]),
            cleaning: source.one_of(&[Cleaning::Blocking, Cleaning::Paced]),
            checkpoint: source.one_of(&[30, 200, 1000, 100_000]),
            forget: source.one_of(&[1, 3, 16, 1000]),
            requests: source.one_of(&[50, 300, 1000, 3000]),
            lives: 1 + source.below(4) as u32,
            blocks: source.one_of(&[1, 4, 20, 100]),
            hot: 1 + source.below(60),
            read: source.below(40),
            write: 20 + source.below(60),
            flush: source.one_of(&[0, 1, 5, 20]),
            discard: source.one_of(&[0, 0, 2, 10]),
            fua: source.one_of(&[0, 0, 3, 20]),
            bad_reads: source.one_of(&[0, 0, 0, 30]),
            bad_writes: source.one_of(&[0, 0, 0, 0, 0, 400]),
            torn: source.chance(2, 3),
            pace: source.one_of(&[30, 50, 80, 95]),
            checkpoint_share: source.one_of(&[0, 1, 16]),
        }
    }

    fn simpler(&self) -> Vec<Self> {
        let mut s = Simpler::than(self);
        s.with(|s| s.requests = (s.requests / 2).max(1));
        s.with(|s| s.requests = (s.requests * 3 / 4).max(1));
        s.with(|s| s.requests = s.requests.saturating_sub(1).max(1));
        s.with(|s| s.lives = 1);
        s.with(|s| s.lives = (s.lives - 1).max(1));
        s.with(|s| s.tags = s.tags.div_ceil(2));
        s.with(|s| s.buffers = 2);
        s.with(|s| s.blocks = s.blocks.div_ceil(2));
        s.with(|s| s.hot = s.hot.div_ceil(2));
        s.with(|s| s.choice = Choice::Greedy);
        s.with(|s| s.cleaning = Cleaning::Paced);
        s.with(|s| s.checkpoint = 100_000);
        s.with(|s| s.forget = 1000);
        s.with(|s| s.read = 0);
        s.with(|s| s.flush = 0);
        s.with(|s| s.discard = 0);
        s.with(|s| s.fua = 0);
        s.with(|s| s.bad_reads = 0);
        s.with(|s| s.bad_writes = 0);
        s.with(|s| s.torn = false);
        s.all
    }
}

impl LogScenario {
    /// The volume's configuration.
    pub(crate) fn config(&self) -> Config {
        Config {
            tags: self.tags,
            buffers: self.buffers,
            choice: self.choice,
            cleaning: self.cleaning,
            checkpoint: self.checkpoint,
            checkpoint_share: self.checkpoint_share,
            patience: Duration::from_millis(10),
            forget: self.forget,
        }
    }
}

/// A volume with `more` segments in each group beyond its minimum.
pub(crate) fn wish(groups: usize, stripe: u32, segment: u32, spare: u32, more: u64) -> Wish {
    let unit = u64::from(stripe) * 8u64.div_ceil(stripe.into());
    let blocks = u64::from(segment).next_multiple_of(unit);
    let part = |of: u64| of.div_ceil(spare.into());
    let least = 6 + part(2 * (1000 - u64::from(spare))) + part(2000);
    // There are few pages: four units are enough for them and the headers.
    let group_blocks = 4 * unit + 16 + (least + more + 1) * blocks;
    Wish { groups, group_blocks, stripe, segment, spare }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Wish", deny_unknown_fields)]
struct WishParts {
    groups: usize,
    group_blocks: u64,
    stripe: u32,
    segment: u32,
    spare: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Choice", rename_all = "kebab-case")]
enum ChoiceName {
    Greedy,
    CostBenefit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cleaning", rename_all = "lowercase")]
enum CleaningName {
    Blocking,
    Paced,
}

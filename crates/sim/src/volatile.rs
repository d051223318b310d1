//! A write cache in memory above the array of a world.

use std::time::Duration;

use raidcore::engine::{Engine, Hold};
use raidcore::meta::Assembled;
use raidlog::cache::CacheConfig;
use raidlog::{CachedArray, Machine};
use serde::{Deserialize, Serialize};

use crate::hold::AnyOrder;
use crate::source::Source;

/// A write cache in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volatile {
    /// Its memory in blocks.
    pub blocks: u32,
    /// The most blocks of a write that is held.
    pub most: u32,
    /// How many requests of its own it has at most.
    pub own_tags: u16,
    /// How long what is held may stay, in microseconds.
    pub linger: u64,
    /// Whether it comes home in another order than by age when room is wanted.
    pub orders: bool,
    /// Whether starts may accept that writes were lost.
    pub accepts: bool,
}

impl Volatile {
    /// One for an array of this chunk.
    pub(crate) fn choose(source: &mut Source, chunk: u32) -> Self {
        Self {
            // Mostly so little that it is always full.
            blocks: source.one_of(&[0, 20, 24, 40, 100, 1000]),
            most: source.one_of(&[1, 2, 4, 16, 2 * chunk]),
            own_tags: source.one_of(&[1, 3, 16, 64]),
            linger: source.one_of(&[50, 1000, 20_000, 5_000_000]),
            orders: source.chance(1, 2),
            accepts: source.chance(1, 2),
        }
    }

    /// The configuration, for so many requests of users.
    pub(crate) fn config(&self, tags: u16) -> CacheConfig {
        CacheConfig {
            tags,
            own_tags: self.own_tags,
            blocks: self.blocks,
            most_blocks: self.most,
            linger: Duration::from_micros(self.linger),
        }
    }

    /// Whether a start of this array accepts that writes were lost.
    pub(crate) fn accepts_loss(&self, assembled: &Assembled, source: &mut Source) -> bool {
        self.accepts && assembled.record.has_lost_writes() && source.chance(1, 2)
    }

    /// The cache above this engine.
    pub(crate) fn above(&self, tags: u16, engine: Engine) -> Machine {
        let order = self.orders.then(|| Box::<AnyOrder>::default() as Box<dyn Hold>);
        Machine::Cached(Box::new(CachedArray::new(self.config(tags), engine, order)))
    }
}

/// Blocks that a write cache in memory has held.
pub(crate) fn cached(machine: &Machine) -> u64 {
    machine.cached().map_or(0, |array| array.cache().status().counters.held_blocks)
}

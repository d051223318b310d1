//! Worlds with a write cache in memory above the array.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Engine, Hold};
use raidcore::meta::Assembled;
use raidcore::units::DeviceId;
use raidlog::cache::CacheConfig;
use raidlog::{CachedArray, Machine};
use serde::{Deserialize, Serialize};

use crate::hold::AnyOrder;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::world::{around, config};

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
}

impl Scenario {
    /// The same behind a write cache in memory, drawn by `seed`.
    #[must_use]
    pub fn cached(mut self, seed: u64) -> Self {
        let mut source = Source::seed(seed ^ 0xcac_4ed5);
        let chunk = self.chunk;
        self.volatile = Some(Volatile {
            // Mostly so little that it is always full.
            blocks: source.one_of(&[0, 20, 24, 40, 100, 1000]),
            most: source.one_of(&[1, 2, 4, 16, 2 * chunk]),
            own_tags: source.one_of(&[1, 3, 16, 64]),
            linger: source.one_of(&[50, 1000, 20_000, 5_000_000]),
            orders: source.chance(1, 2),
        });
        self.tags = self.tags.max(2);
        let load = &mut self.load;
        load.blocks = source.one_of(&[1, 2, 5, load.blocks, load.blocks]);
        load.flush = source.one_of(&[0, 1, 1, 3]);
        load.fua = source.one_of(&[0, 2, 8, 20]);
        (load.discard, load.zeroes) = (source.one_of(&[0, 1, 2]), source.one_of(&[0, 1, 2]));
        self.requests = source.one_of(&[100, 100, 300]);
        self
    }
}

/// A machine: an engine, behind a cache if the scenario has one.
pub(crate) fn start(
    scenario: &Scenario,
    assembled: Assembled,
    devices: &[Option<DeviceId>],
    source: &mut Source,
    now: Instant,
) -> Machine {
    let mut config = config(scenario, source);
    let cache = scenario.volatile.map(|volatile| CacheConfig {
        tags: scenario.tags,
        own_tags: volatile.own_tags,
        blocks: volatile.blocks,
        most_blocks: volatile.most,
        linger: Duration::from_micros(volatile.linger),
    });
    if let Some(cache) = &cache {
        config = CachedArray::engine_config(cache, config);
    }
    let mut engine = Engine::new(config, assembled, devices, now, 1_800_000_000);
    engine.set_steering(around(scenario));
    let Some(cache) = cache else { return Machine::Array(Box::new(engine)) };
    let orders = scenario.volatile.is_some_and(|volatile| volatile.orders);
    let order = orders.then(|| Box::<AnyOrder>::default() as Box<dyn Hold>);
    Machine::Cached(Box::new(CachedArray::new(cache, engine, order)))
}

/// Blocks that a write cache in memory has held.
pub(crate) fn cached(machine: &Machine) -> u64 {
    machine.cached().map_or(0, |array| array.cache().status().counters.held_blocks)
}

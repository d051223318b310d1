//! A write cache in memory above an array.

use std::time::Duration;

use det::Instant;
use raidcore::engine::Engine;
use raidlog::cache::CacheStatus;
use raidlog::{CachedArray, Machine};

use super::HostConfig;

/// The state of a write cache in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheState {
    /// How it is.
    pub status: CacheStatus,
    /// For how long the oldest write is held of which something is not at home.
    pub oldest: Option<Duration>,
}

/// The machine of an array: its engine, behind a cache if it is to have one.
pub(super) fn machine(config: &HostConfig, engine: Engine) -> Machine {
    let Some(cache) = config.cache_config() else { return Machine::Array(Box::new(engine)) };
    let order = config.scheme.cache().order_in_memory();
    Machine::Cached(Box::new(CachedArray::new(cache, engine, order)))
}

/// The state of the cache, if there is one.
pub(super) fn state(now: Instant, machine: &Machine) -> Option<CacheState> {
    let status = machine.cached()?.cache().status();
    Some(CacheState { status, oldest: status.oldest.map(|since| now - since) })
}

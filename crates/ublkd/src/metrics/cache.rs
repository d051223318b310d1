//! Metrics of a write cache in memory.

use raidcore::units::BLOCK_BYTES;

use super::text::Text;
use crate::control::Facts;
use crate::host::CacheState;

/// Those of the cache above an array.
pub(super) fn volatile(text: &mut Text, facts: &Facts, cache: &CacheState) {
    let name = ("array", &*facts.name);
    let (status, c) = (&cache.status, &cache.status.counters);
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let gauges = [
        ("evenkeel_cache_capacity_bytes", "What the cache in memory can hold.", status.room.into()),
        ("evenkeel_cache_bytes", "In memory, not at home yet.", u64::from(status.held)),
        (
            "evenkeel_cache_stuck_bytes",
            "In memory, and could not be brought home: flushes fail.",
            u64::from(status.stuck),
        ),
    ];
    for (metric, help, blocks) in gauges {
        text.gauge(metric, help).sample(&[name], bytes(blocks));
    }
    text.gauge(
        "evenkeel_cache_oldest_seconds",
        "For how long the oldest write has been in memory of which something is not at home.",
    )
    .sample(&[name], cache.oldest.map_or(0.0, |age| age.as_secs_f64()));
    let counters = [
        ("evenkeel_cache_written_bytes_total", "Written to memory.", bytes(c.held_blocks)),
        (
            "evenkeel_cache_again_bytes_total",
            "Of these, what took the place of what was in memory of the same blocks.",
            bytes(c.rewritten_blocks),
        ),
        ("evenkeel_cache_read_bytes_total", "Read from memory.", bytes(c.read_blocks)),
        ("evenkeel_cache_home_bytes_total", "Brought home from memory.", bytes(c.home_blocks)),
        (
            "evenkeel_cache_failures_total",
            "How often something could not be brought home.",
            c.failed_trips,
        ),
        ("evenkeel_cache_waits_total", "Writes that had to wait for room.", c.waits),
    ];
    counters
        .into_iter()
        .for_each(|(metric, help, value)| text.counter(metric, help).sample(&[name], value));
}
